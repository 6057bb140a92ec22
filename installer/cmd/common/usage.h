// SPDX-License-Identifier: Apache-2.0
// The commands, in groups, as `kmodsmith help` shows them.
#pragma once
#include "cmd/common/common.h"

const struct group *usage_find_group(const char *name);     // NULL = none
const struct group *usage_group_of(const struct cmd *cmd);  // NULL = the command has one word
char *usage_all(size_t width);                              // of all commands
char *usage_group(const struct group *group, size_t width); // of the verbs of one
size_t usage_width(void);                                   // of the terminal, HELP_WIDTH elsewhere
