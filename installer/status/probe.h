// SPDX-License-Identifier: Apache-2.0
// What a kubelet asks every few seconds, over `kmodsmith probe` or `kmodsmith serve`. No program is started and no GPU
// opened: what cannot be measured so is read from the files of the last run.
#pragma once
#include "base/process/node.h"

struct probe { // borrowed
	const struct node *node;
	const struct root *pulse_dir; // of a coordinator; NULL = the host's LIVENESS_DIR
	unsigned stall_s;             // 0 = 600
};

// 1 = yes, 0 = no; ret_why: a line, in both cases. Caller frees.
// Startup: a DaemonSet's rollout goes on to the next node with it. Files of the previous container do not prove it.
int probe_startup(const struct probe *p, char **ret_why, struct err *err);
// Readiness: the last run's status, the current state and the supervisor's report are all good.
int probe_readiness(const struct probe *p, char **ret_why, struct err *err);
int probe_liveness(const struct probe *p, char **ret_why, struct err *err);
