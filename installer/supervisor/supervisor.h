// SPDX-License-Identifier: Apache-2.0
// Supervises the daemons of this node as the rules say: starts, adopts, watches and restarts them, and records their
// state. restart_policy.h has the state machine of each; here are its events and actions. Every start happens under
// the node's lock, so that none comes between an unload and what follows it.
//
// The supervisor leaves the daemons running when it ends, for whatever reason: the driver outlives it, too, and the
// next start adopts what still runs. Where a container runtime ends every process of a container with its first,
// they end with it, and the next start starts them again; stopping them in order would only take them from GPU users
// earlier.
#pragma once
#include "daemons/daemon_record.h"
#include "daemons/daemon_rules.h"
#include "supervisor/restart_policy.h"

#include <poll.h>

struct supervised_daemon {
	struct supervised s;
	bool is_foreign;
	int process; // its pidfd; -1 = none
	int out;     // its output; -1 = none
	char line[1024];
	size_t len;
	char *since;     // of the state, RFC 3339
	struct strv log; // the last lines that it wrote
};
struct supervisor {
	const struct node *node;
	struct daemon_request request;
	char *boot, *release;
	char *driver;                      // the exported driver root, below host
	struct daemons plan;               // empty until there is a driver and its user space
	struct supervised_daemon *daemons; // of plan
	struct daemon_record old;          // of the supervisor before
	bool is_known;                     // whether there is a driver, and its daemons
	int64_t due_ms;                    // when to look next for something to supervise
	int syslog;                        // their socket; -1 = none
	int after;                         // pid of the program that runs after a first start; 0 = none
	char *written;                     // the content of daemons.json
};
int supervisor_open(struct supervisor *k, char *const *environment, struct err *err);
void supervisor_done(struct supervisor *k);

size_t supervisor_fds(const struct supervisor *k, struct pollfd *ret, size_t room); // to poll for events
void supervisor_ended(struct supervisor *k, int pid, int status, int64_t now_ms);   // a child, by waitpid()
// Does what is due. Returns when to call again; SUPERVISED_NEVER = on the next event.
int64_t supervisor_tick(struct supervisor *k, int64_t now_ms);
bool supervisor_is_well(const struct supervisor *k); // every daemon that is needed is up
