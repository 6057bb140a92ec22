// SPDX-License-Identifier: Apache-2.0
// The agent's own Node: read once, then watched. Only our labels and annotations of it are kept. What the Node already
// has is not written again (S4), and another Node of the same name is never written.
#pragma once
#include "cluster/agent/agent_annotations.h"
#include "cluster/kube/client.h"

struct agent_node {
	struct kube *kube; // borrowed
	const char *name;  // borrowed
	bool is_read;
	struct node_state m;
	char value[AGENT_KEYS][AGENT_VALUE]; // of our keys on the Node; "" = absent
	bool is_odd[AGENT_KEYS];             // longer than any value of ours
	struct kube_watch watch;
	unsigned failures, refusals; // consecutive failures to read, and to write
	long again_ms, tell_ms;      // when to connect and to write again after a failure
	bool is_new;                 // something was read since the caller cleared this
};
void agent_node_init(struct kube *kube, const char *name, struct agent_node *ret);
void agent_node_done(struct agent_node *n);
// Connects if that is due, and waits up to wait_ms for an event. Negative: it is tried again later.
int agent_node_wait(struct agent_node *n, int wait_ms, struct err *err);
// 1 = written, 0 = nothing to write, or too early after a failure.
int agent_node_tell(struct agent_node *n, const struct agent_annotations *words, struct err *err);
