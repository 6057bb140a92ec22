// SPDX-License-Identifier: Apache-2.0
// Writes the manual pages, as scdoc text, from the tables that the program itself runs on: `mkman NAME` for a command,
// `mkman kmodsmith` for the overview, `mkman errors` for the error codes. `mkman markdown BLOCK` writes a part of a
// page in docs/ from the same tables; scripts/docs.sh puts it there. `mkman bash-completion`, `fish-completion` and
// `zsh-completion` write what their names say, `mkman conf` a configuration file whose every line is a comment. Only
// the build calls it.
#include "cluster/node_state/states.h"
#include "cmd/common/common.h"

#include <ctype.h>
#include <stdio.h>

// scdoc takes some characters for markup, and more of them at the beginning of a line.
static void print_escaped(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (strchr("_*\\#<>[]~`|", text[i]) || (i == 0 && strchr("-.;", text[i])))
			putchar('\\');
		putchar(text[i]);
	}
}

static void print_text(const char *text)
{
	print_escaped(text, strlen(text));
}

// Lines that start with blanks are examples.
static void print_about(const char *about)
{
	bool is_literal = false;
	while (*about) {
		size_t len = strcspn(about, "\n");
		bool is_example = str_starts(about, "  ");
		if (is_example != is_literal)
			printf(is_example ? "\n```\n" : "```\n\n");
		is_literal = is_example;
		for (size_t i = 0; is_example && i < len; i++) {
			if (about[i] == '\\') // the only markup in a literal block
				putchar('\\');
			putchar(about[i]);
		}
		if (!is_example)
			print_escaped(about, len);
		putchar('\n');
		about += len + (about[len] == '\n');
	}
	if (is_literal)
		printf("```\n");
}

static void print_option(const struct opt *o)
{
	if (o->letter)
		printf("*-%c*, ", o->letter);
	printf("*--%s*", o->name);
	if (o->arg) {
		printf(" ");
		print_text(o->arg);
	}
	printf("\n\t");
	print_text(o->help);
	if (o->env)
		printf(". Environment: *%s*", o->env);
	printf("\n\n");
}

static void page_end(void)
{
	printf("# SEE ALSO\n\n*kmodsmith*(8), *kmodsmith-errors*(7)\n");
}

// "store gc" has the page kmodsmith-store-gc.
static char *page_of(const struct cmd *cmd)
{
	char *page = str_dup(cmd->name);
	for (char *p = page; (p = strchr(p, ' '));)
		*p = '-';
	return page;
}

static const struct cmd *command_of(const char *page)
{
	for (size_t i = 0; commands[i]; i++) {
		auto_str char *its = page_of(commands[i]);
		if (str_eq(its, page))
			return commands[i];
	}
	return NULL;
}

static int command_page(const struct cmd *cmd)
{
	auto_str char *page = page_of(cmd);
	printf("kmodsmith-%s(8)\n\n# NAME\n\nkmodsmith-%s - ", page, page);
	print_text(cmd->help);
	printf("\n\n# SYNOPSIS\n\n*kmodsmith %s* \\[OPTIONS\\] ", cmd->name);
	print_text(cmd->args ? cmd->args : "");
	printf("\n\n# DESCRIPTION\n\n");
	print_about(cmd->about);
	printf("\n# OPTIONS\n\n");
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name; o++)
			print_option(o);
	printf("*-h*, *--help*\n\tthe options on standard output\n\n");
	if (cmd->often)
		printf("*--help-all*\n\tevery option, also the rare ones\n\n");
	page_end();
	return 0;
}

