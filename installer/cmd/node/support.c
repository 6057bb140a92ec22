// SPDX-License-Identifier: Apache-2.0
// support: what somebody needs who helps with a node. The results of other commands come from processes of their own,
// with a deadline, because a node that needs help may let them hang or crash.
#include "cmd/node/support.h"

#include "base/archive/pack.h"
#include "base/core/date.h"
#include "base/file/file.h"
#include "base/process/launch.h"
#include "base/process/proc.h"
#include "cmd/common/job.h"

#include <stdio.h>
#include <sys/mman.h>

struct values {
	struct common common;
	char *output, *state_dir, *kubeconfig;
	bool is_dry, is_anonymous;
};

static const struct opt opts[] = {
	{ "output", 'o', "FILE", NULL, OPT_STR, offsetof(struct values, output),
	  "the archive (tar, gzip); - is standard output; default: kmodsmith-support-HOST-DATE.tar.gz here" },
	{ "dry-run", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_dry),
	  "list what would be in it, write nothing" },
	{ "anonymous", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_anonymous),
	  "names of machines become host-1, host-2, ..., IP and MAC addresses address-1, ..., the same one "
	  "everywhere" },
	{ "kubeconfig", 0, "FILE", "KUBECONFIG", OPT_STR, offsetof(struct values, kubeconfig),
	  "how to reach the Kubernetes API outside a pod with a service account; NODE_NAME names this node" },
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir),
	  "state directory; default /var/lib/kmodsmith of the host" },
	{ 0 },
};

// Not plan: it keeps in the state directory which catalogues it has seen.
extern const struct cmd cmd_status, cmd_doctor, cmd_config_show, cmd_trust_ls;

struct said { // by a command: its document, and the rest
	char *document, *rest;
	bool is_within;
};

static void take_line(void *ctx, const char *line)
{
	struct said *said = ctx;
	said->is_within |= str_eq(line, "{");
	char **to = said->is_within ? &said->document : &said->rest;
	if (!*to || strlen(*to) < SUPPORT_FILE_MOST)
		str_add(to, "%s\n", line);
	said->is_within &= !str_eq(line, "}");
}

static void run_command(struct support *s, const struct values *v, const struct cmd *cmd, const char *about)
{
	enum { DEADLINE_MS = 30000 };
	static const struct opt *const tables[] = { opts, common_opts, NULL };
	auto_strv struct strv words = { 0 }, ignored = { 0 };
	struct said said = { 0 };
	struct proc_end end = { 0 };
	struct err err = { 0 };
	strv_add(&words, str_dup(LAUNCH_SELF));
	strv_split(&words, cmd->name, " ");
	opt_words(tables, v, cmd, &words, &ignored);
	const struct proc proc = { .argv = (const char *const *)words.items,
				   .env = (const char *const *)environ,
				   .timeout_ms = DEADLINE_MS,
				   .line = take_line,
				   .ctx = &said };
	int r = proc_run(&proc, &end, &err);
	auto_str char *name = str_fmt("%s.json", cmd->name), *why = NULL;
	for (char *blank; (blank = strchr(name, ' '));)
		*blank = '-';
	if (said.document)
		support_add(s, name, about, said.document);
	if (said.rest || !said.document || end.is_timed_out || end.signal)
		why = r < 0            ? str_dup(err.text) :
		      end.is_timed_out ? str_fmt("did not end within %d s", DEADLINE_MS / 1000) :
		      end.signal       ? str_fmt("was ended by signal %d", end.signal) :
					 str_fmt("said: %s", said.rest ? str_trim(said.rest) : "nothing");
	if (why)
		support_add_missing(s, name, why);
	free(said.rest);
}

// None is made for a reader; doctor, which would, gets the directory above: that is the file system it asks about.
static void open_state(const struct values *v, const struct machine *m, struct root *ret, char **ret_dir)
{
	struct err ignored;
	static const char *const places[] = { "var/lib", "var", "." }, *const stores[] = { "var/lib/store",
											   "var/store" };
	size_t i = 0;
	if (job_state_existing(v->state_dir, m, ret, &ignored) == 0 && ret->fd >= 0) {
		*ret_dir = root_path(ret, ".");
		return;
	}
	while (i + 1 < ARRAY_SIZE(places) && (!root_exists(&m->host, places[i]) || root_exists(&m->host, stores[i])))
		i++;
	*ret_dir = root_path(&m->host, places[i]);
}

