// SPDX-License-Identifier: Apache-2.0
// --help: its width and groups; and every command's examples, which must be command lines that the program takes.
#include "base/options/help.h"
#include "cmd/common/entry.h"
#include "cmd/common/usage.h"
#include "tests/unit/test.h"

extern const struct cmd cmd_install;

static void words_are_wrapped(void **state)
{
	(void)state;
	static const struct {
		const char *words, *want;
		size_t column, width;
	} rows[] = {
		{ "", "\n", 0, 30 },
		{ "one two three four five six seven", "one two three four five six\nseven\n", 0, 30 },
		{ "one two three four five six seven", "one two three four\n          five six seven\n", 10, 30 },
		{ "exactly thirty letters wide it", "exactly thirty letters wide it\n", 0, 30 },
		{ "exactly thirty letters wide, it", "exactly thirty letters wide,\nit\n", 0, 30 },
		{ "averylongwordthatfitsnowhereatall x", "averylongwordthatfitsnowhereatall\nx\n", 0, 30 },
		{ "narrow terminals keep twenty columns", "narrow terminals\n     keep twenty columns\n", 5, 10 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *text = str_dup("");
		help_wrap(&text, rows[i].words, rows[i].column, rows[i].width);
		expect(str_eq(text, rows[i].want), rows[i].words);
	}
}

static const char EXAMPLES[] = "\nExamples:\n";

// A word alone on its line, which no width can make shorter.
static bool is_one_word(const char *line)
{
	const char *word = line + strspn(line, " ");
	return word[strcspn(word, " \n")] != ' ';
}

// Apart from examples and synopses, which are to be copied.
static void check_width(const char *help, size_t width, const char *name)
{
	const char *examples = strstr(help, EXAMPLES);
	const char *end = examples ? strstr(examples + 1, "\n\n") : NULL;
	for (const char *line = help; *line; line += strcspn(line, "\n"), line += *line == '\n')
		expect(strcspn(line, "\n") <= width || is_one_word(line) || (line > examples && line < end) ||
			       str_starts(line, "Usage: "),
		       name);
}

static void help_fits_the_width(void **state)
{
	(void)state;
	for (size_t i = 0; commands[i]; i++)
		for (size_t width = 60; width <= 120; width += 20) {
			auto_str char *help = help_command(commands[i], true, width);
			check_width(help, width, commands[i]->name);
		}
	auto_str char *all = usage_all(HELP_WIDTH);
	check_width(all, HELP_WIDTH, "usage");
}

// What most users need is on the first screen; what each command has is at the end.
static void options_are_grouped(void **state)
{
	(void)state;
	static char word[] = "install";
	char *argv[] = { word, NULL };
	int words;
	auto_str char *help = help_command(entry_find(1, argv, &words), true, HELP_WIDTH);
	static const char *const order[] = { "\nOptions:\n",   "--driver ",    "--source ",    "--from ", "--dry-run",
					     "\nCompiling:\n", "\nNetwork:\n", "\nGeneral:\n", "--json" };
	const char *at = help;
	for (size_t i = 0; i < ARRAY_SIZE(order) && at; i++) {
		at = strstr(at, order[i]);
		expect(at != NULL, order[i]);
	}
	size_t options = 0;
	for (size_t t = 0; t < ARRAY_SIZE(cmd_install.opts) && cmd_install.opts[t]; t++)
		for (const struct opt *o = cmd_install.opts[t]; o->name; o++, options++) {
			auto_str char *name = str_fmt("--%s%s", o->name, o->arg ? " " : "\n");
			auto_str char *flag = str_fmt("--%s  ", o->name);
			const char *first = strstr(help, name);
			first = first ? first : strstr(help, flag);
			expect(first != NULL, o->name);
		}
	assert_true(options > 40);
	auto_str char *brief = help_command(&cmd_install, false, HELP_WIDTH);
	assert_true(strstr(brief, "--dry-run") && strstr(brief, "--json") && !strstr(brief, "--allow-rt"));
	assert_true(strstr(brief, "kmodsmith-install(8): compiling, ") != NULL);
}

// Every name in often is an option of the command.
static void often_names_options(void **state)
{
	(void)state;
	for (size_t i = 0; commands[i]; i++) {
		auto_strv struct strv often = { 0 };
		strv_split(&often, commands[i]->often ? commands[i]->often : "", ",");
		size_t found = 0;
		for (size_t t = 0; t < ARRAY_SIZE(commands[i]->opts) && commands[i]->opts[t]; t++)
			for (const struct opt *o = commands[i]->opts[t]; o->name; o++)
				found += strv_has(&often, o->name);
		expect(found == often.count, commands[i]->name);
	}
}

// Sections come first and have commands; groups have verbs, which stand below their group.
static void verbs_follow_their_group(void **state)
{
	(void)state;
	const struct group *group = NULL;
	const struct command_row *before = NULL;
	for (const struct command_row *row = command_rows; row->section || row->group.name || row->cmd; row++) {
		const char *blank = row->cmd ? strchr(row->cmd->name, ' ') : NULL;
		assert_true(before || row->section);
		if (!blank)
			group = row->group.name ? usage_find_group(row->group.name) : NULL;
		else
			expect(group && usage_group_of(row->cmd) == group, row->cmd->name);
		assert_true(!before || !before->group.name || blank);
		assert_true(!before || !before->section || !row->section);
		before = row;
	}
	assert_true(before && before->cmd);
}

// Help has a line for each command of one word and each group.
static void help_shows_each_command_once(void **state)
{
	(void)state;
	auto_str char *help = usage_all(HELP_WIDTH);
	for (const struct command_row *row = command_rows; row->section || row->group.name || row->cmd; row++) {
		const char *name = row->cmd ? row->cmd->name : row->group.name;
		auto_str char *line = str_fmt(row->section ? "\n%s:\n" : "\n  %s ", row->section ? row->section : name);
		const char *at = strstr(help, line);
		bool is_verb = row->cmd && strchr(name, ' ');
		expect(is_verb ? !at : at && !strstr(at + 1, line), line);
	}
}

// Without what the shell would take: pipes, redirections, comments.
static char *argument_part(const char *at)
{
	static const char *const ends[] = { "\n", "  ", " | ", " <", " > ", " #", " && ", ";", ")" };
	size_t len = strlen(at);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		const char *end = strstr(at, ends[i]);
		len = end && (size_t)(end - at) < len ? (size_t)(end - at) : len;
	}
	return str_ndup(at, len);
}