static const char overview_end[] =
	"# MORE PAGES\n"
	"\n"
	"*kmodsmith-cdi*(7)\n"
	"\tGPUs in containers without NVIDIA's container toolkit\n"
	"\n"
	"*kmodsmith-daemons*(7)\n"
	"\twhich of the driver's daemons run, and how they are supervised\n"
	"\n"
	"*kmodsmith-errors*(7)\n"
	"\tevery error code and what to do\n"
	"\n"
	"*kmodsmith-kernels*(7)\n"
	"\ta package for the next kernel before the reboot\n"
	"\n"
	"*kmodsmith-matrix*(7)\n"
	"\tdrivers x kernels to build packages for\n"
	"\n"
	"*kmodsmith-operator*(7)\n"
	"\tbeside NVIDIA's GPU Operator\n"
	"\n"
	"*kmodsmith-patches*(7)\n"
	"\tsource patches for driver and kernel pairs\n"
	"\n"
	"*kmodsmith-policy*(7)\n"
	"\tthe policy of a rollout\n"
	"\n"
	"*kmodsmith-recovery*(7)\n"
	"\thow a driver is replaced, and what happens if that fails\n"
	"\n"
	"*kmodsmith-trust*(7)\n"
	"\twhose packages a machine accepts\n"
	"\n"
	"# FILES\n"
	"\n"
	"_/etc/kmodsmith/kmodsmith.conf_\n"
	"\tlines KEY = VALUE; a key is the name of an option without its dashes. An unknown key is\n"
	"\tan error, and a comment has a line of its own. *KMODSMITH_CONFIG* names another file. The\n"
	"\tenvironment overrides the file, the command line overrides both, also in other words: with a\n"
	"\tdriver in the file, a source or a package on the command line is what is installed.\n"
	"\n"
	"_/etc/kmodsmith/trust_\n"
	"\tpublic keys of those whose packages are accepted, and _policy.json_\n"
	"\n"
	"_/var/lib/kmodsmith_\n"
	"\tpackages, unpacked headers, logs of compiles, journal and scratch space of this machine\n"
	"\n"
	"_/run/kmodsmith/status.json_\n"
	"\twhat the last run measured, for other programs\n"
	"\n"
	"# ENVIRONMENT\n"
	"\n"
	"Each command's page names the variables of its options. A variable that begins with *KMODSMITH\\_*\n"
	"and that no command knows is an error, unless it is one that Kubernetes sets in every container\n"
	"for a Service of such a name.\n"
	"\n"
	"*KMODSMITH_CONFIG*\n"
	"\tanother configuration file\n"
	"\n"
	"*KMODSMITH_KEY_PASSWORD*\n"
	"\tpassphrase of a key file, or PIN of a token\n"
	"\n"
	"# EVENTS\n"
	"\n"
	"Events go to standard error, one a line. With *--log-format json* each is an object: _ts_, _level_,\n"
	"_msg_ and, inside a phase, _step_; at its end _seconds_ and what it found; of an error _code_,\n"
	"_reason_, _retryable_ and _next_. *--quiet* leaves only errors and warnings, and of the results only\n"
	"JSON. *--verbose* adds each program that is run, each request, and what was decided from what.\n"
	"\n"
	"# RESULTS\n"
	"\n"
	"Results go to standard output: as text, or with *--json* as one document. *-o json* and *--output json*\n"
	"mean the same, where a command has no *--output* of its own.\n"
	"\n"
	"# EXIT STATUS\n"
	"\n"
	"*0*\n"
	"\tdone\n"
	"\n"
	"*1*\n"
	"\tfailed; of a command that checks something: no. With *--json* the result has the code,\n"
	"\tand says whether a retry can help\n"
	"\n"
	"*2*\n"
	"\twrong command line or configuration\n"
	"\n"
	"*10*, *20*, *30*\n"
	"\tof *kmodsmith-check*(8): compatible, needs-build, impossible\n"
	"\n";