static void collect(struct support *s, const struct values *v, char *state_dir, const char *node)
{
	struct values of_commands = *v;
	of_commands.state_dir = state_dir;
	of_commands.common.is_json = of_commands.common.is_quiet = true;
	auto_str char *now = date_text(time(NULL));
	support_add(s, "version.txt", "this program, and when it wrote this",
		    str_fmt("kmodsmith %s %s\n%s\n", KMODSMITH_VERSION, version_commit() ? version_commit() : "", now));
	run_command(s, &of_commands, &cmd_status, "facts, and whether the driver works");
	run_command(s, &of_commands, &cmd_doctor, "the preconditions of an install");
	run_command(s, &of_commands, &cmd_config_show, "the configuration, and where each value is from");
	run_command(s, &of_commands, &cmd_trust_ls, "trusted keys, by their fingerprints, and the policy");
	support_read_kernel_log(s);
	support_read_cluster(s, v->kubeconfig, node);
	support_read_files(s);
}

// Proxies are also named without a scheme, and hosts that need none with a dot before them.
static void add_proxies(struct redact *r, const struct support_file *config)
{
	size_t i;
	json_t *item;
	auto_json json_t *shown = json_loads(config->text, 0, NULL);
	json_array_foreach(json_object_get(shown, "items"), i, item)
	{
		const char *key = json_string_value(json_object_get(item, "key"));
		auto_strv struct strv hosts = { 0 };
		if (key && str_ends(key, "proxy") && json_is_string(json_object_get(item, "value")))
			strv_split(&hosts, json_string_value(json_object_get(item, "value")), ", ");
		for (size_t h = 0; h < hosts.count; h++) {
			auto_str char *url = str_fmt("://%s", hosts.items[h] + strspn(hosts.items[h], ".*"));
			redact_add_hosts(r, url);
		}
	}
}

// Removes secrets, then what is too much in all. The names of machines are known only when all was read.
static void redact_all(struct support *s, const struct values *v, const char *node, const char *host)
{
	auto_redact struct redact r = { .is_anonymous = v->is_anonymous };
	uint64_t total = 0;
	redact_add_environment(&r, environ);
	redact_add_name(&r, node);
	redact_add_name(&r, host);
	auto_str char *first = str_ndup(host, strcspn(host, "."));
	redact_add_name(&r, first);
	for (size_t i = 0; i < s->count; i++) {
		redact_add_hosts(&r, s->files[i].text);
		if (str_eq(s->files[i].name, "config-show.json"))
			add_proxies(&r, &s->files[i]);
	}
	if (s->missing)
		redact_add_hosts(&r, s->missing);
	for (size_t i = 0; i < s->count; i++) {
		struct support_file *f = &s->files[i];
		auto_str char *text = TAKE(f->text);
		f->text = redact_text(&r, text);
		total += strlen(f->text);
		if (total <= SUPPORT_MOST)
			continue;
		total -= strlen(f->text);
		support_add_missing(s, f->name, "left out: the archive would be too large");
		str_set(&f->text, "(left out: the archive would be too large)\n");
	}
	auto_str char *missing = s->missing ? redact_text(&r, s->missing) : str_dup("nothing is missing\n");
	support_add(s, "missing.txt", "what is not here, and why", TAKE(missing));
}

static int write_archive(const struct support *s, int fd, struct err *err)
{
	auto_pack struct pack *pack = NULL;
	if (pack_new(fd, "archive", PACK_GZIP, &pack, err) < 0)
		return -1;
	for (size_t i = 0; i < s->count; i++) {
		auto_str char *name = str_fmt("kmodsmith-support/%s", s->files[i].name);
		if (pack_data(pack, name, s->files[i].text, strlen(s->files[i].text), err) < 0)
			return -1;
	}
	return pack_close(pack, NULL, NULL, NULL, err);
}

