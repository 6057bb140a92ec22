// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/entry.h"

#include "base/file/file.h"
#include "base/options/help.h"
#include "cmd/common/common.h"
#include "cmd/common/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static const char CONFIG_FILE[] = "etc/kmodsmith/kmodsmith.conf";

static const struct cmd *find_command(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (str_eq(commands[i]->name, name))
			return commands[i];
	return NULL;
}

const struct cmd *entry_find(int argc, char **argv, int *ret_words)
{
	auto_str char *both = argc > 1 ? str_fmt("%s %s", argv[0], argv[1]) : NULL;
	const struct cmd *cmd = both ? find_command(both) : NULL;
	*ret_words = cmd ? 2 : 1;
	return cmd || strchr(argv[0], ' ') ? cmd : find_command(argv[0]);
}

// The next file to be opened would get the number of a closed standard descriptor, and output would land in it. Opened
// read-only on /dev/null, writes fail as they should.
void entry_open_stdio(void)
{
	struct err ignored;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			file_open_arg("/dev/null", O_RDONLY, &ignored);
}

static void show_failure(const struct err *err, bool is_json)
{
	log_err(err);
	if (!is_json)
		return;
	auto_json json_t *failure = show_failure_json(err);
	show_json(failure);
}

// The status, unless the output was lost: a full disk under standard output is not a success.
static int flush_results(int status)
{
	struct err err;
	if (fflush(show_results()) != 0 || fflush(stdout) != 0)
		err_set(&err, errno, "write the result to standard output");
	else if (ferror(show_results()) || ferror(stdout)) // of an earlier write, whose reason is gone
		err_set(&err, E_SYSTEM, "write the result to standard output: a part of it was lost");
	else
		return status;
	show_failure(&err, false);
	return err_info(err.code)->exit_status;
}

static int show_usage(const struct group *group, bool is_error)
{
	auto_str char *text = group ? usage_group(group, usage_width()) : usage_all(usage_width());
	fprintf(is_error ? stderr : stdout, "%s", text);
	return is_error ? err_info(E_USAGE)->exit_status : flush_results(0);
}

static char *command_hint(const char *word)
{
	auto_strv struct strv names = { 0 };
	for (size_t i = 0; commands[i]; i++)
		strv_add(&names, str_dup(commands[i]->name));
	for (const struct group *g = groups; g->name; g++)
		strv_add(&names, str_dup(g->name));
	return opt_hint(word, &names);
}

// Whether a word is among the arguments, even if others are wrong.
static bool has_word(int argc, char **argv, const char *word)
{
	for (int i = 1; i < argc && !str_eq(argv[i], "--"); i++)
		if (str_eq(argv[i], word))
			return true;
	return false;
}

// Whether JSON is asked for, even if other arguments are wrong. cmd NULL = there is no such command.
static bool wants_json(const struct cmd *cmd, int argc, char **argv)
{
	if (has_word(argc, argv, "--json"))
		return true;
	if (cmd && !opt_output_json(cmd))
		return false;
	for (int i = 1; i + 1 < argc && !str_eq(argv[i], "--"); i++)
		if ((str_eq(argv[i], "-o") || str_eq(argv[i], "--output")) && str_eq(argv[i + 1], "json"))
			return true;
	return has_word(argc, argv, "-ojson") || has_word(argc, argv, "--output=json");
}

// argv[0] is no command; it may be a group.
static int refuse_unknown(int argc, char **argv)
{
	struct err err;
	const struct group *group = usage_find_group(argv[0]);
	bool is_early_option = argv[0][0] == '-' && argc > 1 && find_command(argv[1]);
	auto_str char *hint = command_hint(argv[0]);
	if (group && (argc == 1 || str_eq(argv[1], "--help") || str_eq(argv[1], "-h")))
		return show_usage(group, argc == 1);
	if (group) {
		auto_strv struct strv verbs = { 0 };
		for (size_t i = 0; commands[i]; i++)
			if (usage_group_of(commands[i]) == group)
				strv_add(&verbs, str_dup(commands[i]->name + strlen(group->name) + 1));
		auto_str char *known = strv_join(&verbs, ", ");
		auto_str char *nearest = opt_hint(argv[1], &verbs);
		err_set(&err, E_USAGE, "'%s' has no verb '%s'; it has %s%s", group->name, argv[1], known, nearest);
	} else if (is_early_option) {
		err_set(&err, E_USAGE, "'%s' stands before the command; options come after it", argv[0]);
	} else if (*hint) {
		err_set(&err, E_USAGE, "unknown command '%s'%s", argv[0], hint);
	} else {
		err_set(&err, E_USAGE, "unknown command '%s'", argv[0]);
	}
	if (is_early_option)
		err_next(&err, "`kmodsmith %s %s`", argv[1], argv[0]);
	else
		err_next(&err, "`kmodsmith %s%s--help` lists its %s", group ? group->name : "", group ? " " : "",
			 group ? "verbs" : "commands");
	show_failure(&err, wants_json(NULL, argc, argv));
	return err_info(err.code)->exit_status;
}