static int overview_page(void)
{
	printf("kmodsmith(8)\n\n# NAME\n\nkmodsmith - install the NVIDIA kernel driver on GPU nodes and keep it "
	       "working\n\n"
	       "# SYNOPSIS\n\n*kmodsmith* COMMAND \\[OPTIONS\\] \\[ARGUMENTS\\]\n\n# DESCRIPTION\n\n"
	       "kmodsmith finds or compiles NVIDIA's kernel modules, proves that they fit the running kernel,\n"
	       "loads them and creates the device nodes. A running driver is not touched before the proof.\n\n"
	       "# COMMANDS\n\n");
	for (size_t i = 0; commands[i]; i++) {
		auto_str char *page = page_of(commands[i]);
		printf("*kmodsmith-%s*(8)\n\t", page);
		print_text(commands[i]->help);
		printf("\n\n");
	}
	printf("%s", overview_end);
	page_end();
	return 0;
}

static int errors_page(void)
{
	printf("kmodsmith-errors(7)\n\n# NAME\n\nkmodsmith-errors - error codes, what they mean and what to do\n\n# "
	       "CODES\n\n");
	for (int code = E_SYSTEM; code < E_LAST_; code++) {
		const struct err_info *e = err_info(code);
		printf("*%s*\n\t", e->name);
		print_text(e->text);
		printf(". Next: ");
		print_text(e->next);
		printf(".\n\n");
		size_t count;
		const struct err_cause *causes = err_causes(code, &count);
		for (size_t i = 0; i < count; i++) {
			printf("\t- ");
			print_text(causes[i].cause);
			printf(": *");
			print_text(causes[i].command);
			printf("*\n");
		}
		printf("\n");
	}
	page_end();
	return 0;
}

// Markdown takes these for markup, and | for the end of a table's cell, in code too.
static void print_markdown(const char *text)
{
	bool is_code = false;
	for (; *text; text++) {
		is_code ^= *text == '`';
		if (*text == '|' || (!is_code && strchr("<*", *text)))
			putchar('\\');
		putchar(*text);
	}
}

static void commands_table(void)
{
	printf("| command | what it does |\n|---|---|\n");
	for (size_t i = 0; commands[i]; i++) {
		auto_str char *line = str_fmt("`%s%s%s`", commands[i]->name, commands[i]->args ? " " : "",
					      commands[i]->args ? commands[i]->args : "");
		printf("| ");
		print_markdown(line);
		printf(" | ");
		print_markdown(commands[i]->help);
		printf(" |\n");
	}
}

static const struct opt *same_option(const struct cmd *cmd, const struct opt *o)
{
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *its = cmd->opts[t]; its->name; its++)
			if (str_eq(its->name, o->name) && str_eq(its->help, o->help))
				return its;
	return NULL;
}

// "all", or the first commands with this option.
static char *names_with(const struct opt *o)
{
	enum { MOST = 4 };
	auto_strv struct strv names = { 0 };
	size_t total = 0, count = 0;
	for (; commands[total]; total++)
		if (same_option(commands[total], o) && ++count <= MOST)
			strv_add(&names, str_dup(commands[total]->name));
	char *text = count == total ? str_dup("all") : strv_join(&names, ", ");
	if (count < total && count > MOST)
		str_add(&text, " and %zu more", count - MOST);
	return text;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct opt *const *)a)->name, (*(const struct opt *const *)b)->name);
}

