// SPDX-License-Identifier: Apache-2.0
// From the process's arguments to a command, and back to an exit status.
#pragma once
#include "base/options/opt.h"

// The command named by the first words, and their number; NULL = none.
const struct cmd *entry_find(int argc, char **argv, int *ret_words);
void entry_open_stdio(void);                                 // before anything is opened
int entry_main(int argc, char **argv);                       // of the process
int entry_run_words(int argc, char **argv);                  // argv[0]: the first word of a command
int entry_run(const struct cmd *cmd, int argc, char **argv); // argv[0] is the last word of the command
// The values that a command would get. Negative = an error, which entry_run() reports, or a request for help.
int entry_values(const struct cmd *cmd, int argc, char **argv, void *values);
// For an error that a running command prints itself: adds the configuration line or the variable that caused it. Errors
// that are returned need no such call.
void entry_add_origin(struct err *err);
// Returns the source that set an option of this command. OPT_DEFAULT: none did, or it gave way to another option.
enum opt_source entry_source_of(const char *option);
void entry_add_arguments(struct strv *ret);   // of the running command, as they were typed
const char *entry_config_name(void);          // the configuration file, there or not; NULL = no command runs
bool entry_is_configured(const char *option); // its value is of the configuration file or the environment
// For a running command: the values that another one would get if nothing was typed, and who sets each.
int entry_configured(const struct cmd *cmd, void *values, struct opt_parsed *ret, struct err *err);
char *entry_origin_text(const struct opt_origin *o); // of one of those: the line of the file, or the variable
// The running command's values, from its current environment. values: zeroed.
int entry_reparse(const struct cmd *cmd, void *values, struct err *err);
