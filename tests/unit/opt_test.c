// SPDX-License-Identifier: Apache-2.0
#include "base/opt.h"
#include "tests/unit/test.h"

struct values {
	char *text;
	struct strv list;
	unsigned number;
	bool is_flag;
};

static const struct opt opts[] = {
	{ "text", 't', "TEXT", "OPT_TEST_TEXT", OPT_STR, offsetof(struct values, text), "a text" },
	{ "list", 0, "A,B", "OPT_TEST_LIST", OPT_LIST, offsetof(struct values, list), "a list" },
	{ "number", 'n', "N", NULL, OPT_UINT, offsetof(struct values, number), "a number" },
	{ "flag", 'f', NULL, "OPT_TEST_FLAG", OPT_FLAG, offsetof(struct values, is_flag), "a flag" },
	{ 0 },
};
static const struct opt foreign_opts[] = { { "foreign", 0, "X", NULL, OPT_STR, 0, "of another command" }, { 0 } };
static const struct cmd cmd = {
	.name = "try", .args = "[A]", .args_max = 1, .help = "h", .about = "a\n", .opts = { opts }
};
static const struct cmd other = { .name = "other", .opts = { foreign_opts } };
static const struct cmd *const all[] = { &cmd, &other, NULL };

struct row {
	const char *name, *config, *env_text, *env_list, *args; // args: separated by blanks
	int result, code;
	const char *text, *list;
	unsigned number;
	bool is_flag;
	size_t count; // positional
};

static const struct row rows[] = {
	{ .name = "nothing", .args = "" },
	{ .name = "flags", .args = "--text=x -n 7 --flag A", .text = "x", .number = 7, .is_flag = true, .count = 1 },
	{ .name = "letters", .args = "-t x -f", .text = "x", .is_flag = true },
	{ .name = "a list grows within one source", .args = "--list a,b --list c", .list = "a b c" },
	{ .name = "file",
	  .config = "# comment\n\n text = from file \nlist=a,b\nflag = yes\n",
	  .text = "from file",
	  .list = "a b",
	  .is_flag = true },
	{ .name = "environment beats file",
	  .config = "text = file\nlist = a,b",
	  .env_text = "env",
	  .env_list = "c",
	  .text = "env",
	  .list = "c" },
	{ .name = "flag beats environment",
	  .env_text = "env",
	  .env_list = "c",
	  .args = "--text flag --list d",
	  .text = "flag",
	  .list = "d" },
	{ .name = "a flag can be turned off in the file", .config = "flag = off" },
	{ .name = "a key of another command is no mistake", .config = "foreign = 1" },
	{ .name = "help", .args = "--help", .result = 1 },
	{ .name = "unknown key", .config = "text = x\nnonsense = 1", .result = -1, .code = E_CONFIG },
	{ .name = "no key", .config = "just words", .result = -1, .code = E_CONFIG },
	{ .name = "bad value in the file", .config = "number = many", .result = -1, .code = E_CONFIG },
	{ .name = "unknown option", .args = "--nonsense", .result = -1, .code = E_USAGE },
	{ .name = "unknown letter", .args = "-z", .result = -1, .code = E_USAGE },
	{ .name = "value missing", .args = "--text", .result = -1, .code = E_USAGE },
	{ .name = "no number", .args = "--number -1", .result = -1, .code = E_USAGE },
	{ .name = "number too large", .args = "--number 4294967296", .result = -1, .code = E_USAGE },
	{ .name = "too many arguments", .args = "A B", .result = -1, .code = E_USAGE },
};

static void set_env(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static void check_row(const struct row *row)
{
	auto_strv struct strv argv = { 0 };
	struct values values = { 0 };
	struct err err = { 0 };
	char **args = NULL;
	size_t count = 0;
	strv_add(&argv, str_dup("try"));
	strv_split(&argv, row->args ? row->args : "", " ");
	set_env("OPT_TEST_TEXT", row->env_text);
	set_env("OPT_TEST_LIST", row->env_list);
	int r = opt_parse(&cmd, all, (int)argv.count, argv.items, row->config, &values, &args, &count, &err);
	expect(r == row->result, row->name);
	if (r < 0)
		expect(err.code == row->code && *err.text, row->name);
	if (r == 0) {
		auto_str char *list = strv_join(&values.list, " ");
		expect(str_eq(values.text, row->text) || (!values.text && !row->text), row->name);
		expect(str_eq(list, row->list ? row->list : ""), row->name);
		expect(values.number == row->number && values.is_flag == row->is_flag && count == row->count,
		       row->name);
	}
	opt_done(&cmd, &values);
}

static void parses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

static void help_names_every_option(void **state)
{
	(void)state;
	auto_str char *help = opt_help(&cmd);
	for (const struct opt *o = opts; o->name; o++) {
		expect(strstr(help, o->name) && strstr(help, o->help), o->name);
		expect(!o->env || strstr(help, o->env), o->name);
	}
}

// Values told to another command are those that it reads.
static void words_are_read_back(void **state)
{
	(void)state;
	static const struct opt other_opts[] = {
		{ "list", 0, "A,B", NULL, OPT_LIST, offsetof(struct values, list), "a list" },
		{ "flag", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_flag), "a flag" },
		{ "text", 0, "X", NULL, OPT_STR, offsetof(struct values, text), "a text" },
		{ "number", 0, NULL, NULL, OPT_FLAG, 0, "of the same name, and something else" },
		{ 0 },
	};
	static const struct cmd child = { .name = "child", .opts = { other_opts } };
	static const struct cmd *const commands[] = { &child, NULL };
	const struct opt *const tables[] = { opts, NULL };
	struct values v = { .text = str_dup(" --a b"), .number = 7, .is_flag = true }, back = { 0 };
	auto_strv struct strv words = { 0 };
	struct err err;
	char **args;
	size_t count;
	strv_split(&v.list, "x,y z", ",");
	strv_add(&words, str_dup("child"));
	opt_words(tables, &v, &child, &words);
	auto_str char *line = strv_join(&words, "|");
	assert_string_equal(line, "child|--text= --a b|--list=x|--list=y z|--flag");
	assert_int_equal(opt_parse(&child, commands, (int)words.count, words.items, NULL, &back, &args, &count, &err),
			 0);
	assert_string_equal(back.text, v.text);
	assert_int_equal(back.list.count, 2);
	assert_true(back.is_flag);
	opt_done(&cmd, &v);
	opt_done(&cmd, &back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses),
		cmocka_unit_test(help_names_every_option),
		cmocka_unit_test(words_are_read_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
