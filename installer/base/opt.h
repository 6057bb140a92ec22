// SPDX-License-Identifier: Apache-2.0
// Commands and options as tables: one table is the parser, the help, the configuration keys and the list that man pages
// are checked against. default < configuration file < environment < flag.
#pragma once
#include "base/root.h"

enum opt_type { OPT_FLAG, OPT_STR, OPT_LIST /* comma-separated, repeatable */, OPT_UINT };

struct opt {
	const char *name; // long name, also the configuration key; NULL ends a table
	char letter;      // 0 = none
	const char *arg;  // of the value, in help: "FILE"; NULL for flags
	const char *env;  // NULL = none
	enum opt_type type;
	size_t offset; // in the command's value struct: bool, char *, struct strv, unsigned
	const char *help;
};

struct cmd {
	const char *name; // "check", or two words: "store gc"
	const char *args; // positional arguments in the synopsis, NULL = none
	size_t args_min, args_max;
	const char *help;           // one line
	const char *about;          // a few lines that teach
	const struct opt *opts[10]; // tables; NULL ends them
	size_t values_size;
	int (*run)(void *values, char **args, size_t count, struct err *err); // exit status >= 0, or negative with err
	// What is left to do when it failed, a wrong command line included: values hold what was understood. May be
	// NULL.
	void (*failed)(const void *values, const struct err *err);
};

// Fill values (values_size zeroed bytes, or the defaults). 0 = run it, with ret_args (borrowed from argv) and
// ret_count; 1 = --help was asked for; negative = E_USAGE or E_CONFIG. config: text of the configuration file, NULL =
// none; all: every command, NULL-terminated, so that a key of another command is told from an unknown one.
int opt_parse(const struct cmd *cmd, const struct cmd *const *all, int argc, char **argv, const char *config,
	      void *values, char ***ret_args, size_t *ret_count, struct err *err);
void opt_done(const struct cmd *cmd, void *values);
// The words that tell cmd what these values (of the tables, NULL-terminated) say; what cmd does not know is left out.
void opt_words(const struct opt *const *tables, const void *values, const struct cmd *cmd, struct strv *ret);
char *opt_help(const struct cmd *cmd); // the text of --help
