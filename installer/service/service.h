// SPDX-License-Identifier: Apache-2.0
// What `init` does once the driver is ready: wait for a signal, as the parent of every orphan, and meanwhile let each
// part do what is due. Nothing due means no wake-up and no write (P9).
#pragma once
#include "base/process/node.h"
#include "cluster/node_state/target.h"
#include "host/modules.h"
#include "peermem/peermem.h"

#include <poll.h>
#include <signal.h>

enum { SERVICE_PARTS_MAX = 7 };

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
	const struct node *node;
	// Whether everything that GPUs need is up: called once that is known, then at each change.
	void (*say)(void *ctx, bool is_well);
	void *ctx;
};
// service_run() with them and with more parts.
int service_daemons_run(const struct service_daemons *daemons, const struct service_part *more, size_t count,
			const sigset_t *signals, struct err *err);

// What a start requests on a node whose driver an agent changes: never another driver than the one that is loaded; on a
// node without one what the agent installed last; else what the options request.
struct service_agent_request { // borrowed; NULL = not requested
	const char *driver, *flavour, *digest, *source;
};
// last: what the agent installed; NULL = not known.
void service_agent_request(const struct target *last, const struct modules *loaded, struct service_agent_request *r);
// A start leaves the loaded driver (NULL = none) to the rollout, which drains the node first, if it would have to
// change it. code: why the start could not be planned; 0 = it could.
bool service_agent_is_left(const char *loaded, bool is_change, int code);
// A failed start is left to the coordinator, unless the options are wrong, which it cannot mend.
bool service_agent_mends(int code);

// nvidia-peermem (peermem/peermem.h) waits for the network driver while the GPUs serve.
struct service_peermem {
	struct peermem peermem;
	bool is_over; // it failed for a reason that does not pass by itself
};
struct service_part service_peermem_part(struct service_peermem *p); // p must stay where it is
