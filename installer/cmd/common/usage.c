// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/usage.h"

#include "base/options/help.h"

#include <sys/ioctl.h>

enum { WIDTH_MAX = 120, COMMAND_COLUMN = 18, VERB_COLUMN = 28 }; // longer lines are hard to read

size_t usage_width(void)
{
	struct winsize size;
	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col)
		return HELP_WIDTH;
	return size.ws_col < WIDTH_MAX ? size.ws_col : WIDTH_MAX;
}

const struct group *usage_find_group(const char *name)
{
	for (const struct group *g = groups; g->name; g++)
		if (str_eq(g->name, name))
			return g;
	return NULL;
}

const struct group *usage_group_of(const struct cmd *cmd)
{
	const char *blank = strchr(cmd->name, ' ');
	auto_str char *first = blank ? str_ndup(cmd->name, (size_t)(blank - cmd->name)) : NULL;
	return first ? usage_find_group(first) : NULL;
}

char *usage_all(size_t width)
{
	char *text = str_dup("");
	help_wrap(&text, "kmodsmith installs the NVIDIA kernel driver on GPU nodes and keeps it working.", 0, width);
	str_add(&text, "\nUsage: kmodsmith COMMAND [OPTIONS] [ARGUMENTS]\n");
	for (const struct command_row *r = command_rows; r->section || r->group.name || r->cmd; r++) {
		auto_str char *left = str_fmt("  %s", r->cmd ? r->cmd->name : r->group.name);
		if (r->section)
			str_add(&text, "\n%s:\n", r->section);
		else if (!r->cmd || !usage_group_of(r->cmd))
			help_row(&text, left, r->cmd ? r->cmd->help : r->group.help, COMMAND_COLUMN, width);
	}
	str_add(&text, "\nTo begin with:\n"
		       "    kmodsmith doctor               can this machine run the driver?\n"
		       "    kmodsmith install --dry-run --source NVIDIA-Linux-x86_64-535.261.03.run\n"
		       "    kmodsmith help install         the options of a command, and examples\n"
		       "    kmodsmith explain E_IN_USE     what an error means and what to do\n");
	return text;
}

char *usage_group(const struct group *group, size_t width)
{
	char *text = str_fmt("kmodsmith %s: %s\n\nUsage: kmodsmith %s VERB [OPTIONS] [ARGUMENTS]\n\nVerbs:\n",
			     group->name, group->help, group->name);
	for (size_t i = 0; commands[i]; i++) {
		auto_str char *left = str_fmt("  %s", commands[i]->name);
		if (usage_group_of(commands[i]) == group)
			help_row(&text, left, commands[i]->help, VERB_COLUMN, width);
	}
	str_add(&text, "\n`kmodsmith help %s VERB` shows the options of one, and examples.\n", group->name);
	return text;
}
