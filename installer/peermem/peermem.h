// SPDX-License-Identifier: Apache-2.0
// nvidia-peermem beside a ready driver: loaded when the driver and the network driver are there, watched, and loaded
// again when it is gone (contract 1.2, 1.10, 2.3; R-P2). Nothing here affects the readiness of the GPUs.
//
// Its state is in run/kmodsmith/peermem.json of the host, for probes in other processes:
//   {boot_id, state, why, deadline, pid, dma_buf, error}
// state: none (nothing to do on this machine), waiting, loaded, failed; deadline: of the wait or load in progress,
// in seconds of this boot; dma_buf: the driver can share memory without nvidia-peermem; error: of a failure.
#pragma once
#include "base/process/node.h"
#include "host/module_params.h"

enum peermem_state { PEERMEM_NONE, PEERMEM_WAITING, PEERMEM_LOADED, PEERMEM_FAILED };

struct peermem {
	const struct node *node; // .state: holds the store; NULL = there is none
	const char *trust_dir;   // as of trust_dir()
	bool is_host_mofed;      // the network driver is the host's, and not a container's
	int timeout_ms;          // for each wait
	int unload_timeout_ms;
	// Of peermem_step(), zero at first.
	enum peermem_state now;
	bool is_looked_at; // the loaded module has been compared with the driver's file
	bool has_dma_buf;
	double deadline;                           // seconds of this boot; 0 = nothing is in progress
	char why[sizeof(((struct err *)0)->text)]; // of the state: what it waits for, or what was found
};

// What can be done now, without waiting: 1 = there is nothing more to do for the moment (loaded, or none), 0 = call
// again soon, negative = it failed or the deadline is over. Cheap when nothing has changed.
int peermem_step(struct peermem *p, struct err *err);

struct peermem_status {
	enum peermem_state state;
	char why[sizeof(((struct err *)0)->text)];
	bool has_dma_buf;
	bool is_fine; // for a probe: loaded, in progress within its deadline, or nothing to do
};
// 1 = known in this boot, 0 = it was not requested.
int peermem_status(const struct root *host, const struct root *kern, struct peermem_status *ret, struct err *err);
const char *peermem_state_name(enum peermem_state s);
