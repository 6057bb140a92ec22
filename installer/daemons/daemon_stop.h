// SPDX-License-Identifier: Apache-2.0
// Our own daemons when the driver has to go: they hold it, and nobody has to ask them (contract 1.10). They end when
// nothing else is in the way, so only when the unload will succeed, and in the order that is the reverse of starting.
//
// Who unloads has the node's lock, and whoever supervises the daemons starts one only with that lock: so none comes
// back in between, and after the unload there is no driver to start one for. Where the unload fails all the same, the
// supervisor starts them again when it gets the lock; where none is left, who unloads does.
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

// 1 = some were ended, 0 = none ran.
int daemon_stop_all(struct daemon_stop *s, struct err *err);
void daemon_stop_undo(struct daemon_stop *s); // what fails is a note
