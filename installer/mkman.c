// SPDX-License-Identifier: Apache-2.0
// Writes the manual pages, as scdoc text, from the tables that the program itself runs on: `mkman NAME` for a command,
// `mkman kmodsmith` for the overview, `mkman errors` for the error codes, `mkman reasons` for those of a rollout.
// `mkman markdown BLOCK` writes a part of a page in docs/ from the same tables; scripts/docs.sh puts it there. `mkman
// conf` writes a configuration file whose every line is a comment. Only the build calls it.
#include "cluster/node_state/states.h"
#include "cmd/common/common.h"

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
	"*kmodsmith-reasons*(7)\n"
	"\twhy a node does not move in a rollout\n"
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
	printf("kmodsmith-errors(7)\n\n# NAME\n\n"
	       "kmodsmith-errors - error codes, what they mean and what to do\n\n"
	       "# DESCRIPTION\n\n"
	       "Every refusal has one of these codes. *kmodsmith explain* CODE prints the same. In brackets is the\n"
	       "reason that conditions, metrics and the termination log of a pod have for the code.\n\n"
	       "# CODES\n\n");
	for (int code = E_SYSTEM; code < E_LAST_; code++) {
		const struct err_info *e = err_info(code);
		printf("*%s* (%s)\n\t", e->name, e->reason);
		print_text(e->text);
		printf(". Next: ");
		print_text(e->next);
		printf(". Exit status %d%s.\n\n", e->exit_status, e->retryable ? "; may pass when tried again" : "");
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

static int reasons_page(void)
{
	printf("kmodsmith-reasons(7)\n\n# NAME\n\n"
	       "kmodsmith-reasons - why a node does not move in a rollout, and what to do\n\n# DESCRIPTION\n\n"
	       "*kmodsmith rollout status* shows the reason of each node, the Node's annotation _kmodsmith.io/reason_\n"
	       "begins with it, and *kmodsmith rollout why* NODE prints every rule with its answer.\n\n# REASONS\n\n");
	for (enum reason_code r = 0; r < REASON_COUNT; r++) {
		printf("*%s*\n\t", node_reason_info(r)->code);
		print_text(node_reason_info(r)->text);
		printf(". Next: ");
		print_text(node_reason_info(r)->next);
		printf(".\n\n");
	}
	printf("# SEE ALSO\n\n*kmodsmith-rollout-status*(8), *kmodsmith-rollout-why*(8), *kmodsmith-policy*(7), "
	       "*kmodsmith-errors*(7)\n");
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
	       "# --help-all`, kmodsmith(8). `kmodsmith config show` says which hold.\n");
	for (size_t i = 0; commands[i]; i++)
		for (size_t k = 0; k < ARRAY_SIZE(keys) && str_eq(commands[i]->name, "install"); k++)
			print_conf_option(commands[i], keys[k]);
	return 0;
}

static const struct block {
	const char *name;
	void (*print)(void);
} blocks[] = { { "commands", commands_table }, { "options", options_table } };

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
	if (str_eq(name, "conf"))
		return sample_conf();
	if (str_eq(name, "errors"))
		return errors_page();
	if (str_eq(name, "reasons"))
		return reasons_page();
	fprintf(stderr, "mkman: no page '%s'\n", name);
	return 2;
}