// Each option once, whichever commands have it; twice where two commands mean something else by it.
static void options_table(void)
{
	const struct opt *options[1024] = { 0 };
	size_t count = 0;
	for (size_t i = 0; commands[i]; i++)
		for (size_t t = 0; t < ARRAY_SIZE(commands[i]->opts) && commands[i]->opts[t]; t++)
			for (const struct opt *o = commands[i]->opts[t]; o->name; o++) {
				size_t before = 0;
				while (before < i && !same_option(commands[before], o))
					before++;
				if (before == i && count < ARRAY_SIZE(options))
					options[count++] = o;
			}
	qsort(options, count, sizeof(*options), by_name);
	printf("| option | environment | meaning | commands |\n|---|---|---|---|\n");
	for (size_t i = 0; i < count; i++) {
		const struct opt *o = options[i];
		auto_str char *names = names_with(o);
		auto_str char *option = str_fmt("`--%s%s%s`", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
		printf("| ");
		print_markdown(option);
		printf(o->env ? " | `%s` | " : " | %s | ", o->env ? o->env : "");
		print_markdown(o->help);
		printf(" | %s |\n", names);
	}
}

static void errors_sections(void)
{
	for (int code = E_SYSTEM; code < E_LAST_; code++) {
		const struct err_info *e = err_info(code);
		printf("### %s\n\n%c", e->name, toupper((unsigned char)*e->text));
		print_markdown(e->text + 1);
		printf(".\n\n**Next:** ");
		print_markdown(e->next);
		printf(".\n\n");
		size_t count;
		const struct err_cause *causes = err_causes(code, &count);
		for (size_t i = 0; i < count; i++) {
			printf("%zu. %c", i + 1, toupper((unsigned char)*causes[i].cause));
			print_markdown(causes[i].cause + 1);
			printf(": `%s`\n", causes[i].command);
		}
		printf("\nExit status %d; retryable: %s; reason in conditions and metrics: `%s`.\n\n", e->exit_status,
		       e->retryable ? "yes" : "no", e->reason);
	}
}

static void reasons_table(void)
{
	printf("| reason | what it means | what to do |\n|---|---|---|\n");
	for (enum reason_code r = 0; r < REASON_COUNT; r++) {
		printf("| `%s` | ", node_reason_info(r)->code);
		print_markdown(node_reason_info(r)->text);
		printf(" | ");
		print_markdown(node_reason_info(r)->next);
		printf(" |\n");
	}
}

// "-f | --flavour" as a pattern of the shell's case.
static void print_pattern(const struct opt *o, bool *is_first)
{
	printf("%s", *is_first ? "    " : " | ");
	if (o->letter)
		printf("-%c | ", o->letter);
	printf("--%s", o->name);
	*is_first = false;
}

static bool is_path_argument(const char *arg)
{
	static const char *const paths[] = { "FILE", "DIR", "PATH", "ROOT", "LAYOUT", "SOURCE", "DEST" };
	arg += strspn(arg, "[");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (str_starts(arg, paths[i]))
			return true;
	return false;
}

// Those options that take a path, or those that take a value of no known kind.
static void completion_patterns(const struct cmd *cmd, bool want_path, const char *action)
{
	bool is_first = true;
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name; o++) {
			auto_strv struct strv choices = { 0 };
			if (o->arg && !opt_choices(o, &choices) && is_path_argument(o->arg) == want_path)
				print_pattern(o, &is_first);
		}
	if (!is_first)
		printf(") %s ;;\n", action);
}

static void completion_choices(const struct cmd *cmd)
{
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name; o++) {
			auto_strv struct strv choices = { 0 };
			bool is_first = true;
			if (!opt_choices(o, &choices))
				continue;
			auto_str char *words = strv_join(&choices, " ");
			print_pattern(o, &is_first);
			printf(") words='%s' ;;\n", words);
		}
}

static void completion_command(const struct cmd *cmd)
{
	const struct opt args = { .arg = cmd->args };
	auto_strv struct strv words = { 0 };
	if (str_eq(cmd->name, "explain"))
		for (int code = E_SYSTEM; code < E_LAST_; code++)
			strv_add(&words, str_dup(err_info(code)->name));
	else
		opt_choices(&args, &words);
	auto_str char *positional = strv_join(&words, " ");
	printf("  '%s')\n    options='--help%s", cmd->name, cmd->often ? " --help-all" : "");
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name; o++)
			printf(" --%s", o->name);
	printf("'\n    words='%s'%s\n    case $previous in\n", positional,
	       cmd->args && is_path_argument(cmd->args) ? " paths=1" : "");
	completion_choices(cmd);
	completion_patterns(cmd, true, "words='' paths=1");
	completion_patterns(cmd, false, "return");
	printf("    esac\n    ;;\n");
}

