// SPDX-License-Identifier: Apache-2.0
// `mode: self` of a policy: the node of a cluster that has one, and no coordinator. The agent gives itself the orders
// that a coordinator would give, by the same pure functions, scheduler_plan() and transition(). What a coordinator
// writes on the Node, the Lease and the rollout's status it writes in a file of this node, STATE/agent/self.json: so
// deadlines, attempts, the way back and the target that failed outlive the agent and the boot, and no API server is
// asked.
//
// Nothing is cordoned or evicted: an agent may not (upgrade-design 5.10). The driver is unloaded when it is not in use.
#pragma once
#include "cluster/agent/agent_annotations.h"

struct single_node {
	json_t *doc;         // as it is on the disk; NULL = nothing was written yet
	struct node_state m; // as of the last step: .record.go is the order, .record.phase the state
};
void single_node_done(struct single_node *s);

// 1 = read, 0 = there is none, or what is there is not valid: *ret_why says why, and it starts over. Caller frees.
int single_node_read(const struct root *state, struct single_node *ret, char **ret_why, struct err *err);

struct single_node_step { // what was done
	bool is_move;     // to another state
	enum node_phase to;
	struct reason reason;
};
// words: what the agent says; people: facts of its Node, as far as it was read; policy: one of mode self. 1 = something
// was decided, and is on the disk: to be called again; *ret is what. 0 = nothing is to be done now.
int single_node_step(struct single_node *s, const struct root *state, const struct policy *policy,
		     const struct agent_annotations *words, const struct node_facts *people, int64_t now,
		     struct single_node_step *ret, struct err *err);