// A backslash at the end of a line goes on with the next.
static char *joined_lines(const char *text)
{
	char *joined = str_dup("");
	for (; *text; text++) {
		if (str_starts(text, "\\\n"))
			text += 1 + strspn(text + 1, "\n ") - 1;
		else
			str_add(&joined, "%c", *text);
	}
	return joined;
}

static void check_example(const struct cmd *cmd, const char *line, size_t *count)
{
	auto_strv struct strv argv = { 0 };
	struct opt_parsed parsed;
	struct err err = { 0 };
	int words = 0;
	strv_split(&argv, line, " ");
	const struct cmd *found = entry_find((int)argv.count - 1, argv.items + 1, &words);
	expect(found != NULL, line);
	if (!found)
		return;
	*count += found == cmd;
	const struct opt_input in = { .all = commands, .argc = (int)argv.count - words, .argv = argv.items + words };
	void *values = mem_alloc(found->values_size);
	int r = opt_parse(found, &in, values, &parsed, &err);
	expect(r == 0, r < 0 ? err.text : line);
	opt_done(found, values);
	free(values);
}

static void every_command_has_examples_that_parse(void **state)
{
	(void)state;
	static const char PROGRAM[] = "kmodsmith ";
	for (size_t i = 0; commands[i]; i++) {
		auto_str char *examples = help_examples(commands[i]);
		auto_str char *text = joined_lines(examples);
		size_t count = 0;
		for (const char *at = text; (at = strstr(at, PROGRAM)); at += strlen(PROGRAM)) {
			if (at > text && at[-1] != ' ')
				continue;
			auto_str char *line = argument_part(at);
			bool is_command = at - text < 2 || at[-2] == ' ' || at[-2] == '|';
			if (is_command)
				check_example(commands[i], line, &count);
		}
		expect(count >= 1, commands[i]->name);
	}
}

static void commands_of_causes_parse(void **state)
{
	(void)state;
	size_t found = 0;
	for (int code = E_SYSTEM; code < E_LAST_; code++) {
		size_t count, ignored = 0;
		const struct err_cause *causes = err_causes(code, &count);
		for (size_t i = 0; i < count; i++) {
			const char *at = strstr(causes[i].command, "kmodsmith ");
			if (!at || str_starts(at, "kmodsmith help "))
				continue;
			auto_str char *line = argument_part(at);
			check_example(commands[0], line, &ignored);
			found++;
		}
	}
	assert_true(found > 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_wrapped),
		cmocka_unit_test(help_fits_the_width),
		cmocka_unit_test(options_are_grouped),
		cmocka_unit_test(often_names_options),
		cmocka_unit_test(verbs_follow_their_group),
		cmocka_unit_test(help_shows_each_command_once),
		cmocka_unit_test(every_command_has_examples_that_parse),
		cmocka_unit_test(commands_of_causes_parse),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
