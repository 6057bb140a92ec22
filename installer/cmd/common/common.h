// SPDX-License-Identifier: Apache-2.0
// What every command shares: the options of each, the two roots, and how results are shown.
#pragma once
#include "base/formats/json.h"
#include "base/options/opt.h"
#include "base/process/log.h"
#include "base/process/node.h"

#include <stdio.h>

struct common { // first member of each command's values
	char *root, *host_root, *log_format;
	bool is_json, is_quiet, is_verbose;
};
extern const struct opt common_opts[];

// Owns what the node of a command points to. With --root DIR it is a recording: nothing outside DIR is read or changed.
struct machine {
	struct root host, kern, dev_root;
	struct sys sys;
	bool is_recorded;
	struct node node; // of this machine, whose device nodes are the host's; a command adds what else it knows
};
#define MACHINE_NONE ((struct machine){ .host = ROOT_NONE, .kern = ROOT_NONE, .dev_root = ROOT_NONE })
// The result must stay where it is.
int machine_open(const struct common *common, struct machine *ret, struct err *err);
int machine_open_dev(struct machine *m, const char *named, struct err *err); // of --dev-root; NULL = it was not given
void machine_done(struct machine *m);
#define auto_machine __attribute__((cleanup(machine_done)))

// A text table: rows of cells separated by tabs, columns aligned, on standard output.
void show_table(const struct strv *rows);
// As a document with the members apiVersion, kind (the command) and those of the value; a list is its member items.
#define SHOW_JSON_VERSION "output.kmodsmith.io/v1" // another one once a member goes or means something else
void show_json(const json_t *value);
void show_command(const char *name); // that documents are of, from now on; not copied
// A document in somebody else's format, as a file of --output, replaced atomically; NULL or "-" = standard output.
int show_json_as(const json_t *value, const char *output, struct err *err);
// Where the file of --output goes: the directory, and the name in it, borrowed from output.
int show_output_dir(const char *output, struct root *ret, const char **ret_name, struct err *err);
// From now on only JSON is written to standard output.
int show_json_only(struct err *err);
FILE *show_results(void);                         // where JSON goes
json_t *show_failure_json(const struct err *err); // what --json prints in place of a result
// On a terminal one line that is rewritten; elsewhere a line for each quarter, to keep logs short (R-K4); the phase's
// own line shows its end.
void show_progress(const char *what, unsigned done, unsigned total);
void show_bytes(const char *what, uint64_t done, uint64_t total); // the same, with the rate and the time left
void show_note(void *ctx, const char *text);
struct progress show_progress_log(void); // phases, progress and notes as log lines
struct status;
void show_status(const struct status *s);

// Why a container ended, for `kubectl describe pod`: Kubernetes mounts a file and shows at most 4096 bytes of it, more
// than any error has. path: NULL = the default. The error is already in the log, so a missing file is not reported.
#define TERMLOG_HELP "gets the error of a failed start, where it exists; default /dev/termination-log"
void termlog_write(const struct common *common, const char *path, const struct err *err);

// NULL-terminated, in the order of --help; the verbs of a group ("store gc") stand together.
extern const struct cmd *const commands[];
struct group { // first word of commands with two words
	const char *name, *help;
};
extern const struct group groups[]; // .name NULL ends it
struct command_row {                // of commands.def: one member is set
	const char *section;
	struct group group;
	const struct cmd *cmd;
};
extern const struct command_row command_rows[]; // a row without any ends it

const char *version_commit(void); // that the program was built from; NULL = not known
