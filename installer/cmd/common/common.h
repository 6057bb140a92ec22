// SPDX-License-Identifier: Apache-2.0
// What every command shares: the options of each, the two roots, and how results are shown.
#pragma once
#include "base/formats/json.h"
#include "base/options/opt.h"
#include "base/process/log.h"
#include "base/process/progress.h"
#include "base/process/sys.h"

#include <stdio.h>

struct common { // first member of each command's values
	char *root, *host_root, *log_format;
	bool is_json, is_quiet, is_verbose;
};
extern const struct opt common_opts[];

// The machine a command works on. With --root DIR it is a recording: nothing outside DIR is read or changed.
struct machine {
	struct root host, kern;
	struct sys sys;
	bool is_recorded;
};
int machine_open(const struct common *common, struct machine *ret, struct err *err);
void machine_done(struct machine *m);
#define auto_machine __attribute__((cleanup(machine_done)))

// A text table: rows of cells separated by tabs, columns aligned, on standard output.
void show_table(const struct strv *rows);
void show_json(const json_t *value);
// From here on nothing but JSON arrives at standard output.
int show_json_only(struct err *err);
FILE *show_results(void);                         // where it goes
json_t *show_failure_json(const struct err *err); // what --json prints in place of a result
// On a terminal a line that rewrites itself; elsewhere a line for each quarter that was begun: a log is short (R-K4),
// and the phase's own line tells its end.
void show_progress(const char *what, unsigned done, unsigned total);
void show_bytes(void *ctx, uint64_t done, uint64_t total); // of a download, in MiB
void show_note(void *ctx, const char *text);
struct progress show_progress_log(void); // phases, progress and notes as log lines
struct status;
void show_status(const struct status *s);

// The error of a container's end, for `kubectl describe pod`: Kubernetes mounts a file and shows at most 4096 bytes of
// it, which an error never fills. path: NULL = the default. The error has been logged already, so nothing is said when
// there is no such file.
#define TERMLOG_HELP "gets the error of a failed start, where it exists; default /dev/termination-log"
void termlog_write(const struct common *common, const char *path, const struct err *err);

// NULL-terminated, in the order of --help; the verbs of a group ("store gc") stand together.
extern const struct cmd *const commands[];
struct group { // what the first word of commands with two words is about
	const char *name, *help;
};
extern const struct group groups[]; // .name NULL ends it
