// SPDX-License-Identifier: Apache-2.0
// The tables of commands, all made of the list in commands.def. One file per command.
#include "cmd/common/common.h"

#define SECTION(title)
#define GROUP(name, help)
#define COMMAND(name) extern const struct cmd cmd_##name;
#include "cmd/common/commands.def"
#undef COMMAND

const struct cmd *const commands[] = {
#define COMMAND(name) &cmd_##name,
#include "cmd/common/commands.def"
#undef COMMAND
	NULL
};
#undef GROUP

const struct group groups[] = {
#define COMMAND(name)
#define GROUP(name, help) { name, help },
#include "cmd/common/commands.def"
#undef COMMAND
#undef GROUP
#undef SECTION
	{ 0 }
};

const struct command_row command_rows[] = {
#define SECTION(title) { .section = (title) },
#define GROUP(name, help) { .group = { name, help } },
#define COMMAND(name) { .cmd = &cmd_##name },
#include "cmd/common/commands.def"
	{ 0 }
};
