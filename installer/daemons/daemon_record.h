// SPDX-License-Identifier: Apache-2.0
// run/kmodsmith/daemons.json of the host: which daemons were started or adopted in this boot, and their state. The
// next start adopts what runs, an unload stops it, and status reports it. Whether a daemon runs is always measured:
// a process is the recorded one only if pid, start time and program match.
#pragma once
#include "base/formats/json.h"
#include "daemons/daemon_process.h"

struct daemon_entry {
	char *name, *why, *state; // state: restart_policy_state_name()
	int pid;                  // 0 = none
	uint64_t start;
	char *since; // of the state, RFC 3339
	unsigned restarts;
	char *last;      // how it ended last; NULL = it never did
	char *why_not;   // why it is not running; NULL = nothing prevents it
	bool is_needed;  // GPUs cannot be used while it is down
	bool is_foreign; // started and stopped by another supervisor
	struct strv argv;
	char *dir, *pid_file, *socket, *env;
	struct strv log; // the last lines it wrote
};
struct daemon_record {
	int owner; // pid of the supervisor
	uint64_t owner_start;
	char *driver;               // the exported driver root, below host
	struct daemon_entry *items; // in the order of starting
	size_t count;
};
void daemon_record_done(struct daemon_record *r);
#define auto_daemon_record __attribute__((cleanup(daemon_record_done)))

// 1 = read, 0 = nothing was started in this boot.
int daemon_record_read(const struct root *host, const char *boot, struct daemon_record *ret, struct err *err);
// The same for this boot.
int daemon_record_now(const struct root *host, const struct root *kern, struct daemon_record *ret, struct err *err);
int daemon_record_write(const struct root *host, const char *boot, const struct daemon_record *r, struct err *err);
int daemon_record_forget(const struct root *host, struct err *err);                 // 1 = there was one
json_t *daemon_record_json(const struct daemon_record *r, const struct root *kern); // with what runs now

bool daemon_entry_runs(const struct daemon_entry *e, const struct root *kern);
bool daemon_record_owned(const struct daemon_record *r, const struct root *kern); // its supervisor is alive

// Stops our own daemons before an unload: they hold the driver, and need no permission to be stopped (contract
// 1.10). They are stopped only when nothing else is in the way, so that the unload will succeed, in the reverse
// order of starting.
//
// The unloading process has the node's lock, and a supervisor starts a daemon only with that lock: so none comes
// back in between, and after the unload there is no driver to start one for. If the unload fails all the same, the
// supervisor starts them again when it gets the lock; without a supervisor, the unloading process does.
struct daemon_stop {
	const struct node *node;
	struct daemon_record record;
	struct strv ended; // names
};
void daemon_stop_done(struct daemon_stop *s);
#define auto_daemon_stop __attribute__((cleanup(daemon_stop_done)))

// 1 = some were stopped, 0 = none ran.
int daemon_stop_all(struct daemon_stop *s, struct err *err);
void daemon_stop_undo(struct daemon_stop *s); // a failure is only noted