// The groups, or the verbs of one.
// Of a command, of a verb, or of a group of verbs.
static const char *completion_help(const char *group, const char *name)
{
	auto_str char *whole = group ? str_fmt("%s %s", group, name) : str_dup(name);
	for (size_t i = 0; commands[i]; i++)
		if (str_eq(commands[i]->name, whole))
			return commands[i]->help;
	for (const struct group *g = groups; g->name; g++)
		if (!group && str_eq(g->name, name))
			return g->help;
	return "";
}

static char *completion_names(const char *group)
{
	auto_strv struct strv names = { 0 };
	for (size_t i = 0; commands[i]; i++) {
		const char *blank = strchr(commands[i]->name, ' ');
		auto_str char *first = blank ? str_ndup(commands[i]->name, (size_t)(blank - commands[i]->name)) :
					       str_dup(commands[i]->name);
		if (group ? blank && str_eq(first, group) : !strv_has(&names, first))
			strv_add(&names, str_dup(group ? blank + 1 : first));
	}
	return strv_join(&names, " ");
}

static void print_comment(const char *text)
{
	enum { WIDTH = 98 };
	while (strlen(text) > WIDTH) {
		size_t len = WIDTH;
		while (len > 0 && text[len] != ' ')
			len--;
		printf("# %.*s\n", (int)len, text);
		text += len + 1;
	}
	printf("# %s\n", text);
}

static void print_conf_option(const struct cmd *cmd, const char *name)
{
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name; o++)
			if (str_eq(o->name, name)) {
				putchar('\n');
				print_comment(o->help);
				printf("#%s = %s\n", o->name, o->arg ? o->arg : "yes");
			}
}

// What most machines say, if anything.
static int sample_conf(void)
{
	static const char *const keys[] = { "driver", "from",   "source",     "flavour",     "holders",
					    "param",  "export", "module-key", "module-cert", "trust-dir" };
	printf("# What kmodsmith does where neither the command line nor the environment says otherwise:\n"
	       "# NAME = VALUE, one a line. At boot, kmodsmith.service runs `kmodsmith install` with what is\n"
	       "# here: name at least a driver. Each option of a command is a key, too: `kmodsmith install\n"
	       "# --help-all`, kmodsmith(8). --verbose says which values hold, and where they are from.\n");
	for (size_t i = 0; commands[i]; i++)
		for (size_t k = 0; k < ARRAY_SIZE(keys) && str_eq(commands[i]->name, "install"); k++)
			print_conf_option(commands[i], keys[k]);
	return 0;
}

static void print_fish_help(const char *help)
{
	printf(" -d '");
	for (; *help; help++)
		printf(strchr("'\\", *help) ? "\\%c" : "%c", *help);
	printf("'\n");
}

static void fish_names(const char *group)
{
	auto_str char *all = completion_names(group);
	auto_strv struct strv names = { 0 };
	strv_split(&names, all, " ");
	for (size_t i = 0; i < names.count; i++) {
		printf("complete -c kmodsmith -n '__fish_at_kmodsmith %s' -a %s", group ? group : "", names.items[i]);
		print_fish_help(completion_help(group, names.items[i]));
	}
}

static void fish_option(const struct cmd *cmd, const struct opt *o)
{
	auto_strv struct strv choices = { 0 };
	printf("complete -c kmodsmith -n '__fish_in_kmodsmith %s' -l %s", cmd->name, o->name);
	if (o->letter)
		printf(" -s %c", o->letter);
	if (o->arg && opt_choices(o, &choices)) {
		auto_str char *words = strv_join(&choices, " ");
		printf(" -x -a '%s'", words);
	} else if (o->arg) {
		printf(is_path_argument(o->arg) ? " -r -F" : " -x");
	}
	print_fish_help(o->help);
}

