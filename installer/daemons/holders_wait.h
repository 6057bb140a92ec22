// SPDX-License-Identifier: Apache-2.0
// Until nobody uses the driver, by the caller's choice (R-D3, R-E3).
//
// Who holds it is told by what processes have open and mapped and by the graph of modules, never by a module's count of
// references (one open of /dev/nvidia0 is three). The counts only tell that somebody is left who cannot be seen from
// here: a process of another pid namespace, or a part of the kernel.
#pragma once
#include "base/process/progress.h"
#include "base/process/sys.h"
#include "holders/holders.h"

enum holders_policy {
	HOLDERS_REFUSE, // whoever holds the driver keeps it
	HOLDERS_WAIT,   // for the holders to go by themselves
	// ask each process once to end (SIGTERM, never SIGKILL); idle modules of others go with the driver
	HOLDERS_STOP,
};

struct holders_wait {
	const struct root *host, *kern;
	const struct sys *sys;
	const char *release; // of the running kernel
	enum holders_policy policy;
	int timeout_ms; // of holders_wait()
	struct progress *progress;
};

bool holders_wait_parse(const char *text, enum holders_policy *ret); // "refuse", "wait", "stop"
const char *holders_wait_name(enum holders_policy policy);
// Takes our own daemons out of h. 1 = some of ours run, so that the counts of references tell nothing of others.
int holders_wait_omit_daemons(const struct root *host, const struct root *kern, struct holders *h, struct err *err);
int holders_wait_deadline_ms(enum holders_policy policy,
			     unsigned seconds); // 0 = the default: 300 s to wait, 30 s to stop

// Who is in the way now, in words; NULL = nobody. A foreign module is none under HOLDERS_STOP when nobody uses it. Our
// daemons are not among holders; while some of them run, the counts of references tell nothing.
char *holders_wait_blocker(enum holders_policy policy, const struct modules *loaded, const struct holders *holders,
			   bool has_daemons);

void holders_wait_note(struct progress *progress,
		       const struct holders *holders); // a note for each who is in the way (R-D2)

// Look once: what is loaded and who holds it. E_IN_USE when somebody is in the way; both results are set then, too.
int holders_wait_check(const struct holders_wait *d, struct modules *ret_loaded, struct holders *ret, struct err *err);
// Look until nobody is in the way. Nothing is unloaded. E_IN_USE after the deadline, with those who are left in ret;
// E_RIGHTS when they may not be asked to end.
int holders_wait(const struct holders_wait *d, struct holders *ret, struct err *err);
