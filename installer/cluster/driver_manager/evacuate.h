// SPDX-License-Identifier: Apache-2.0
// Frees a node for a change of its driver without a coordinator: for the GPU Operator's driver manager, whose pod makes
// the change. Operands are paused by their labels, GPU pods are evicted where that is allowed, and every exit path
// undoes all of it. The only record is on the Node, so that the next run finishes what a killed one left:
//   labels of operands            the pause word in their value (operands.h)
//   EVACUATE_CORDON               there while the cordon is ours; a cordon by others stays
#pragma once
#include "cluster/kube/client.h"

#define EVACUATE_CORDON "kmodsmith.io/driver-manager.cordon"
// The Node annotation of NVIDIA's upgrade controller: "true" = it evicts, and we do not.
#define EVACUATE_UPGRADES "nvidia.com/gpu-driver-upgrade-enabled"
enum { EVACUATE_LOOK_MS = 5000, EVACUATE_OPERANDS_S = 300, EVACUATE_PODS_S = 600 };

struct evacuation {
	struct kube *kube; // borrowed, like all strings
	const char *node;
	const char *own_uid;  // of the pod that we run in; NULL = unknown
	const char *label;    // one more to pause like an operand's; NULL = none
	const char *holders;  // who has the GPU open, as in struct pod_rules; NULL = not known
	const char *selector; // for evacuate_drain(); NULL = every pod
	bool may_evict;       // pods that use a GPU
	bool may_drain;       // all pods, if evicting those was not enough
	bool is_forced, deletes_empty_dir;
	unsigned timeout_s;                        // of evictions; 0 = EVACUATE_PODS_S
	void (*note)(void *ctx, const char *text); // one event, for the log
	bool (*is_ended)(void *ctx);               // a signal came: undo what was done
	void *ctx;
};

// Before all else: the Node says who may evict. E_NOT_FOUND: there is no such Node.
int evacuate_begin(struct evacuation *e, struct err *err);
// E_IN_USE names the first pod that uses a GPU and may not be evicted. Nothing is written.
int evacuate_check(const struct evacuation *e, struct err *err);
// Cordon, pause, wait for the operands to end, evict, wait, and DRA's plugin last. E_IN_USE: what is left, and why.
int evacuate_run(const struct evacuation *e, struct err *err);
int evacuate_drain(const struct evacuation *e, struct err *err); // of every pod
// Resumes the operands and removes our cordon. 1 = changed, 0 = there was nothing to restore.
int evacuate_restore(const struct evacuation *e, struct err *err);
// Labels the node as one with a driver of its own: the operator then removes its driver pod.
int evacuate_mark_preinstalled(const struct evacuation *e, struct err *err);
