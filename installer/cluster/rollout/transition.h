// SPDX-License-Identifier: Apache-2.0
// What becomes of one node next: pure, from what is written on it, what its agent says, what is so, the policy and the
// time. The rows of one table are the rules; `rollout why` shows the same rows. upgrade-design 5.3, 5.6, 5.8.
#pragma once
#include "cluster/policy/policy.h"

enum slot { SLOT_NONE, SLOT_WAIT /* cordoned, waits for jobs */, SLOT_WORK };

// Of one pool, kept in the rollout's status.
struct rollout {
	struct target_hash target, stable; // stable none: the pool never had one
	bool is_halted, is_aborted;
	struct reason halt;
	int64_t halted_since; // what was said before that does not lift it
	unsigned frozen;      // nodes that the limits are parts of; 0 = as many as there are
	unsigned wave;        // that is open: index; behind the policy's waves comes the rest
	int64_t soak_since;   // the wave is complete since; 0 = it is not
	unsigned approved;    // waves up to this one may open
	int64_t resumed;      // failures before that are forgiven
};

struct view {
	const struct node_state *m;
	const struct pool *pool;       // NULL = none has the node
	const struct rollout *rollout; // of that pool; NULL with it
	enum slot slot;
	enum reason_code
		refused;  // why scheduler_plan gives it nothing; REASON_NONE = staging is allowed, or a slot is its
	bool is_revoked;  // its slot is taken back before anything was unloaded
	const char *wave; // that it belongs to, by name; shorter than WORD_TEXT
	uint32_t epoch;
	int64_t now;
	const char *leader;    // that is written on it; NULL = none is
	bool is_led_elsewhere; // the coordinator of another namespace leads it
};

enum cordon { CORDON_KEEP, CORDON_ON, CORDON_OFF };

struct rule; // a row of the table
struct decision {
	const struct rule *rule; // NULL = nothing is to be done
	struct record next;      // equal to the record when nothing is to be done
	enum cordon cordon;
	bool drops_word;     // NVIDIA's label goes: what it says is ours, and would start NVIDIA's upgrade controller
	bool evicts;         // evictions are to go on: it is cordoned by us, has a slot, and holders or pods are left
	struct reason waits; // why nothing more happens now
};
void transition(const struct view *v, struct decision *ret);

// The rules of its state in their order, for those who ask why: each with whether it applies now.
const struct rule *transition_next_rule(const struct rule *previous, enum node_phase phase);
const char *transition_rule_text(const struct rule *rule);
bool transition_rule_applies(const struct rule *rule, const struct view *v);

// Where the node is to go now; none: nowhere.
struct target_hash transition_goal(const struct view *v);
// Why a node that rests does not begin; REASON_NONE = it may.
enum reason_code transition_rests(const struct view *v);
// It goes back to service with the driver that it has: no move to a target, so no halt stops it.
bool transition_recovers(const struct view *v);
