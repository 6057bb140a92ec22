// SPDX-License-Identifier: Apache-2.0
// `mode: self` of a policy: a cluster of one node, without a coordinator. The agent gives itself the orders that a
// coordinator would give, by the same pure functions, scheduler_plan() and transition(). What a coordinator writes on
// the Node, the Lease and the rollout's status is in a file of this node, STATE/agent/self.json: deadlines, attempts,
// the previous driver and the failed target outlive the agent and the boot, and no API server is needed.
//
// Nothing is cordoned or evicted: an agent may not (upgrade-design 5.10). The driver is unloaded once it is not in use.
#pragma once
#include "cluster/agent/agent_annotations.h"

struct single_node {
	json_t *doc;         // as on the disk; NULL = nothing was written yet
	struct node_state m; // as of the last step: .record.go is the order, .record.phase the state
};
void single_node_done(struct single_node *s);

// 1 = read, 0 = absent or not valid: then *ret_why says why, and it starts over. Caller frees.
int single_node_read(const struct root *state, struct single_node *ret, char **ret_why, struct err *err);

struct single_node_step { // what was done
	bool is_move;     // to another state
	enum node_phase to;
	struct reason reason;
};
// words: what the agent reports; people: facts of its Node, if it was read; policy: one of mode self. 1 = *ret was
// decided and is on the disk: call again. 0 = nothing to do now.
int single_node_step(struct single_node *s, const struct root *state, const struct policy *policy,
		     const struct agent_annotations *words, const struct node_facts *people, int64_t now,
		     struct single_node_step *ret, struct err *err);
