// SPDX-License-Identifier: Apache-2.0
// The agent's own Node: read once, then watched; only differences are written. Of the object only our labels and
// annotations are kept. Nothing is written that stands there already (S4), and never on another Node of this name.
#pragma once
#include "cluster/agent/agent_annotations.h"
#include "cluster/kube/client.h"

struct agent_node {
	struct kube *kube; // borrowed
	const char *name;  // borrowed
	bool is_read;
	struct node_state m;
	char value[AGENT_KEYS][AGENT_VALUE]; // of our keys, as they stand there; "" = absent
	bool is_odd[AGENT_KEYS];             // it is longer than anything of ours
	struct kube_watch watch;
	unsigned failures, refusals; // consecutive failures to read, and to write
	long again_ms, tell_ms;      // when to connect, and to write, after a failure
	bool is_new;                 // something was read since this was last false
};
void agent_node_init(struct kube *kube, const char *name, struct agent_node *ret);
void agent_node_done(struct agent_node *n);
// Connects where it is time to, and waits up to that long for something to happen. Negative: it is tried again later.
int agent_node_wait(struct agent_node *n, int wait_ms, struct err *err);
// 1 = written, 0 = nothing was to be written, or it is not time yet.
int agent_node_tell(struct agent_node *n, const struct agent_annotations *words, struct err *err);