static int read_named_config(const char *path, char **ret, struct err *err)
{
	struct stat st;
	auto_fd int fd = file_open_arg(path, O_RDONLY | O_NONBLOCK, err);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
		err_set(err, E_CONFIG, "'%s' is not a regular file", path);
	else if (fd >= 0 && file_read(fd, path, ret, NULL, err) == 0)
		return 1;
	err_wrap(err, "KMODSMITH_CONFIG");
	return err_code(err, E_CONFIG);
}

// Our environment variables that belong to no option: read here and elsewhere, or by the hooks of package managers and
// the scripts of the source tree, from whose shells the program may be started.
static const char *const variables[] = {
	"KMODSMITH_CONFIG",      "KMODSMITH_KEY_PASSWORD", "KMODSMITH_OPENAT2", "KMODSMITH_CACHE",   "KMODSMITH_INPUTS",
	"KMODSMITH_INPUTS_ARCH", "KMODSMITH_ACCEL",        "KMODSMITH_BASE",    "KMODSMITH_RUN_DIR", NULL
};

// Driver, package, source and digest all say which driver: who types one of them asks for another one than is
// configured. --bundle and --from say where packages are and --payload what an image has, so --driver stands beside
// them. A driver that was typed leaves a configured package and source in force, too: it may come from there.
static const struct opt_rank ranks[] = {
	{ "driver", "package" },
	{ "driver", "source" },
	{ "driver", "digest" },
	{ "digest", "driver" },
	{ "digest", "package" },
	{ "digest", "source" },
	{ "source", "package" },
	{ "source", "digest" },
	{ "package", "source" },
	{ "package", "bundle" },
	{ "package", "from" },
	{ "bundle", "package" },
	{ "source-sha256", "source" }, // it is of another file
	{ 0 },
};

struct entry_input {
	struct opt_input opt;
	char *name, *text;
};

static void entry_input_done(struct entry_input *i)
{
	free(i->name);
	free(i->text);
}
#define auto_entry_input __attribute__((cleanup(entry_input_done)))

// KMODSMITH_CONFIG names a file that must exist; the default one may be absent.
static int entry_input_read(int argc, char **argv, struct entry_input *ret, struct err *err)
{
	const char *named = getenv("KMODSMITH_CONFIG");
	bool is_named = named && *named;
	auto_root struct root slash = ROOT_NONE;
	ret->name = is_named ? str_dup(named) : str_fmt("/%s", CONFIG_FILE);
	if ((is_named ? read_named_config(named, &ret->text, err) : root_init(&slash, "/", err)) < 0 ||
	    (!is_named && root_read(&slash, CONFIG_FILE, &ret->text, NULL, err) < 0))
		return -1;
	ret->opt = (struct opt_input){ .all = commands,
				       .variables = variables,
				       .ranks = ranks,
				       .config_name = ret->name,
				       .config = ret->text,
				       .argc = argc,
				       .argv = argv };
	return 0;
}

static int setup_log(const struct common *c, struct err *err)
{
	log_setup(c->is_quiet   ? LOG_LEVEL_WARN :
		  c->is_verbose ? LOG_LEVEL_DEBUG :
				  LOG_LEVEL_INFO,
		  str_eq(c->log_format, "json"));
	return c->is_quiet ? show_json_only(err) : 0;
}

static int show_help(const struct cmd *cmd, bool is_all)
{
	auto_str char *help = help_command(cmd, is_all, usage_width());
	printf("%s", help);
	return 0;
}

int entry_values(const struct cmd *cmd, int argc, char **argv, void *values)
{
	auto_entry_input struct entry_input in = { 0 };
	struct opt_parsed parsed;
	struct err ignored;
	return entry_input_read(argc, argv, &in, &ignored) < 0 ||
			       opt_parse(cmd, &in.opt, values, &parsed, &ignored) != 0 ?
		       -1 :
		       0;
}

// The command that this process runs.
static struct {
	const struct opt_input *in;
	const struct opt_parsed *parsed;
	const void *values;
} running;

void entry_add_origin(struct err *err)
{
	if (running.in)
		opt_blame(running.in, running.parsed, running.values, err);
}

enum opt_source entry_source_of(const char *option)
{
	return running.in ? opt_source_of(running.parsed, option) : OPT_DEFAULT;
}

void entry_add_arguments(struct strv *ret)
{
	for (int i = 1; running.in && i < running.in->argc; i++)
		strv_add(ret, str_dup(running.in->argv[i]));
}

const char *entry_config_name(void)
{
	return running.in ? running.in->config_name : NULL;
}

