// SPDX-License-Identifier: Apache-2.0
// A decision as what is to be written on the Node: the keys that differ, and what has to be so for it to count. Nothing
// that is equal is written, so a decision without a change is no call at all (I11).
#pragma once
#include "cluster/rollout/transition.h"

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
	// because nobody holds it, a node goes back to service because of what is loaded (I3, I4).
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
