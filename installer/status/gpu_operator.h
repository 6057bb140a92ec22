// SPDX-License-Identifier: Apache-2.0
// What the GPU Operator's pods read of a driver container, below run/nvidia of the host (contract 1.3, 1.6, 1.12).
//
//   nvidia-driver.pid                    who serves, with a lock that is held for life; the driver manager removes it
//   validations/.driver-daemons-status   NotReady or Ready; the operator's startup probe wants Ready, or no file
//   nvidia-driver.state                  digest of the pod's configuration, the last thing that is written: with the
//                                        same one the driver manager evicts nobody at the next start
//
// Nothing else there is ours: the other files below validations are the probe's and the validators'.
#pragma once
#include "base/file/root.h"

struct gpu_operator_pod {
	const struct root *host; // borrowed
	int lock;
};
#define GPU_OPERATOR_POD_NONE ((struct gpu_operator_pod){ .lock = -1 })

// Take the place of the one driver container, and say NotReady. What a container left behind that was killed is taken
// over. E_LOCKED with the pid when one is alive.
int gpu_operator_begin(struct gpu_operator_pod *o, const struct root *host, struct err *err);
// Say Ready, then write the state. digest: NULL or "" = the pod has none, and no state is written.
int gpu_operator_ready(const struct gpu_operator_pod *o, const char *digest, struct err *err);
// Until the host's next boot or start of a container the driver stays: only who serves, and that it does, is withdrawn.
void gpu_operator_withdraw(struct gpu_operator_pod *o);
// For the driver manager, while no container of a driver is here: a pid that was left behind is removed. E_LOCKED with
// the pid when one is alive.
int gpu_operator_clear(const struct root *host, struct err *err);
void gpu_operator_pod_done(struct gpu_operator_pod *o); // ends the lock; says nothing

// For whoever watches over the driver later. 1 = said, 0 = no operator asks: the file is not there, as outside of its
// pods and after a preStop hook.
int gpu_operator_write_ready(const struct root *host, bool is_ready, struct err *err);
// 1 = *ret_is_ready was said, 0 = nobody said anything.
int gpu_operator_read_ready(const struct root *host, bool *ret_is_ready, struct err *err);
