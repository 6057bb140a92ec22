// SPDX-License-Identifier: Apache-2.0
// From the process's arguments into a command and back to an exit status.
#pragma once
#include "base/opt.h"

const struct cmd *entry_find(const char *name);
void entry_guard(void);                                      // before anything is opened
int entry_run(const struct cmd *cmd, int argc, char **argv); // argv[0] is the name of the command, here and below
int entry_usage(bool is_error);
int entry_version(void);
int entry_unknown(int argc, char **argv);
