// SPDX-License-Identifier: Apache-2.0
// A patch of the coordinator as a call to the API server that fails if another writer was faster: a JSON patch that
// tests uid and `seq`, and the cordon and the agent's words where it is about them; the first one of a node, which has
// no `seq` to test, a merge patch with its uid and version (upgrade-design 5.2). Never a whole Node.
#pragma once
#include "cluster/kube/client.h"
#include "cluster/rollout/transition.h"

// A decision as what is to be written on the Node: the keys that differ, and what has to be so for it to count. Nothing
// that is equal is written, so a decision without a change is no call at all (I11).
struct change {
	const char *key; // of a table
	char *value;     // NULL = removed
	bool is_label;
};
struct node_patch {
	// Preconditions beside the uid: the number that the node has (none: the first write, by resourceVersion), and
	// the cordon where it is changed.
	struct seq seq;
	bool tests_cordon, was_cordoned;
	// What the agent said, where it is the reason of something that cannot be taken back: a driver is taken out
	// because it is not in use, a node returns to service because of what is loaded (I3, I4).
	bool tests_holders, tests_loaded;
	// NVIDIA's label as it was read, where it is taken away, or where the cordon might be NVIDIA's by now.
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
// 1 = written, *ret is the Node as it is now (caller frees);
// 0 = it is another one by now, or gone.
int node_patch_write(struct kube *k, const struct node_state *m, const struct node_patch_seen *seen,
		     const struct node_patch *p, json_t **ret, struct err *err);
