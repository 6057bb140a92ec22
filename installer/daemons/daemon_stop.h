// SPDX-License-Identifier: Apache-2.0
// Stops our own daemons before an unload: they hold the driver, and need no permission to be stopped (contract
// 1.10). They are stopped only when nothing else is in the way, so that the unload will succeed, in the reverse
// order of starting.
//
// The unloading process has the node's lock, and a supervisor starts a daemon only with that lock: so none comes
// back in between, and after the unload there is no driver to start one for. If the unload fails all the same, the
// supervisor starts them again when it gets the lock; without a supervisor, the unloading process does.
#pragma once
#include "base/process/progress.h"
#include "daemons/daemon_record.h"

struct daemon_stop {
	const struct root *host, *kern;
	const struct sys *sys;
	struct progress *progress;
	struct daemon_record record;
	struct strv ended; // names
};
void daemon_stop_done(struct daemon_stop *s);
#define auto_daemon_stop __attribute__((cleanup(daemon_stop_done)))

// 1 = some were stopped, 0 = none ran.
int daemon_stop_all(struct daemon_stop *s, struct err *err);
void daemon_stop_undo(struct daemon_stop *s); // a failure is only noted
