// SPDX-License-Identifier: Apache-2.0
// What `init` does once the driver is ready: wait for a signal, as the parent of every orphan, and meanwhile let each
// part do what is due. Nothing due means no wake-up and no write (P9).
#pragma once
#include "base/process/launch.h"
#include "base/process/progress.h"
#include "base/process/sys.h"
#include "peermem/peermem.h"

#include <poll.h>
#include <signal.h>

enum { SERVICE_PARTS_MAX = 4 };

struct service_part { // each function with ctx first; those of a part that has none are NULL
	void *ctx;
	size_t (*fds)(void *ctx, struct pollfd *ret, size_t room);     // to be polled
	void (*ended)(void *ctx, int pid, int status, int64_t now_ms); // a child, from waitpid()
	int64_t (*tick)(void *ctx, int64_t now_ms); // does what is due; returns when it is next, INT64_MAX = never
};
// Blocks those that end it, and SIGCHLD and SIGPIPE.
void service_block(sigset_t *ret);
// signals: blocked; those that end it, and SIGCHLD. Returns the signal that ended it.
int service_run(const struct service_part *parts, size_t count, const sigset_t *signals, struct err *err);

// The driver's daemons as a part (supervisor/), and their published state.
struct service_daemons { // borrowed
	const struct root *host, *kern;
	const struct sys *sys;
	struct progress *progress;
	// Whether everything that GPUs need is up: called once that is known, then at each change.
	void (*say)(void *ctx, bool is_well);
	void *ctx;
};
// service_run() with them and with more parts.
int service_daemons_run(const struct service_daemons *daemons, const struct service_part *more, size_t count,
			const sigset_t *signals, struct err *err);

// The agent of a rollout: a child, `agent`, that is started again whenever it ends, so that nothing that happens to it,
// or to the API, happens to the driver's daemons.
struct service_agent {
	struct launch_words words;
	int child;
	int64_t due_ms, since_ms;
	unsigned ends; // soon after a start, one after the other
};
// words: of the child; they are taken. ret must stay where it is. It begins when served.
void service_agent_open(struct launch_words *words, struct service_agent *ret, struct service_part *ret_part);
void service_agent_done(struct service_agent *a); // told to end, and awaited: it may be in the middle of a change

// nvidia-peermem (peermem/peermem.h) waits for the network driver while the GPUs serve.
struct service_peermem {
	struct peermem peermem;
	bool is_over; // it failed for a reason that does not pass by itself
};
struct service_part service_peermem_part(struct service_peermem *p); // p must stay where it is
