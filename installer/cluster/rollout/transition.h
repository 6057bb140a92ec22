// SPDX-License-Identifier: Apache-2.0
// What happens with one node next: a pure function of its record, its agent's report, its facts, the policy and the
// time. The rules are rows of tables; `rollout why` shows the same rows. upgrade-design 5.3, 5.6, 5.8.
#pragma once
#include "cluster/policy/policy.h"

enum slot { SLOT_NONE, SLOT_WAIT /* cordoned, waits for jobs */, SLOT_WORK };

// The rollout of one pool, kept in the rollout's status.
struct rollout {
	struct target_hash target, stable; // stable none: the pool never had one
	bool is_halted, is_aborted;
	struct reason halt;
	int64_t halted_since; // an earlier resume does not lift the halt
	unsigned frozen;      // number of nodes that percentages refer to; 0 = as many as there are
	unsigned wave;        // index of the open wave; the rest comes after the policy's waves
	int64_t soak_since;   // when the wave was complete; 0 = it is not
	unsigned approved;    // waves up to this one may open
	int64_t resumed;      // failures before that do not count
};

enum job_state { JOB_UNSEEN, JOB_WAITS, JOB_RUNS, JOB_PASSED, JOB_FAILED, JOB_LATE };
struct validation_job {     // the pod of the policy's validation on a node
	char uid[UID_TEXT]; // of the node
	struct seq order;   // that proved its driver; each has a pod of its own
	enum job_state state;
	char text[OBJECT_TEXT]; // plain characters: why it waits, how it failed
	long retry_ms;          // of the coordinator: it is not made again before that
};

struct view {
	const struct node_state *m;
	const struct pool *pool;          // NULL = the node is in none
	const struct rollout *rollout;    // of that pool; NULL with it
	const struct validation_job *job; // NULL = nothing is known of it
	enum slot slot;
	enum reason_code refused; // why scheduler_plan gives it nothing; REASON_NONE = it may stage, or has a slot
	bool is_revoked;          // its slot is taken back before anything was unloaded
	const char *wave;         // name of its wave; shorter than WORD_TEXT
	uint32_t epoch;
	int64_t now;
	const char *leader;    // to be written on it; NULL = none
	bool is_led_elsewhere; // the coordinator of another namespace manages it
	int64_t led;           // when this leader began to lead, or read everything anew
};

enum cordon { CORDON_KEEP, CORDON_ON, CORDON_OFF };

struct decision;
struct rule { // of the states in phases: when its condition holds, its step is taken
	unsigned phases;
	const char *text;
	bool (*when)(const struct view *v);
	void (*take)(const struct view *v, struct decision *d); // NULL = the node waits
	enum reason_code reason;                                // for a step that several rules share
};
struct decision {
	const struct rule *rule; // NULL = there is nothing to do
	struct record next;      // equal to the record when there is nothing to do
	enum cordon cordon;
	bool drops_word;     // NVIDIA's label is removed: it is ours, and would start NVIDIA's upgrade controller
	bool warns;          // an Event of it is a warning, with what `waits` says
	bool evicts;         // evict pods: it is cordoned by us, has a slot, and holders or pods are left
	struct reason waits; // why nothing more happens now
};
void transition(const struct view *v, struct decision *ret);

// The rules of a state in their order.
const struct rule *transition_next_rule(const struct rule *previous, enum node_phase phase);

// Whether the node has again what its baseline lists, and what is not there yet.
bool transition_is_back(const struct node_state *m, struct reason *ret);
bool transition_waits_for_release(const struct node_state *m); // validated, and still cordoned until that is so
bool transition_looks_at_operands(const struct node_state *m); // its pods tell
bool transition_runs_job(const struct view *v);                // the pod of the validation has to be there
// It stays cordoned for something that is not back; a job that runs is no delay.
bool transition_is_kept(const struct view *v, struct reason *ret);

// The target that the node should have now; none: nothing is to change.
struct target_hash transition_goal(const struct view *v);
// Why a node at rest does not begin; REASON_NONE = it may.
enum reason_code transition_rests(const struct view *v);

// Errors of the hardware halt a rollout, and are no reason to go back.
static inline bool rollout_blames_target(const struct rollout *r)
{
	return r->is_halted && r->halt.code != REASON_HARDWARE_ERRORS;
}
