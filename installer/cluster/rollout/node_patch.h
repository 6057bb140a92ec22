// SPDX-License-Identifier: Apache-2.0
// Patches of a Node that fail if another writer was faster: a JSON patch that tests uid and `seq`, and the cordon and
// the agent's annotations where they matter. The first patch of a node, which has no `seq` yet, is a merge patch with
// uid and resourceVersion (upgrade-design 5.2). Never a whole Node.
#pragma once
#include "cluster/kube/client.h"
#include "cluster/rollout/transition.h"

// A decision as a patch: the keys that differ, and the preconditions. Equal keys are not written, so a decision without
// a change needs no call (I11).
struct change {
	const char *key; // borrowed from a table
	char *value;     // NULL = removed
	bool is_label;
};
struct node_patch {
	// Preconditions besides the uid: the node's sequence number (none: the first write, by resourceVersion), and
	// the cordon if it is changed, or a driver is to be unloaded under it.
	struct seq seq;
	bool tests_cordon, was_cordoned;
	// What the agent reported, if the decision cannot be reverted: a driver is replaced because it is not in use, a
	// node returns to service because of the loaded driver (I3, I4).
	bool tests_holders, tests_loaded;
	// NVIDIA's label as it was read, if it is removed, or if the cordon might be NVIDIA's by now.
	bool tests_upgrade;
	const char *upgrade;
	enum cordon cordon;
	struct change *changes;
	size_t count;
};
void node_patch_make(const struct node_state *m, const struct decision *d, bool has_mirror, struct node_patch *ret);
void node_patch_done(struct node_patch *p);
#define auto_node_patch __attribute__((cleanup(node_patch_done)))

struct node_patch_seen {              // of the Node as it was read; NULL = absent
	const char *version;          // resourceVersion
	const char *loaded, *holders; // annotations of the agent
};
// 1 = written, *ret is the new Node (caller frees); 0 = it has changed meanwhile, or is gone.
int node_patch_write(struct kube *k, const struct node_state *m, const struct node_patch_seen *seen,
		     const struct node_patch *p, json_t **ret, struct err *err);