bool entry_is_configured(const char *option)
{
	enum opt_source by = entry_source_of(option);
	return by == OPT_FILE || by == OPT_ENV;
}

int entry_reparse(const struct cmd *cmd, void *values, struct err *err)
{
	struct opt_parsed parsed;
	return opt_parse(cmd, running.in, values, &parsed, err) < 0 ? -1 : 0;
}

int entry_configured(const struct cmd *cmd, void *values, struct opt_parsed *ret, struct err *err)
{
	char *nothing[] = { running.in->argv[0], NULL };
	struct opt_input in = *running.in;
	struct cmd any = *cmd;
	any.args_min = 0;
	in.argc = 1;
	in.argv = nothing;
	return opt_parse(&any, &in, values, ret, err);
}

char *entry_origin_text(const struct opt_origin *o)
{
	return o->by == OPT_ENV ? str_fmt("the environment variable %s", o->opt->env) :
				  str_fmt("'%s', line %u", running.in->config_name, o->line);
}

// Without the values, which may be a proxy's password.
static void log_option_origins(const struct opt_parsed *parsed)
{
	for (size_t i = 0; i < parsed->opts; i++) {
		const struct opt_origin *o = &parsed->origins[i];
		if (o->by != OPT_FILE && o->by != OPT_ENV)
			continue;
		auto_str char *by = entry_origin_text(o);
		if (o->to)
			log_info("--%s, set by %s, gives way to --%s", o->opt->name, by, o->to);
		else
			log_debug("--%s is set by %s", o->opt->name, by);
	}
}

int entry_run(const struct cmd *cmd, int argc, char **argv)
{
	auto_entry_input struct entry_input in = { 0 };
	struct opt_parsed parsed;
	struct err err = { 0 };
	bool is_all = has_word(argc, argv, "--help-all");
	if (is_all || has_word(argc, argv, "--help")) // works whatever is wrong with configuration and environment
		return flush_results(show_help(cmd, is_all));
	show_command(cmd->name);
	void *values = mem_alloc(cmd->values_size);
	int r = entry_input_read(argc, argv, &in, &err) < 0 ? -1 : opt_parse(cmd, &in.opt, values, &parsed, &err);
	if (r > 0) {
		r = show_help(cmd, r == OPT_HELP_ALL);
	} else if (r == 0) {
		running.in = &in.opt;
		running.parsed = &parsed;
		running.values = values;
		r = setup_log(values, &err);
		if (r == 0) {
			log_option_origins(&parsed);
			r = cmd->run(values, parsed.args, parsed.count, &err);
		}
		if (r < 0)
			entry_add_origin(&err);
		running.in = NULL;
	}
	if (r < 0) {
		if (err.code == E_USAGE && !*err.next)
			err_next(&err, "`kmodsmith %s --help` shows its options", cmd->name);
		show_failure(&err, ((const struct common *)values)->is_json || wants_json(cmd, argc, argv));
		if (cmd->failed)
			cmd->failed(values, &err);
	}
	opt_done(cmd, values);
	free(values);
	return r < 0 ? err_info(err.code)->exit_status : flush_results(r);
}

int entry_run_words(int argc, char **argv)
{
	int words;
	const struct cmd *cmd = entry_find(argc, argv, &words);
	return cmd ? entry_run(cmd, argc - words + 1, argv + words - 1) : refuse_unknown(argc, argv);
}

static int show_version(bool is_json)
{
	auto_json json_t *version = json_pack("{s:s, s:s?}", "version", KMODSMITH_VERSION, "commit", version_commit());
	show_command("version");
	if (is_json)
		show_json(version);
	else if (version_commit())
		printf("kmodsmith %s (commit %s)\n", KMODSMITH_VERSION, version_commit());
	else
		printf("kmodsmith %s\n", KMODSMITH_VERSION);
	return flush_results(0);
}

// `kmodsmith help store gc`
static int help_words(int argc, char **argv)
{
	int words;
	const struct cmd *cmd = entry_find(argc, argv, &words);
	const struct group *group = usage_find_group(argv[0]);
	if (cmd && argc == words)
		return flush_results(show_help(cmd, false));
	return group && argc == 1 ? show_usage(group, false) : refuse_unknown(argc, argv);
}

int entry_main(int argc, char **argv)
{
	bool is_help = argc > 1 && str_eq(argv[1], "help");
	if (is_help && argc > 2 && *argv[2] != '-')
		return help_words(argc - 2, argv + 2);
	if (argc < 2 || is_help || str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))
		return show_usage(NULL, argc < 2);
	if (!str_eq(argv[1], "--version") && !str_eq(argv[1], "version") && !str_eq(argv[1], "-V"))
		return entry_run_words(argc - 1, argv + 1);
	return show_version(wants_json(NULL, argc - 1, argv + 1));
}
