// SPDX-License-Identifier: Apache-2.0
// From the process's arguments into a command and back to an exit status.
#pragma once
#include "base/options/opt.h"

// The command that the first words are, with how many of them; NULL = none.
const struct cmd *entry_find(int argc, char **argv, int *ret_words);
void entry_open_stdio(void);                                 // before anything is opened
int entry_main(int argc, char **argv);                       // of the process
int entry_run_words(int argc, char **argv);                  // argv[0]: the first word of a command
int entry_run(const struct cmd *cmd, int argc, char **argv); // argv[0] is the last word of the command
// What a command would be told; negative: entry_run() says why not, or it is a call for help.
int entry_values(const struct cmd *cmd, int argc, char **argv, void *values);
// An error that a running command tells by itself: where it comes from a wrong line of the configuration file, or a
// wrong variable, it names that. Errors that are returned need no such call.
void entry_add_origin(struct err *err);
// The values of the command that runs, from what its environment says by now. values: zeroed.
int entry_reparse(const struct cmd *cmd, void *values, struct err *err);
