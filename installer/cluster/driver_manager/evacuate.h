// SPDX-License-Identifier: Apache-2.0
// A node is made free for a change of its driver by the pod that makes it, without a coordinator: the GPU Operator's
// driver manager. Operands are paused by their labels, GPU pods are evicted where that is allowed, and all of it is
// taken back on each way out. What was done stands on the Node alone, so that a run that was killed is ended by the
// next one:
//   labels of operands            the pause word in their value (operands.h)
//   EVACUATE_CORDON               there while the cordon is ours; a node that was cordoned by others keeps its cordon
#pragma once
#include "cluster/kube/client.h"

#define EVACUATE_CORDON "kmodsmith.io/driver-manager.cordon"
// Of NVIDIA's controller of driver upgrades, as an annotation of the Node: "true" = it evicts, and we do not.
#define EVACUATE_UPGRADES "nvidia.com/gpu-driver-upgrade-enabled"
enum { EVACUATE_LOOK_MS = 5000, EVACUATE_OPERANDS_S = 300, EVACUATE_PODS_S = 600 };

struct evacuation {
	struct kube *kube; // borrowed, as all texts
	const char *node;
	const char *own_uid;  // of the pod that we run in; NULL = unknown
	const char *label;    // one more that is paused as an operand's; NULL = none
	const char *holders;  // who has the GPU open, as of struct pod_rules; NULL = not known
	const char *selector; // of evacuate_drain(); NULL = every pod
	bool may_evict;       // pods that use a GPU
	bool may_drain;       // all pods, when those were not all
	bool is_forced, deletes_empty_dir;
	unsigned timeout_s;                        // of evictions; 0 = EVACUATE_PODS_S
	void (*note)(void *ctx, const char *text); // one event, for the log
	bool (*is_ended)(void *ctx);               // a signal has come: undo what was done
	void *ctx;
};

// Before anything is done: what of the Node says who may evict. E_NOT_FOUND: there is no such Node.
int evacuate_begin(struct evacuation *e, struct err *err);
// E_IN_USE names the first pod that uses a GPU and may not be evicted. Nothing is written.
int evacuate_check(const struct evacuation *e, struct err *err);
// Cordon, pause, wait for the operands to end, evict, wait, and DRA's plugin last. E_IN_USE: who is left, and why.
int evacuate_run(const struct evacuation *e, struct err *err);
int evacuate_drain(const struct evacuation *e, struct err *err); // of every pod, for is_draining
// Operands are given back, and a cordon that is ours is taken away. 1 = something was, 0 = there was nothing.
int evacuate_restore(const struct evacuation *e, struct err *err);
// The host has a driver of its own: the operator takes its driver's pod off this node.
int evacuate_mark_preinstalled(const struct evacuation *e, struct err *err);