// By way of memory, so that it is written whole or not at all.
static int write_output(const struct support *s, const char *output, struct err *err)
{
	struct stat st;
	auto_root struct root dir = ROOT_NONE;
	auto_str char *bytes = NULL;
	size_t len;
	auto_fd int fd = memfd_create("support", MFD_CLOEXEC);
	if (fd < 0)
		return file_fail("make", "support", err);
	if (write_archive(s, fd, err) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    file_read(fd, "support", &bytes, &len, err) < 0)
		return -1;
	if (str_eq(output, "-"))
		return file_write(fileno(show_results()), "standard output", bytes, len, err);
	const char *name;
	if (show_output_dir(output, &dir, &name, err) < 0)
		return -1;
	int r = root_stat(&dir, name, &st, err);
	if (r > 0 && !S_ISREG(st.st_mode))
		return err_set(err, E_USAGE, "--output '%s' is there and no regular file", output);
	return r < 0 ? -1 : root_write(&dir, name, bytes, len, 0600, err);
}

static json_t *list_files(const struct support *s, bool is_json, bool is_stdout)
{
	auto_strv struct strv rows = { 0 };
	json_t *list = json_array();
	for (size_t i = 0; i < s->count; i++) {
		const struct support_file *f = &s->files[i];
		strv_add(&rows, str_fmt("%s\t%zu\t%s", f->name, strlen(f->text), f->about));
		json_array_append_new(list, json_pack("{s:o, s:I, s:s}", "name", json_text(f->name), "bytes",
						      (json_int_t)strlen(f->text), "about", f->about));
		if (is_stdout)
			log_info("%s: %zu bytes: %s", f->name, strlen(f->text), f->about);
	}
	if (!is_json && !is_stdout)
		show_table(&rows);
	fflush(stdout);
	return list;
}

static char *default_name(const char *host)
{
	char date[sizeof("20270115-080000")] = "";
	time_t now = time(NULL);
	strftime(date, sizeof(date), "%Y%m%d-%H%M%S", gmtime(&now));
	char *name = str_fmt("kmodsmith-support%s%s-%s.tar.gz", host ? "-" : "", host ? host : "", date);
	for (char *c = name; (c = strchr(c, '/'));)
		*c = '-';
	return name;
}

static int run_support(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_root struct root state = ROOT_NONE;
	auto_str char *state_dir = NULL, *host = NULL;
	const char *node = getenv("NODE_NAME");
	struct err ignored;
	bool is_stdout = str_eq(v->output, "-");
	if (is_stdout && v->common.is_json)
		return err_set(err, E_USAGE, "--json and --output - both mean standard output");
	if (machine_open(&v->common, &m, err) < 0)
		return -1;
	if (root_line(&m.host, "etc/hostname", &host, &ignored) <= 0 || !*host)
		root_line(&m.kern, "proc/sys/kernel/hostname", &host, &ignored);
	host = host && *host ? host : str_dup("unknown");
	node = node && *node ? node : host;
	auto_support struct support s = { .machine = &m, .state = &state };
	open_state(v, &m, &state, &state_dir);
	collect(&s, v, state_dir, node);
	redact_all(&s, v, node, host);
	auto_json json_t *list = list_files(&s, v->common.is_json, is_stdout);
	auto_str char *output = v->output ? str_dup(v->output) : default_name(v->is_anonymous ? NULL : node);
	if (!v->is_dry && write_output(&s, output, err) < 0)
		return -1;
	if (v->common.is_json) {
		auto_json json_t *json = json_pack("{s:o, s:b, s:b, s:O}", "output", json_text(output), "dry_run",
						   v->is_dry, "anonymous", v->is_anonymous, "files", list);
		show_json(json);
	} else if (!v->is_dry && !is_stdout) {
		printf("written: %s; look into it before you give it away\n", output);
	}
	return 0;
}

const struct cmd cmd_support = {
	.name = "support",
	.help = "write an archive with what somebody needs who helps with this node",
	.about = "Facts, status, doctor, configuration, journal, kernel log lines of the driver, modprobe.d, packages\n"
		 "and trusted keys; the Node and its Events where a Kubernetes API answers within five\n"
		 "seconds. Passwords, tokens and keys are removed. Changes nothing; what cannot be read is in\n"
		 "missing.txt. It lists each file before it writes them, less than 20 MiB, readable by its owner\n"
		 "alone.\n\n"
		 "  kmodsmith support --dry-run\n"
		 "  kmodsmith support --anonymous -o node.tar.gz\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_support,
};
