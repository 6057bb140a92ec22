// SPDX-License-Identifier: Apache-2.0
// Commands and options as tables: one table is the parser, the help, the configuration keys and the list that man pages
// are checked against. default < configuration file < environment < flag.
#pragma once
#include "base/file/root.h"

enum opt_type {
	OPT_FLAG,
	OPT_STR,
	OPT_LIST, // comma-separated, repeatable
	OPT_UINT,
	OPT_SECRET,  // as OPT_STR; may hold a password, a PIN
	OPT_SECRETS, // as OPT_LIST
};

struct opt {
	const char *name; // long name, also the configuration key; NULL ends a table, whose heading in --help is .help
	char letter;      // 0 = none
	const char *arg;  // of the value, in help: "FILE"; "on|off": one of these words; NULL for flags
	const char *env;  // NULL = none
	enum opt_type type;
	size_t offset; // in the command's value struct: bool, char *, struct strv, unsigned
	const char *help;
};

struct cmd {
	const char *name; // "check", or two words: "store gc"
	const char *args; // positional arguments in the synopsis, NULL = none
	size_t args_min, args_max;
	const char *args_option;    // the one argument is the value of this option; NULL = it is the command's
	const char *help;           // one line
	const char *about;          // a few lines that teach; those that begin with two blanks are examples
	const char *often;          // options that --help shows first: "driver,source"; NULL = none
	const struct opt *opts[10]; // tables; NULL ends them
	size_t values_size;
	int (*run)(void *values, char **args, size_t count, struct err *err); // exit status >= 0, or negative with err
	// Called when it failed, also for a wrong command line: values hold what was parsed so far. May be NULL.
	void (*failed)(const void *values, const struct err *err);
	// Lists what could be typed as the value of this option, or (option NULL) as the argument of this number, as
	// far as this machine or the cluster knows. May be NULL.
	void (*offer)(const void *values, const char *option, size_t argument, struct strv *ret);
};

enum { OPTS_MAX = 96 };

// Options that say the same in other words: one that only a lower source sets gives way to `to` of a higher one, and is
// left out. On one level both stay; the command says whether they contradict.
struct opt_rank {
	const char *option, *to; // option NULL ends a table
};

// Where values come from, borrowed.
struct opt_input {
	const struct cmd *const *all; // every command, NULL-terminated: a name of another one is not an error
	const char *const *variables; // other variables of ours that no option has, NULL-terminated
	const struct opt_rank *ranks; // NULL = none
	const char *config_name;      // of the configuration file, for messages
	const char *config;           // its text; NULL = there is none
	int argc;
	char **argv;
};

// The source that set a value last: a higher one replaces what a lower one put into a list.
enum opt_source { OPT_DEFAULT, OPT_FILE, OPT_ENV, OPT_FLAGS };

struct opt_parsed {
	char **args; // positional, borrowed from argv
	size_t count;
	struct opt_origin {
		const struct opt *opt;
		enum opt_source by;
		unsigned line;  // of the configuration file
		const char *to; // what it gave way to: its value is unset; NULL = it counts
	} origins[OPTS_MAX];
	size_t opts;
};

enum { OPT_HELP = 1, OPT_HELP_ALL };
// Fill values (values_size zeroed bytes, or the defaults). 0 = run it; OPT_HELP = --help was asked for; negative =
// E_USAGE or E_CONFIG. A key of the file that no command knows is an error with the nearest name, because a typo
// would be ignored otherwise. So is a variable KMODSMITH_* that is no command's, is not in in->variables, and is none
// of those that Kubernetes gives to every container of a namespace that has a Service of such a name.
int opt_parse(const struct cmd *cmd, const struct opt_input *in, void *values, struct opt_parsed *ret, struct err *err);
enum opt_source opt_source_of(const struct opt_parsed *parsed, const char *name); // OPT_DEFAULT: unset, or gave way
// A value that only the command found to be wrong (E_USAGE, with '--NAME', 'NAME:' or the quoted value in its text),
// and that the file or the environment gave: then the error names the line or the variable, and is E_CONFIG.
void opt_blame(const struct opt_input *in, const struct opt_parsed *parsed, const void *values, struct err *err);
void opt_done(const struct cmd *cmd, void *values);
// The arguments that pass these values (of the tables, NULL-terminated) on to cmd, without those that it does not know.
// Every process on a machine can read the arguments, so secrets become environment variables: "NAME=VALUE".
void opt_words(const struct opt *const *tables, const void *values, const struct cmd *cmd, struct strv *ret,
	       struct strv *ret_env);
// --output json, where it means --json: the command has that, and no --output of its own. NULL = it does not.
const struct opt *opt_output_json(const struct cmd *cmd);
// The words that the option takes, when it takes some words only ("on|off", "json"); the parser refuses others.
bool opt_choices(const struct opt *o, struct strv *ret);
// "Did you mean": the name that a misspelt word was probably meant to be, borrowed from names. NULL = none is near: at
// most one slip in three letters, which is one letter too many, missing, wrong, or two letters swapped.
const char *opt_nearest(const char *word, const struct strv *names);
char *opt_hint(const char *word, const struct strv *names); // "; did you mean 'NAME'?", or ""
