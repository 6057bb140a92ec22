// SPDX-License-Identifier: Apache-2.0
// A call that hangs in the kernel blocks its caller for ever, so a child process makes this one call and may have to be
// left behind.
#pragma once
#include "base/core/err.h"

#include <sys/types.h>

enum bounded_end {
	BOUNDED_DONE, // the call came back
	BOUNDED_LATE, // not in time: the child is stuck in it and was sent SIGKILL
	BOUNDED_DIED, // the kernel killed the child
};

struct bounded_result {
	enum bounded_end end;
	int error; // errno that the call returned, 0 = none
	pid_t child;
};
// call returns 0 or an errno; it runs in the child and must let go of the descriptors that it does not need.
int bounded_call(int (*call)(const void *ctx), const void *ctx, int timeout_ms, struct bounded_result *ret,
		 struct err *err);
// 1 = the child ended and can be reaped, 0 = it did not in time.
int bounded_wait(pid_t child, int timeout_ms);
