// SPDX-License-Identifier: Apache-2.0
// Inside the transition: what rules are made of. Conditions only read; steps write the next record.
#pragma once
#include "cluster/rollout/transition.h"

#define IN(phase) (1U << PHASE_##phase)
#define RESTING (IN(IDLE) | IN(DONE) | IN(ROLLEDBACK))
#define DRAINING (IN(CORDONED) | IN(WAITING) | IN(EVICTING))

enum { REPEAT_S = 24 * 60 * 60 }; // a validated driver that stayed loaded this long is not a repetition

extern const struct rule repair_rules[], drain_rules[], release_rules[], replace_rules[]; // .text NULL ends

// Conditions
static inline bool rule_is_busy(const struct view *v) // in use, or unknown
{
	return v->m->report.holders != 0;
}
// Every agent had the time to speak: without an API server, or after a restore of etcd, it tries again within 48 s. A
// time to come is that of a clock that was set back since.
static inline bool rule_has_listened(const struct view *v)
{
	enum { HEARD_S = 60 };
	return v->now >= v->led + HEARD_S || v->now < v->led;
}
static inline bool rule_is_expired(const struct view *v) // the deadline is over
{
	return v->m->record.deadline && v->now >= v->m->record.deadline && rule_has_listened(v);
}
static inline bool rule_is_retry_requested(const struct view *v) // one more attempt
{
	return v->m->facts.retry && v->m->facts.retry != v->m->record.retry;
}
bool rule_has_answered(const struct view *v); // in any way
// The agent has accepted a later order, or another one with this number, and never begins this one: etcd was restored
// from a backup, and what was ordered since is on the agent's disk alone.
static inline bool rule_is_passed(const struct view *v)
{
	return v->m->report.ack.result != RESULT_NONE && !rule_has_answered(v) &&
	       node_seq_cmp(v->m->report.ack.seq, v->m->record.go.seq) >= 0;
}
static inline bool rule_is_ordered(const struct view *v, enum verb verb, const struct target_hash *target_hash)
{
	const struct order *go = &v->m->record.go;
	return go->verb == verb && target_hash_eq(&go->target_hash, target_hash) && !rule_is_passed(v);
}
// NVIDIA's operator manages the driver of the node by now, and its driver is loaded.
static inline bool rule_is_handed_over(const struct view *v)
{
	return node_state_is_foreign(v->m) && v->m->report.is_foreign;
}
// NVIDIA's controller is in the middle of an upgrade of its own.
static inline bool rule_is_upgraded(const struct view *v)
{
	enum upgrade word = v->m->facts.upgrade;
	return node_state_is_foreign(v->m) && word != UPGRADE_NONE && word != UPGRADE_REQUIRED && word != UPGRADE_DONE;
}
// Drains for this target that ended without a replacement.
static inline unsigned rule_failed_drains(const struct record *r, const struct target_hash *target_hash)
{
	return target_hash_eq(&r->drains.target_hash, target_hash) ? r->drains.failed : 0;
}
bool rule_is_late(const struct view *v);   // the last order was given longer ago than an answer takes
bool rule_is_silent(const struct view *v); // and the agent did not even accept it
// It failed because its agent did not answer the order to validate, and still does not.
static inline bool rule_is_mute(const struct view *v)
{
	return v->m->record.reason.code == REASON_AGENT_SILENT && v->m->record.go.verb == VERB_VALIDATE &&
	       !rule_has_answered(v) && !rule_is_passed(v);
}
// The order to stage the target is still to be answered.
bool rule_is_asked(const struct view *v);
// It said a moment ago that it has the target. Nobody is evicted for an agent that cannot start.
bool rule_is_heard(const struct view *v);
// A driver would be unloaded: neither is the target loaded, nor nothing at all.
bool rule_unloads(const struct view *v);
bool rule_is_loaded(const struct view *v, const struct target_hash *target_hash); // exactly this one
// It returns to service with the driver that it has: no move to a target, so no halt stops it.
static inline bool rule_recovers(const struct view *v)
{
	return rule_is_loaded(v, &v->m->record.target);
}
bool rule_is_target_spent(const struct view *v); // the target must not be ordered once more
bool rule_is_provable(const struct view *v);     // under our cordon, with a driver that may be validated
bool rule_is_moving(const struct view *v);       // to the rollout's target, from another driver
bool rule_is_answered(const struct view *v, enum result result);
static inline bool rule_has_failed_as(const struct view *v, enum failing failing)
{
	return rule_is_answered(v, RESULT_FAILED) && v->m->report.ack.failing == failing;
}
static inline const char *rule_ack_code(const struct view *v)
{
	return rule_is_answered(v, RESULT_FAILED) ? v->m->report.ack.code : "";
}
bool rule_has_backed_off(const struct view *v, unsigned tries);                   // long enough after the state began
bool rule_is_proven(const struct view *v, const struct target_hash *target_hash); // validated, and loaded ever since
bool rule_is_ill_before(const struct view *v);  // a GPU is broken before the change, and the policy leaves such nodes
bool rule_is_rolled_back(const struct view *v); // the rollout is halted, and takes back those that are under way
// The driver was changed, and what was there at the cordon is not back, or the policy's job has not passed.
bool rule_is_short(const struct view *v);
// Everything is there, the job included; else what is not.
bool rule_is_back(const struct view *v, struct reason *ret);
bool rule_is_kubelet_behind(const struct view *v); // what it says is allocatable may be of before the pause
static inline bool rule_is_release_reason(enum reason_code code)
{
	return code == REASON_WAITS_ALLOCATABLE || code == REASON_WAITS_MIG || code == REASON_WAITS_OPERANDS;
}
enum reason_code rule_stand_down_reason(const struct view *v); // why the node is to be left alone
const char *rule_stand_down_object(const struct view *v);      // what excludes it; "" = the reason says it
struct target_hash rule_previous_driver(const struct view *v);

// Steps
void rule_enter_phase(const struct view *v, struct decision *d, enum node_phase phase, enum reason_code why,
		      const char *object);
void rule_give_order(const struct view *v, struct decision *d, enum verb verb, struct target_hash target_hash);
void rule_take_back_order(const struct view *v, struct decision *d);
static inline void rule_pause_operands(const struct view *v, struct decision *d)
{
	d->next.paused |= v->m->facts.operands;
}
static inline void rule_give_back_operands(struct decision *d) // and the autoscaler hints
{
	d->next.paused = 0;
	d->next.autoscaler = 0;
}
void rule_release_node(const struct view *v, struct decision *d, enum node_phase outcome, enum reason_code why,
		       const char *object);
void rule_take_baseline(const struct node_state *m, char ret[BASELINE_TEXT]);
// Stays cordoned with its operands until rule_is_short() is false. why: of the record; NULL = what is not back.
void rule_await_release(const struct view *v, struct decision *d, enum node_phase outcome, const struct reason *why);
// One more drain that ended without a replacement, or one more replacement of a driver that had been validated.
void rule_count_drain(struct decision *d, bool is_repeat);
void rule_validate_target(const struct view *v, struct decision *d); // operands are restored
void rule_restore_driver(const struct view *v, struct decision *d, enum reason_code why, bool is_blamed);
void rule_fail_node(const struct view *v, struct decision *d, enum reason_code why, const char *object);
void rule_hand_over(const struct view *v, struct decision *d); // without a cordon, held as the user left it
void rule_set_target(const struct view *v, struct decision *d, struct target_hash target_hash);
void rule_queue_recovery(const struct view *v, struct decision *d); // to validate the loaded driver
