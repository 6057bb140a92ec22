// SPDX-License-Identifier: Apache-2.0
#include "base/options/help.h"
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
	const char *name, *config, *env_text, *env_list, *env_flag, *args; // args: separated by blanks
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
	{ .name = "blanks around the parts of a list are none of them",
	  .config = "list = a,  b c ,\t, d,",
	  .list = "a b c d" },
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
	{ .name = "a bad value in the environment", .env_flag = "maybe", .result = -1, .code = E_CONFIG },
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

static struct opt_input input(const struct cmd *const *commands, const char *config, const struct strv *argv)
{
	return (struct opt_input){ .all = commands,
				   .config_name = "site.conf",
				   .config = config,
				   .argc = (int)argv->count,
				   .argv = argv->items };
}

static void check_row(const struct row *row)
{
	auto_strv struct strv argv = { 0 };
	struct values values = { 0 };
	struct opt_parsed parsed;
	struct err err = { 0 };
	strv_add(&argv, str_dup("try"));
	strv_split(&argv, row->args ? row->args : "", " ");
	set_env("OPT_TEST_TEXT", row->env_text);
	set_env("OPT_TEST_LIST", row->env_list);
	set_env("OPT_TEST_FLAG", row->env_flag);
	const struct opt_input in = input(all, row->config, &argv);
	int r = opt_parse(&cmd, &in, &values, &parsed, &err);
	expect(r == row->result, row->name);
	if (r < 0)
		expect(err.code == row->code && *err.text, row->name);
	if (r == 0) {
		auto_str char *list = strv_join(&values.list, " ");
		expect(str_eq(values.text, row->text) || (!values.text && !row->text), row->name);
		expect(str_eq(list, row->list ? row->list : ""), row->name);
		expect(values.number == row->number && values.is_flag == row->is_flag && parsed.count == row->count,
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
	auto_str char *help = help_command(&cmd, true, HELP_WIDTH);
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
	auto_strv struct strv words = { 0 }, env = { 0 };
	struct opt_parsed parsed;
	struct err err;
	strv_split(&v.list, "x,y z", ",");
	strv_add(&words, str_dup("child"));
	opt_words(tables, &v, &child, &words, &env);
	auto_str char *line = strv_join(&words, "|");
	assert_string_equal(line, "child|--text= --a b|--list=x|--list=y z|--flag");
	const struct opt_input in = input(commands, NULL, &words);
	assert_int_equal(opt_parse(&child, &in, &back, &parsed, &err), 0);
	assert_string_equal(back.text, v.text);
	assert_int_equal(back.list.count, 2);
	assert_true(back.is_flag);
	opt_done(&cmd, &v);
	opt_done(&cmd, &back);
}

// Everybody may read a process's words; but an empty variable counts as none.
static void secrets_are_not_arguments(void **state)
{
	(void)state;
	static const struct opt secret_opts[] = {
		{ "proxy", 0, "URL", "OPT_TEST_TEXT", OPT_SECRET, offsetof(struct values, text), "a text" },
		{ "from", 0, "A,B", "OPT_TEST_LIST", OPT_SECRETS, offsetof(struct values, list), "a list" },
		{ 0 },
	};
	static const struct cmd child = { .name = "child", .opts = { secret_opts } };
	static const struct cmd *const commands[] = { &child, NULL };
	const struct opt *const tables[] = { secret_opts, NULL };
	struct values v = { .text = str_dup("http://u:p@h") }, empty = { .text = str_dup("") }, back = { 0 };
	auto_strv struct strv words = { 0 }, env = { 0 };
	struct opt_parsed parsed;
	struct err err;
	strv_split(&v.list, "x,y z", ",");
	strv_add(&words, str_dup("child"));
	opt_words(tables, &v, &child, &words, &env);
	auto_str char *line = strv_join(&words, "|"), *variables = strv_join(&env, "|");
	assert_string_equal(line, "child");
	assert_string_equal(variables, "OPT_TEST_TEXT=http://u:p@h|OPT_TEST_LIST=x,y z");
	setenv("OPT_TEST_TEXT", "http://u:p@h", 1);
	setenv("OPT_TEST_LIST", "x,y z", 1);
	const struct opt_input in = input(commands, NULL, &words);
	assert_int_equal(opt_parse(&child, &in, &back, &parsed, &err), 0);
	assert_string_equal(back.text, v.text);
	assert_int_equal(back.list.count, 2);
	strv_done(&env);
	opt_words(tables, &empty, &child, &words, &env);
	assert_int_equal(env.count, 0);
	assert_string_equal(words.items[1], "--proxy=");
	opt_done(&child, &v);
	opt_done(&child, &empty);
	opt_done(&child, &back);
}

static int parse_names(const struct cmd *const *commands, const char *const *others, const char *config,
		       struct err *err)
{
	struct values v = { 0 };
	struct opt_parsed parsed;
	auto_strv struct strv argv = { 0 };
	strv_add(&argv, str_dup("try"));
	struct opt_input in = input(commands, config, &argv);
	in.variables = others;
	int r = opt_parse(commands[0], &in, &v, &parsed, err);
	opt_done(commands[0], &v);
	return r;
}

// An unknown name is reported with the nearest one, in the file and in the environment.
static void unknown_names(void **state)
{
	(void)state;
	static const struct opt ours[] = { { "from", 0, "X", "KMODSMITH_FROM", OPT_STR, 0, "x" },
					   { "driver", 0, "V", NULL, OPT_STR, 0, "x" },
					   { "driver", 0, "V", "DRIVER_VERSION", OPT_STR, 0, "x" },
					   { "time-zone", 0, "Z", NULL, OPT_STR, 0, "x" },
					   { 0 } };
	static const struct cmd one = { .name = "one", .opts = { ours } };
	static const struct cmd *const commands[] = { &one, NULL };
	static const char *const others[] = { "KMODSMITH_CONFIG", NULL };
	static const struct {
		const char *variable, *value, *want;
	} variables[] = {
		{ "KMODSMITH_FROM", "x", NULL },
		{ "KMODSMITH_CONFIG", "x", NULL },
		{ "KMODSMITH_FROMM", "x", "'KMODSMITH_FROMM'; did you mean 'KMODSMITH_FROM'?" },
		{ "KMODSMITH_FORM", "", "did you mean 'KMODSMITH_FROM'?" },
		{ "KMODSMITH_COFNIG", "x", "did you mean 'KMODSMITH_CONFIG'?" },
		{ "KMODSMITH_WHATEVER", "x", "unknown environment variable 'KMODSMITH_WHATEVER'" },
		{ "KMODSMITH_DRIVER", "x", "'KMODSMITH_DRIVER'; did you mean 'DRIVER_VERSION'?" },
		{ "KMODSMITH_DRIVER_VERSION", "x", "did you mean 'DRIVER_VERSION'?" },
		{ "KMODSMITH_TIME_ZONE", "x", "'KMODSMITH_TIME_ZONE'; --time-zone has none" },
		// of Services called kmodsmith, kmodsmith-registry and kmodsmith-port
		{ "KMODSMITH_SERVICE_HOST", "10.0.0.1", NULL },
		{ "KMODSMITH_SERVICE_PORT", "80", NULL },
		{ "KMODSMITH_REGISTRY_SERVICE_PORT_HTTP_TLS", "80", NULL },
		{ "KMODSMITH_PORT", "tcp://10.0.0.1:80", NULL },
		{ "KMODSMITH_REGISTRY_PORT_5000_TCP", "tcp://10.0.0.1:5000", NULL },
		{ "KMODSMITH_REGISTRY_PORT_5000_UDP_PROTO", "udp", NULL },
		{ "KMODSMITH_PORT_PORT_5000_SCTP_ADDR", "10.0.0.1", NULL },
		{ "KMODSMITH_PORT", "80", "unknown" },
		{ "KMODSMITH_PORT_X_TCP", "80", "unknown" },
		{ "KMODSMITH_PORT_80_TCPS", "80", "unknown" },
	};
	struct err err = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		setenv(variables[i].variable, variables[i].value, 1);
		int r = parse_names(commands, others, NULL, &err);
		unsetenv(variables[i].variable);
		expect(r == (variables[i].want ? -1 : 0), variables[i].variable);
		expect(r == 0 || (err.code == E_CONFIG && strstr(err.text, variables[i].want)), variables[i].variable);
	}
	setenv("KMODSMITH_NODE", "x", 1); // what all of them begin with makes no name alike
	assert_int_equal(parse_names(commands, others, NULL, &err), -1);
	unsetenv("KMODSMITH_NODE");
	assert_string_equal(err.text, "unknown environment variable 'KMODSMITH_NODE'");
	assert_int_equal(parse_names(all, NULL, "foreign = x", &err), 0);
	assert_int_equal(parse_names(all, NULL, "foreixn = x", &err), -1);
	assert_string_equal(err.text, "'site.conf', line 1: unknown key 'foreixn'; did you mean 'foreign'?");
	assert_int_equal(parse_names(all, NULL, "\nxyz=", &err), -1);
	assert_string_equal(err.text, "'site.conf', line 2: unknown key 'xyz'");
}

// Of options that say the same the lower one is left out; on one level both stay.
static void what_a_higher_source_says_in_other_words(void **state)
{
	(void)state;
	static const struct opt_rank ranks[] = { { "text", "list" },   { "list", "text" }, { "flag", "text" },
						 { "number", "text" }, { "text", "none" }, { 0 } };
	static const char *const names[] = { "file", "env", "flag" };
	static const struct {
		enum opt_source text, list; // who sets it
		bool has_text, has_list;
	} table[] = {
		{ OPT_DEFAULT, OPT_DEFAULT, false, false }, { OPT_FILE, OPT_DEFAULT, true, false },
		{ OPT_ENV, OPT_DEFAULT, true, false },      { OPT_FLAGS, OPT_DEFAULT, true, false },
		{ OPT_DEFAULT, OPT_FILE, false, true },     { OPT_FILE, OPT_FILE, true, true },
		{ OPT_ENV, OPT_FILE, true, false },         { OPT_FLAGS, OPT_FILE, true, false },
		{ OPT_DEFAULT, OPT_ENV, false, true },      { OPT_FILE, OPT_ENV, false, true },
		{ OPT_ENV, OPT_ENV, true, true },           { OPT_FLAGS, OPT_ENV, true, false },
		{ OPT_DEFAULT, OPT_FLAGS, false, true },    { OPT_FILE, OPT_FLAGS, false, true },
		{ OPT_ENV, OPT_FLAGS, false, true },        { OPT_FLAGS, OPT_FLAGS, true, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		auto_strv struct strv argv = { 0 };
		struct values values = { 0 };
		struct opt_parsed parsed;
		struct err err = { 0 };
		const enum opt_source text = table[i].text, list = table[i].list;
		auto_str char *config = str_fmt("flag = on\nnumber = 7\n%s%s", text == OPT_FILE ? "text = file\n" : "",
						list == OPT_FILE ? "list = file\n" : "");
		auto_str char *row = str_fmt("row %zu", i);
		strv_split(&argv, "try", " ");
		if (text == OPT_FLAGS)
			strv_add(&argv, str_dup("--text=flag"));
		if (list == OPT_FLAGS)
			strv_add(&argv, str_dup("--list=flag"));
		set_env("OPT_TEST_TEXT", text == OPT_ENV ? "env" : NULL);
		set_env("OPT_TEST_LIST", list == OPT_ENV ? "env" : NULL);
		set_env("OPT_TEST_FLAG", NULL);
		struct opt_input in = input(all, config, &argv);
		in.ranks = ranks;
		expect(opt_parse(&cmd, &in, &values, &parsed, &err) == 0, row);
		expect(str_eq(values.text, table[i].has_text ? names[text - OPT_FILE] : NULL) ||
			       (!values.text && !table[i].has_text),
		       row);
		expect(values.list.count == table[i].has_list, row);
		expect(!table[i].has_list || str_eq(values.list.items[0], names[list - OPT_FILE]), row);
		expect(values.is_flag == (text <= OPT_FILE) && values.number == (text <= OPT_FILE ? 7 : 0), row);
		expect(opt_source_of(&parsed, "text") == (table[i].has_text ? text : OPT_DEFAULT), row);
		expect(opt_source_of(&parsed, "list") == (table[i].has_list ? list : OPT_DEFAULT), row);
		// What does not count is not blamed.
		err_set(&err, E_USAGE, "--text 'x' is wrong");
		opt_blame(&in, &parsed, &values, &err);
		expect(err.code == (table[i].has_text && text < OPT_FLAGS ? E_CONFIG : E_USAGE), row);
		opt_done(&cmd, &values);
	}
	set_env("OPT_TEST_TEXT", NULL);
	set_env("OPT_TEST_LIST", NULL);
}

// A value that only the command rejects is reported with the place that it came from.
static void late_errors(void **state)
{
	(void)state;
	static const struct {
		const char *config, *env, *args, *text, *want;
		int code;
	} late[] = {
		{ "# x\ntext = opn", NULL, "try", "--text 'opn' is not one of a, b",
		  "'site.conf', line 2, key 'text': --text 'opn' is not one of a, b", E_CONFIG },
		{ "text = opn", NULL, "try", "'opn' is no version", "'site.conf', line 1, key 'text': ", E_CONFIG },
		{ "list = a,b", NULL, "try", "'b' is no name", "'site.conf', line 1, key 'list': ", E_CONFIG },
		{ "number = 7", NULL, "try", "--number 7: at least 9",
		  "'site.conf', line 1, key 'number': ", E_CONFIG },
		{ "number = 7", NULL, "try", "--number-of-all is missing", "--number-of-all", E_USAGE },
		{ "text = opn", "env", "try", "text: 'env' is none", "environment variable OPT_TEST_TEXT: ", E_CONFIG },
		{ "text = opn", NULL, "try --text x", "--text 'x' is not one", "--text 'x' is not one", E_USAGE },
		{ "text = opn", NULL, "try", "'other' is none", "'other' is none", E_USAGE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(late); i++) {
		auto_strv struct strv argv = { 0 };
		struct values values = { 0 };
		struct opt_parsed parsed;
		struct err err = { 0 };
		strv_split(&argv, late[i].args, " ");
		set_env("OPT_TEST_TEXT", late[i].env);
		set_env("OPT_TEST_LIST", NULL);
		set_env("OPT_TEST_FLAG", NULL);
		const struct opt_input in = input(all, late[i].config, &argv);
		assert_int_equal(opt_parse(&cmd, &in, &values, &parsed, &err), 0);
		err_set(&err, E_USAGE, "%s", late[i].text);
		opt_blame(&in, &parsed, &values, &err);
		expect(err.code == late[i].code && str_starts(err.text, late[i].want), late[i].text);
		opt_done(&cmd, &values);
	}
	set_env("OPT_TEST_TEXT", NULL);
}

// Only the words that the help names, and the nearest of them; the value that counts is looked at, and no other.
static void choices(void **state)
{
	(void)state;
	static const struct opt choice_opts[] = {
		{ "text", 0, "off|series|on", "OPT_TEST_TEXT", OPT_STR, offsetof(struct values, text), "x" }, { 0 }
	};
	static const struct opt free_opts[] = {
		{ "text", 0, "FILE|none", "OPT_TEST_TEXT", OPT_STR, offsetof(struct values, text), "x" }, { 0 }
	};
	static const struct cmd choice = { .name = "one", .opts = { choice_opts } },
				any = { .name = "one", .opts = { free_opts } };
	static const struct {
		const struct cmd *cmd;
		const char *config, *args, *want;
	} rows_[] = {
		{ &choice, NULL, "try --text series", NULL },
		{ &choice, NULL, "try --text seriez",
		  "--text 'seriez' is not one of off, series, on; did you mean 'series'?" },
		{ &choice, NULL, "try --text maybe", "--text 'maybe' is not one of off, series, on" },
		{ &choice, "text = onn", "try", "'site.conf', line 1, key 'text': --text 'onn' is not one of" },
		{ &choice, "text = onn", "try --text on", NULL },
		{ &any, NULL, "try --text maybe", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows_); i++) {
		const struct cmd *const one[] = { rows_[i].cmd, NULL };
		auto_strv struct strv argv = { 0 };
		struct values v = { 0 };
		struct opt_parsed parsed;
		struct err err = { 0 };
		strv_split(&argv, rows_[i].args, " ");
		const struct opt_input in = input(one, rows_[i].config, &argv);
		int r = opt_parse(one[0], &in, &v, &parsed, &err);
		expect(r == (rows_[i].want ? -1 : 0), rows_[i].args);
		expect(r == 0 || str_starts(err.text, rows_[i].want), err.text);
		opt_done(one[0], &v);
	}
}

static void ambiguous_options(void **state)
{
	(void)state;
	static const struct opt two[] = { { "driver", 0, "X", NULL, OPT_STR, 0, "x" },
					  { "dry-run", 0, "X", NULL, OPT_STR, 0, "x" },
					  { 0 } };
	static const struct cmd one = { .name = "one", .opts = { two } };
	static const struct cmd *const list[] = { &one, NULL };
	auto_strv struct strv argv = { 0 };
	struct values v = { 0 };
	struct opt_parsed parsed;
	struct err err = { 0 };
	strv_split(&argv, "one --dr=1", " ");
	const struct opt_input in = input(list, NULL, &argv);
	assert_int_equal(opt_parse(&one, &in, &v, &parsed, &err), -1);
	assert_string_equal(err.text, "option '--dr=1' of 'one' is ambiguous: --driver, --dry-run");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses),
		cmocka_unit_test(help_names_every_option),
		cmocka_unit_test(words_are_read_back),
		cmocka_unit_test(secrets_are_not_arguments),
		cmocka_unit_test(unknown_names),
		cmocka_unit_test(what_a_higher_source_says_in_other_words),
		cmocka_unit_test(late_errors),
		cmocka_unit_test(choices),
		cmocka_unit_test(ambiguous_options),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