static int fish_completion(void)
{
	printf("# fish completion of kmodsmith, generated by mkman from the program's table of options\n"
	       "function __fish_at_kmodsmith\n  set -l words (commandline -opc)[2..]\n  test \"$words\" = "
	       "\"$argv\"\nend\n"
	       "function __fish_in_kmodsmith\n  set -l words (commandline -opc)[2..]\n"
	       "  string match -q -- \"$argv *\" \"$words \"\nend\n"
	       "complete -c kmodsmith -f\n");
	fish_names(NULL);
	for (const struct group *g = groups; g->name; g++)
		fish_names(g->name);
	for (size_t i = 0; commands[i]; i++) {
		if (commands[i]->args && is_path_argument(commands[i]->args))
			printf("complete -c kmodsmith -n '__fish_in_kmodsmith %s' -F\n", commands[i]->name);
		for (size_t t = 0; t < ARRAY_SIZE(commands[i]->opts) && commands[i]->opts[t]; t++)
			for (const struct opt *o = commands[i]->opts[t]; o->name; o++)
				fish_option(commands[i], o);
	}
	return 0;
}

static void print_zsh_text(const char *text)
{
	for (; *text; text++)
		printf(*text == '\'' ? "'\\''" : strchr("[]:\\", *text) ? "\\%c" : "%c", *text);
}

static void zsh_names(const char *group)
{
	auto_str char *all = completion_names(group);
	auto_strv struct strv names = { 0 };
	strv_split(&names, all, " ");
	for (size_t i = 0; i < names.count; i++) {
		printf("      '%s:", names.items[i]);
		print_zsh_text(completion_help(group, names.items[i]));
		printf("'\n");
	}
}

// As _arguments(1) of zshcompsys takes one.
static void zsh_option(const struct opt *o)
{
	auto_strv struct strv choices = { 0 };
	auto_str char *words = o->arg && opt_choices(o, &choices) ? strv_join(&choices, " ") : NULL;
	const char *action = words ? words : o->arg && is_path_argument(o->arg) ? "_files" : " ";
	for (int is_letter = !o->letter; is_letter < 2; is_letter++) {
		if (is_letter)
			printf("      '--%s%s[", o->name, o->arg ? "=" : "");
		else
			printf("      '-%c%s[", o->letter, o->arg ? "+" : "");
		print_zsh_text(o->help);
		printf("]");
		if (o->arg) {
			printf(":");
			print_zsh_text(o->arg);
			printf(words ? ":(%s)" : ":%s", action);
		}
		printf("'\n");
	}
}

static void zsh_command(const struct cmd *cmd)
{
	const struct opt args = { .arg = cmd->args };
	auto_strv struct strv choices = { 0 };
	printf("  '%s')\n    options=(\n      '--help[the options on standard output]'\n", cmd->name);
	if (cmd->often)
		printf("      '--help-all[every option, also the rare ones]'\n");
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name; o++)
			zsh_option(o);
	if (cmd->args && opt_choices(&args, &choices)) {
		auto_str char *words = strv_join(&choices, " ");
		printf("      '1:argument:(%s)'\n", words);
	} else if (cmd->args) {
		printf("      '*:");
		print_zsh_text(cmd->args);
		printf(":%s'\n", is_path_argument(cmd->args) ? "_files" : " ");
	}
	printf("    )\n    ;;\n");
}

