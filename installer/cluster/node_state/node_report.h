// SPDX-License-Identifier: Apache-2.0
// What a node's own Node says about its driver, beside the annotations of a rollout:
//
//   conditions  NvidiaDriverReady: every check of the last run passed (run/kmodsmith/status.json)
//               NvidiaDriverNextKernel: there is a package for the kernel that the next boot starts (kernels.json)
//   taint       kmodsmith.io/driver-not-ready, with which a kubelet or a node pool registers new nodes: removed once
//               the driver is ready, and never set
//
// A condition is written when it changes, and has no heartbeat: one that does not change is as old as the state it
// describes. Both need the right to patch nodes/status and nodes; deploy/agent-policy.yaml restricts it to these.
#pragma once
#include "cluster/kube/client.h"
#include "next_kernel/kernel_report.h"

#define STARTUP_TAINT "kmodsmith.io/driver-not-ready"
enum { CONDITION_DRIVER, CONDITION_NEXT_KERNEL, NODE_CONDITIONS };

struct node_condition {
	const char *type;
	const char *status, *reason; // "True", "False" or "Unknown"; a word in CamelCase
	char *message;
	bool is_correction; // written only where the Node has this condition already
};
struct node_report {
	struct node_condition conditions[NODE_CONDITIONS];
	bool is_ready;
};
// status: as in status_file.h; kernels: of this boot; NULL = there is none of this boot.
void node_report_make(const json_t *status, const struct kernel_report *kernels, struct node_report *ret);
void node_report_done(struct node_report *r);
#define auto_node_report __attribute__((cleanup(node_report_done)))

// 1 = the Node says all of it now; 0 = another writer was faster, try again. E_NOT_FOUND: there is no such Node.
int node_report_write(struct kube *k, const char *node, const struct node_report *r, struct err *err);
