// SPDX-License-Identifier: Apache-2.0
// Waits until the driver is no longer in use, as the caller's policy says (R-D3, R-E3).
//
// Holders are found by what processes have open and mapped and by the module graph, never by a module's reference
// count (one open of /dev/nvidia0 counts three). The counts only show that there is a user who is not visible from
// here: a process of another pid namespace, or a part of the kernel.
#pragma once
#include "base/process/node.h"
#include "holders/holders.h"

enum holders_policy {
	HOLDERS_REFUSE, // do not unload while there are holders
	HOLDERS_WAIT,   // for the holders to exit by themselves
	// send each process SIGTERM once, never SIGKILL; idle foreign modules are unloaded with the driver
	HOLDERS_STOP,
};

struct holders_wait {
	const struct node *node;
	enum holders_policy policy;
	int timeout_ms; // of holders_wait()
};

bool holders_wait_parse(const char *text, enum holders_policy *ret); // "refuse", "wait", "stop"
const char *holders_wait_name(enum holders_policy policy);
// Removes our own daemons from h. 1 = some of ours run, so that reference counts say nothing about others.
int holders_wait_omit_daemons(const struct root *host, const struct root *kern, struct holders *h, struct err *err);
int holders_wait_deadline_ms(enum holders_policy policy,
			     unsigned seconds); // 0 = the default: 300 s to wait, 30 s to stop

// What blocks an unload now, as text; NULL = nothing. An unused foreign module does not block under HOLDERS_STOP.
// Our daemons are not among holders; while some of them run, reference counts are ignored. The console blocks always.
char *holders_wait_blocker(enum holders_policy policy, const struct modules *loaded, const struct holders *holders,
			   bool has_daemons);

// Who is seen by reference counts alone, as text; NULL = nobody.
char *holders_wait_uncounted(const struct modules *loaded);

void holders_wait_note(struct progress *progress,
		       const struct holders *holders); // a note for each holder that blocks (R-D2)

// Looks once for what is loaded and who holds it. E_IN_USE when something blocks; both results are set then, too.
int holders_wait_check(const struct holders_wait *d, struct modules *ret_loaded, struct holders *ret, struct err *err);
// Looks until nothing blocks. Nothing is unloaded. E_IN_USE after the deadline, with the remaining holders in ret;
// E_RIGHTS when they may not be signalled.
int holders_wait(const struct holders_wait *d, struct holders *ret, struct err *err);
