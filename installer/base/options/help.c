// SPDX-License-Identifier: Apache-2.0
#include "base/options/help.h"

#include <ctype.h>

enum { COLUMN = 28, COLUMNS_MIN = 20 }; // COLUMN: of what an option means

static const char EXAMPLE[] = "  ";

void help_wrap(char **text, const char *words, size_t column, size_t width)
{
	size_t at = column, most = width > column + COLUMNS_MIN ? width : column + COLUMNS_MIN;
	for (bool is_first = true; *(words += strspn(words, " ")); is_first = false) {
		size_t len = strcspn(words, " ");
		if (!is_first && at + 1 + len > most) {
			str_add(text, "\n%*s", (int)column, "");
			at = column;
		} else if (!is_first) {
			str_add(text, " ");
			at++;
		}
		str_add(text, "%.*s", (int)len, words);
		at += len;
		words += len;
	}
	str_add(text, "\n");
}

void help_row(char **text, const char *left, const char *words, size_t column, size_t width)
{
	if (strlen(left) + 2 > column)
		str_add(text, "%s\n%*s", left, (int)column, "");
	else
		str_add(text, "%-*s", (int)column, left);
	help_wrap(text, words, column, width);
}

char *help_examples(const struct cmd *cmd)
{
	char *text = str_dup("");
	for (const char *line = cmd->about; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (str_starts(line, EXAMPLE))
			str_add(&text, "%.*s\n", (int)strcspn(line, "\n"), line);
	return text;
}

// Lines are joined to paragraphs, except where one ends with the end of a sentence.
static void add_about(char **text, const char *about, size_t width)
{
	auto_str char *paragraph = str_dup("");
	while (*about) {
		size_t len = strcspn(about, "\n");
		bool is_prose = len && !str_starts(about, EXAMPLE);
		if (is_prose)
			str_add(&paragraph, "%s%.*s", *paragraph ? " " : "", (int)len, about);
		about += len + (about[len] == '\n');
		if (*paragraph && (!is_prose || !*about || strchr(".:", about[-2]))) {
			help_wrap(text, paragraph, 0, width);
			*paragraph = '\0';
		}
		if (!len && *about && !str_starts(about, EXAMPLE))
			str_add(text, "\n");
	}
}

static void add_option(char **text, const struct cmd *cmd, const struct opt *o, size_t width)
{
	bool is_output = str_eq(o->name, "json") && opt_output_json(cmd);
	const char letter[] = { '-', o->letter, ',', ' ', '\0' };
	auto_str char *left =
		str_fmt("  %s--%s%s%s", o->letter ? letter : "    ", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
	auto_str char *words = str_fmt("%s%s%s%s%s", o->help, is_output ? "; or -o json" : "", o->env ? " [" : "",
				       o->env ? o->env : "", o->env ? "]" : "");
	help_row(text, left, words, COLUMN, width);
}

static const char *heading_of(const struct opt *table)
{
	while (table->name)
		table++;
	return table->help ? table->help : "";
}

static bool is_often(const struct cmd *cmd, const struct opt *o)
{
	auto_strv struct strv often = { 0 };
	strv_split(&often, cmd->often ? cmd->often : "", ",");
	return strv_has(&often, o->name);
}

static void add_often(char **text, const struct cmd *cmd, size_t width)
{
	auto_strv struct strv often = { 0 };
	strv_split(&often, cmd->often ? cmd->often : "", ",");
	for (size_t i = 0; i < often.count; i++)
		for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
			for (const struct opt *o = cmd->opts[t]; o->name; o++)
				if (str_eq(o->name, often.items[i]))
					add_option(text, cmd, o, width);
}

// The other options of the tables with this heading.
static void add_group(char **text, const struct cmd *cmd, const char *heading, size_t width)
{
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name; o++)
			if (str_eq(heading_of(cmd->opts[t]), heading) && !is_often(cmd, o))
				add_option(text, cmd, o, width);
}

// Whether a group of options is one that few need, in a command with many.
static bool is_rare(const struct cmd *cmd, const char *heading)
{
	return cmd->often && !str_eq(heading, "General");
}

static void add_headed_group(char **text, const struct cmd *cmd, const char *heading, size_t width)
{
	auto_str char *group = str_dup("");
	add_group(&group, cmd, heading, width);
	if (*group)
		str_add(text, "\n%s:\n%s", heading, group);
}

char *help_command(const struct cmd *cmd, bool is_all, size_t width)
{
	char *text = str_dup("");
	auto_str char *left = NULL;
	auto_str char *title = str_fmt("kmodsmith %s: %s", cmd->name, cmd->help);
	auto_strv struct strv headings = { 0 };
	auto_str char *examples = help_examples(cmd);
	help_wrap(&text, title, 0, width);
	str_add(&text, "\nUsage: kmodsmith %s [OPTIONS]%s%s\n\n", cmd->name, cmd->args ? " " : "",
		cmd->args ? cmd->args : "");
	add_about(&text, cmd->about, width);
	if (*examples)
		str_add(&text, "\nExamples:\n%s", examples);
	str_add(&text, "\nOptions:\n");
	add_often(&text, cmd, width);
	add_group(&text, cmd, "", width);
	help_row(&text, "  -h, --help", "this text", COLUMN, width);
	if (cmd->often)
		help_row(&text, "      --help-all", "every option, also the rare ones", COLUMN, width);
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++) {
		const char *heading = heading_of(cmd->opts[t]);
		if (!*heading || strv_has(&headings, heading))
			continue;
		strv_add(&headings, str_dup(heading));
		if (is_all || !is_rare(cmd, heading))
			add_headed_group(&text, cmd, heading, width);
		else
			str_add(&left, "%s%c%s", left ? ", " : "", tolower((unsigned char)*heading), heading + 1);
	}
	if (left) {
		auto_str char *more = str_fmt("More, in --help-all and kmodsmith-%s(8): %s.", cmd->name, left);
		str_add(&text, "\n");
		help_wrap(&text, more, 0, width);
		str_add(&text, "\n");
	}
	return text;
}
