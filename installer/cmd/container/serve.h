// SPDX-License-Identifier: Apache-2.0
// What `init` does once the driver is ready: wait for a signal, as the parent of every orphan, and meanwhile let each
// part do what is due. Nothing due means no wake-up and no write (P9).
#pragma once
#include "cmd/common/common.h"

#include <poll.h>
#include <signal.h>

enum { SERVE_PARTS_MAX = 4 };

struct serve_part { // each function with ctx first; those of a part that has none are NULL
	void *ctx;
	size_t (*fds)(void *ctx, struct pollfd *ret, size_t room);     // what tells that something has happened
	void (*ended)(void *ctx, int pid, int status, int64_t now_ms); // a child, as waitpid() told it
	int64_t (*tick)(void *ctx, int64_t now_ms); // whatever is due; returns when the next is, INT64_MAX = never
};
// Blocks those that end it, and SIGCHLD and SIGPIPE.
void serve_block(sigset_t *ret);
// signals: blocked; those that end it, and SIGCHLD. Returns the signal that ended it.
int serve(const struct serve_part *parts, size_t count, const sigset_t *signals, struct err *err);

// With the driver's daemons as a part (supervisor/). say: whether everything is up that GPUs need, first when that is
// known, then at each change. more: other parts.
int serve_daemons(const struct common *common, const sigset_t *signals, void (*say)(void *ctx, bool is_well), void *ctx,
		  const struct serve_part *more, size_t count, struct err *err);
