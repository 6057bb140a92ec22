// SPDX-License-Identifier: Apache-2.0
// The files below run/nvidia of the host that the GPU Operator's pods read (contract 1.3, 1.6, 1.12).
//
//   nvidia-driver.pid                    the driver container, which holds a lock on it; the driver manager removes it
//   validations/.driver-daemons-status   NotReady or Ready; the operator's startup probe wants Ready, or no file
//   nvidia-driver.state                  digest of the pod's configuration, written last: if it is the same at the next
//                                        start, the driver manager evicts no pod
//
// Nothing else there is ours: the other files below validations are the probe's and the validators'.
#pragma once
#include "base/file/root.h"

struct gpu_operator_pod {
	const struct root *host; // borrowed
	int lock;
};
#define GPU_OPERATOR_POD_NONE ((struct gpu_operator_pod){ .lock = -1 })

// Register as the node's only driver container, and report NotReady. The files of a killed container are taken over.
// E_LOCKED with the pid if one is alive.
int gpu_operator_begin(struct gpu_operator_pod *o, const struct root *host, struct err *err);
// Report Ready, then write the state. digest: NULL or "" = the pod has none, and no state is written.
int gpu_operator_ready(const struct gpu_operator_pod *o, const char *digest, struct err *err);
// Removes the pid and the status. The state file stays as long as the driver: until the next boot or container.
void gpu_operator_withdraw(struct gpu_operator_pod *o);
// For the driver manager, while no driver container runs: removes a stale pid file. E_LOCKED with the pid if one is
// alive.
int gpu_operator_clear(const struct root *host, struct err *err);
void gpu_operator_pod_done(struct gpu_operator_pod *o); // releases the lock, writes nothing

// For later changes of the status. 1 = written, 0 = no operator reads it: the file does not exist, as outside of its
// pods and after a preStop hook.
int gpu_operator_write_ready(const struct root *host, bool is_ready, struct err *err);
// 1 = *ret_is_ready was written, 0 = nothing was written.
int gpu_operator_read_ready(const struct root *host, bool *ret_is_ready, struct err *err);
