// SPDX-License-Identifier: Apache-2.0
// Keeps NVIDIA's upgrade controller from emptying a node for a driver that nobody has proven there (contract 1.17). Its
// label to skip a node stands on the Node while a driver container of ours serves it, and is lifted for one proven
// target. The receipt, an annotation, says that the label is ours: without one it is somebody else's, and stays.
#pragma once
#include "cluster/kube/client.h"

#define UPGRADE_HOLD_FILE "run/kmodsmith/upgrade-hold.json" // the receipt while it has a target, for the node itself
enum { UPGRADE_HOLD_S = 24 * 60 * 60 };

struct upgrade_hold {    // the receipt
	bool is_held;    // else the label was lifted for this target
	char *pod;       // that wrote it
	char *target;    // image of the next driver container; NULL = at rest: no other one is wanted
	char *reason;    // why it is held or lifted
	int64_t set;     // generation of the DaemonSet whose template asks for the target; 0 = at rest
	int64_t since_s; // seconds since 1970, when that was first seen
	int64_t until_s; // it is lifted then in any case; 0 = at rest
};
void upgrade_hold_done(struct upgrade_hold *h);
#define auto_upgrade_hold __attribute__((cleanup(upgrade_hold_done)))
char *upgrade_hold_text(const struct upgrade_hold *h); // JSON; caller frees
// A receipt that cannot be read is ours all the same, of an unknown pod and past its deadline.
void upgrade_hold_parse(const char *text, struct upgrade_hold *ret);

// Pure.
struct upgrade_hold_view {
	const char *label;                  // value; NULL = absent
	const struct upgrade_hold *receipt; // NULL = none
	bool is_required;                   // the controller wants to upgrade this node
	const char *pod;                    // ours
	enum upgrade_hold_when {
		HOLD_SERVING,
		HOLD_STARTING, // not served yet, or not any more: nothing is held that was not held before
		HOLD_LEAVING,
	} when;
	enum upgrade_hold_set {
		HOLD_SET_UNREAD,
		HOLD_SET_OURS,
		HOLD_SET_OTHER, // gone, going, not the operator's, of another image, or not for this node
	} set;
	int64_t generation; // of HOLD_SET_OURS
	enum upgrade_hold_proof { HOLD_UNPROVEN, HOLD_PROVEN, HOLD_REFUSED } proof;
	unsigned hold_s; // 0 = nothing is held
	int64_t now_s;
};
enum upgrade_hold_act {
	HOLD_NOTHING,
	HOLD_ASK,    // the DaemonSet, then decide again
	HOLD_REST,   // label and receipt, without a target
	HOLD_BEGIN,  // label and receipt, for the target
	HOLD_PROVE,  // then decide again
	HOLD_KEEP,   // the receipt gets the reason
	HOLD_LIFT,   // no label; the receipt says for what
	HOLD_FORGET, // neither label nor receipt
};
enum upgrade_hold_act upgrade_hold_decide(const struct upgrade_hold_view *v);

struct upgrade_hold_request { // borrowed
	struct kube *kube;
	const char *node, *namespace;
	const char *pod; // its host name: the pod's, or the node's with hostNetwork
	enum upgrade_hold_when when;
	unsigned hold_s;
	// Whether the next driver container would find its driver, and it fits; next: as a pod. Negative: why not.
	int (*prove)(void *ctx, const json_t *own, const json_t *next, struct err *err);
	void *ctx;
};
// One look. ret: what is said of a target, .target NULL = there is none. 1 = it is held, 0 = nothing is in the way.
int upgrade_hold_look(const struct upgrade_hold_request *request, struct upgrade_hold *ret, struct err *err);
