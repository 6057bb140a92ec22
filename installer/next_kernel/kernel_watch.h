// SPDX-License-Identifier: Apache-2.0
// That something has happened to the kernels of a host: inotify on lib/modules and what lies in it, on what boot
// loaders read, on headers, on deployments, and on the queue that a host's hooks write to (STATE/kernels). Events
// arrive across mount namespaces.
//
// An event tells that it is worth to look, never what has happened: files of a kernel come one by one, for a minute or
// more, and depmod's renames come last. So the time to look is when it has been quiet for a while. A lost event,
// another mount over a directory and file systems that tell nothing are why whoever uses this also looks now and then.
#pragma once
#include "base/file/root.h"

struct notice {
	int fd;
	const struct root *host, *state; // borrowed
	int64_t quiet_ms;
	bool is_dirty;
	int64_t first_ms, last_ms; // of the events since the last look
};
#define NOTICE_NONE ((struct notice){ .fd = -1 })
int notice_open(const struct root *host, const struct root *state, int64_t quiet_ms, struct notice *ret,
		struct err *err);
void notice_done(struct notice *n);

void notice_read(struct notice *n, int64_t now_ms); // what has come; never waits
int64_t notice_due(const struct notice *n);         // when to look; INT64_MAX = nothing has happened
// The look begins: what happens from now on is for the next one. The queue is emptied.
void notice_taken(struct notice *n);