static int zsh_completion(void)
{
	printf("#compdef kmodsmith\n"
	       "# zsh completion of kmodsmith, generated by mkman from the program's table of options\n"
	       "local -a names options\n"
	       "local command=$words[2]\n"
	       "shift words\n(( CURRENT-- ))\n"
	       "if (( CURRENT == 1 )); then\n"
	       "    names=(\n");
	zsh_names(NULL);
	printf("    )\n  _describe -t commands command names\n  return\nfi\ncase $command in\n");
	for (const struct group *g = groups; g->name; g++) {
		printf("  %s)\n    names=(\n", g->name);
		zsh_names(g->name);
		printf("    )\n    ;;\n");
	}
	printf("esac\n"
	       "if (( $#names )); then\n"
	       "  command+=\" $words[2]\"\n"
	       "  shift words\n  (( CURRENT-- ))\n"
	       "  if (( CURRENT == 1 )); then\n    _describe -t commands verb names\n    return\n  fi\nfi\n"
	       "case $command in\n");
	for (size_t i = 0; commands[i]; i++)
		zsh_command(commands[i]);
	printf("esac\n(( $#options )) && _arguments -s -S : $options\n");
	return 0;
}

static int bash_completion(void)
{
	auto_str char *all = completion_names(NULL);
	printf("# bash completion of kmodsmith, generated by mkman from the program's table of options\n"
	       "_kmodsmith() {\n"
	       "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
	       "  local first=1 command='' options='' words='' paths=''\n"
	       "  COMPREPLY=()\n"
	       "  # --flavour=open is three words\n"
	       "  if [ \"$current\" = = ]; then\n    current=''\n"
	       "  elif [ \"$previous\" = = ]; then\n    previous=${COMP_WORDS[COMP_CWORD - 2]}\n  fi\n"
	       "  [ \"${COMP_WORDS[1]}\" != help ] || first=2\n"
	       "  command=${COMP_WORDS[first]}\n"
	       "  if ((COMP_CWORD <= first)); then\n"
	       "    words='%s'\n    ((first == 2)) || words+=' help --help --version'\n"
	       "    command=''\n  fi\n"
	       "  case $command in\n",
	       all);
	for (const struct group *g = groups; g->name; g++) {
		auto_str char *verbs = completion_names(g->name);
		printf("  %s)\n    if ((COMP_CWORD == first + 1)); then\n      words='%s' command=''\n    else\n"
		       "      command+=\" ${COMP_WORDS[first + 1]}\"\n    fi\n    ;;\n",
		       g->name, verbs);
	}
	printf("  esac\n  case $command in\n");
	for (size_t i = 0; commands[i]; i++)
		completion_command(commands[i]);
	printf("  esac\n"
	       "  [ \"$first\" = 1 ] || [ -z \"$command\" ] || return\n"
	       "  case $current in -*) words=$options paths='' ;; esac\n"
	       "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
	       "  if [ -n \"$paths\" ]; then\n    compopt -o filenames 2>/dev/null\n"
	       "    mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$current\")\n  fi\n"
	       "}\n"
	       "complete -F _kmodsmith kmodsmith\n");
	return 0;
}

static const struct block {
	const char *name;
	void (*print)(void);
} blocks[] = { { "commands", commands_table },
	       { "options", options_table },
	       { "errors", errors_sections },
	       { "reasons", reasons_table } };

int main(int argc, char **argv)
{
	if (argc == 3 && str_eq(argv[1], "markdown")) {
		for (size_t i = 0; i < ARRAY_SIZE(blocks); i++)
			if (str_eq(blocks[i].name, argv[2])) {
				blocks[i].print();
				return 0;
			}
		fprintf(stderr, "mkman: no block '%s'\n", argv[2]);
		return 2;
	}
	const char *name = argc == 2 ? argv[1] : "";
	const struct cmd *cmd = command_of(name);
	if (cmd)
		return command_page(cmd);
	if (str_eq(name, "kmodsmith"))
		return overview_page();
	if (str_eq(name, "bash-completion"))
		return bash_completion();
	if (str_eq(name, "fish-completion"))
		return fish_completion();
	if (str_eq(name, "zsh-completion"))
		return zsh_completion();
	if (str_eq(name, "conf"))
		return sample_conf();
	if (str_eq(name, "errors"))
		return errors_page();
	fprintf(stderr, "mkman: no page '%s'\n", name);
	return 2;
}
