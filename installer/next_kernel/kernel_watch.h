// SPDX-License-Identifier: Apache-2.0
// Notices changes to the kernels of a host: inotify on lib/modules and its directories, on boot, on headers, on
// deployments, and on the queue that a host's hooks write to (STATE/kernels). Events arrive across mount namespaces.
//
// An event says that a check is worthwhile, never what has happened: a kernel's files appear one by one, for a minute
// or more, and depmod's renames come last. So check once it has been quiet for a while. Events can be lost, directories
// mounted over, and some file systems send none: callers must also check from time to time.
#pragma once
#include "base/file/root.h"

struct kernel_watch {
	int fd;
	const struct root *host, *state; // borrowed
	int64_t quiet_ms;
	bool is_dirty;
	int64_t first_ms, last_ms; // of the events since the last look
};
#define KERNEL_WATCH_NONE ((struct kernel_watch){ .fd = -1 })
int kernel_watch_open(const struct root *host, const struct root *state, int64_t quiet_ms, struct kernel_watch *ret,
		      struct err *err);
void kernel_watch_done(struct kernel_watch *n);

void kernel_watch_read(struct kernel_watch *n, int64_t now_ms); // what has come; never waits
int64_t kernel_watch_due(const struct kernel_watch *n);         // when to look; INT64_MAX = nothing has happened
// The look begins: what happens from now on is for the next one. The queue is emptied.
void kernel_watch_clear(struct kernel_watch *n);
