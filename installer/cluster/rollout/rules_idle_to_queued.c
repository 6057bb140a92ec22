// SPDX-License-Identifier: Apache-2.0
// Before a workload is disturbed: resting, staging, queued, loading where there was nothing, held.
#include "cluster/rollout/transition_internal.h"

static bool is_foreign(const struct view *v)
{
	return node_state_is_foreign(v->m);
}
static void hold_foreign(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_HELD, REASON_FOREIGN_CONTROLLER, rule_stand_down_object(v));
	rule_take_back_order(v, d);
}

static bool is_goal_reached(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	return rule_stand_down_reason(v) == REASON_NONE && rule_is_loaded(v, &goal);
}
static bool is_new_arrival(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	return is_goal_reached(v) && (v->m->record.phase != PHASE_DONE || !target_hash_eq(&goal, &v->m->record.target));
}
static void adopt_loaded(const struct view *v, struct decision *d)
{
	rule_set_target(v, d, transition_goal(v));
	d->next.attempts = 0;
	d->next.drains.failed = 0;
	d->next.failed = target_hash_eq(&d->next.failed, &d->next.target) ? TARGET_HASH_NONE : d->next.failed;
	rule_enter_phase(v, d, PHASE_DONE, REASON_NONE, "");
	rule_take_back_order(v, d);
}

static bool is_retry_of_held(const struct view *v)
{
	return rule_is_retry_requested(v) && rule_stand_down_reason(v) == REASON_NONE;
}
// One more attempt (5.2): the nonce is remembered, never deleted. Of a target that was not spent it takes nothing away.
static void allow_one_retry(const struct view *v, struct decision *d)
{
	unsigned most = v->pool->attempts;
	d->next.retry = v->m->facts.retry;
	d->next.attempts = (uint16_t)(d->next.attempts < most ? d->next.attempts : most - 1);
	d->next.failed = TARGET_HASH_NONE;
	memset(&d->next.drains, 0, sizeof(d->next.drains));
	rule_enter_phase(v, d, v->m->record.receipt.is_there ? PHASE_FAILED : PHASE_IDLE, REASON_NONE, "");
	rule_take_back_order(v, d); // of an agent that did not answer: ordered again if it is still to be done
}

// Idle would say that nothing is amiss, and its wave would wait for it without a word (T03, I12).
static bool is_goal_given_up(const struct view *v)
{
	enum reason_code why = transition_rests(v);
	return why == REASON_ATTEMPTS_SPENT || why == REASON_FAILED_TARGET;
}
static void hold_given_up(const struct view *v, struct decision *d)
{
	enum reason_code why = transition_rests(v);
	struct reason last = v->m->record.reason;
	rule_set_target(v, d, transition_goal(v));
	rule_enter_phase(v, d, PHASE_HELD, why, why == REASON_DRAIN_GIVEN_UP ? last.object : "");
	rule_take_back_order(v, d);
}
static bool is_drained_enough(const struct view *v)
{
	enum reason_code why = transition_rests(v);
	return why == REASON_DRAIN_GIVEN_UP || why == REASON_DRIFT_REPEATED;
}

static bool may_begin(const struct view *v)
{
	return transition_rests(v) == REASON_NONE;
}
// A change of parameters alone needs nothing fetched.
static bool has_payload(const struct view *v, const struct target_hash *target_hash)
{
	return node_state_is_staged(v->m, target_hash) ||
	       (target_hash_is_set(&v->m->report.loaded) && v->m->report.loaded.payload == target_hash->payload);
}
static bool may_queue(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	return may_begin(v) && has_payload(v, &goal);
}
static void queue_goal(const struct view *v, struct decision *d)
{
	rule_set_target(v, d, transition_goal(v));
	rule_count_repeat(v, d);
	rule_enter_phase(v, d, PHASE_QUEUED, REASON_NONE, "");
	rule_keep_reason(v, d);
	rule_take_back_order(v, d);
}
static bool may_stage(const struct view *v)
{
	return may_begin(v) && v->refused == REASON_NONE;
}
static void order_stage(const struct view *v, struct decision *d)
{
	rule_set_target(v, d, transition_goal(v));
	rule_count_repeat(v, d);
	rule_enter_phase(v, d, PHASE_STAGING, REASON_NONE, "");
	rule_keep_reason(v, d);
	rule_give_order(v, d, VERB_STAGE, d->next.target);
}

// The plan changed before it cost anything (T15, T40): back to where it is evaluated again.
static bool is_staging_halted(const struct view *v)
{
	return v->m->record.phase == PHASE_STAGING && v->rollout && v->rollout->is_halted && rule_is_moving(v);
}
static bool is_goal_gone(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	bool is_recovering = v->m->record.receipt.is_there && transition_recovers(v);
	return rule_stand_down_reason(v) != REASON_NONE || is_staging_halted(v) ||
	       (!is_recovering && !target_hash_eq(&goal, &v->m->record.target));
}
static void step_back(const struct view *v, struct decision *d)
{
	bool is_ours = v->m->record.receipt.is_there;
	enum reason_code why = rule_stand_down_reason(v);
	if (why == REASON_NONE && is_ours && is_staging_halted(v)) // a cordon of ours has a reason
		why = REASON_HALTED;
	rule_enter_phase(v, d, is_ours ? PHASE_FAILED : PHASE_IDLE, why, rule_stand_down_object(v));
	rule_take_back_order(v, d);
}

// With a back-off and a limit: something may clean the disk again and again.
static void step_back_unstaged(const struct view *v, struct decision *d)
{
	bool is_ours = v->m->record.receipt.is_there;
	rule_count_drain(d);
	rule_enter_phase(v, d, is_ours ? PHASE_FAILED : PHASE_IDLE, REASON_NOT_STAGED, "");
	rule_take_back_order(v, d);
}

static bool is_staged(const struct view *v)
{
	return rule_is_ordered(v, VERB_STAGE, &v->m->record.target) && rule_is_answered(v, RESULT_DONE) &&
	       node_state_is_staged(v->m, &v->m->record.target);
}
static void queue_node(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_QUEUED, REASON_NONE, "");
	rule_keep_reason(v, d);
	rule_take_back_order(v, d);
}
enum { STAGE_TRIES = 3 };
static bool is_stage_bad(const struct view *v)
{
	return rule_has_failed_as(v, FAILING_PERMANENT);
}
static bool is_stage_over(const struct view *v)
{
	return v->m->record.tries >= STAGE_TRIES && (rule_is_expired(v) || rule_is_answered(v, RESULT_FAILED));
}
static void hold_stage(const struct view *v, struct decision *d)
{
	bool is_ours = v->m->record.receipt.is_there;
	rule_enter_phase(v, d, is_ours ? PHASE_FAILED : PHASE_HELD, REASON_STAGE_FAILED, rule_ack_code(v));
	rule_take_back_order(v, d);
}
static bool is_stage_again(const struct view *v)
{
	return rule_is_expired(v) || !rule_is_ordered(v, VERB_STAGE, &v->m->record.target) ||
	       ((rule_is_answered(v, RESULT_FAILED) || rule_is_answered(v, RESULT_DONE)) &&
		rule_has_backed_off(v, v->m->record.tries));
}
static void order_stage_again(const struct view *v, struct decision *d)
{
	unsigned tries = v->m->record.tries;
	rule_enter_phase(v, d, PHASE_STAGING, REASON_STAGE_FAILED, rule_ack_code(v));
	d->next.tries = (uint16_t)tries;
	rule_give_order(v, d, VERB_STAGE, d->next.target);
}
static void hold_silent(const struct view *v, struct decision *d)
{
	bool is_ours = v->m->record.receipt.is_there;
	rule_enter_phase(v, d, is_ours ? PHASE_FAILED : PHASE_HELD, REASON_AGENT_SILENT, "");
}

static bool is_adopted(const struct view *v)
{
	return is_goal_reached(v) && !v->m->record.receipt.is_there;
}
// Its turn may be days away: a wave, a window, a pause.
static bool is_kept_waiting(const struct view *v)
{
	int64_t most = policy_span(v->pool, SPAN_BACKOFF_MOST);
	return !transition_recovers(v) && rule_is_provable(v) && v->refused != REASON_NONE &&
	       v->now >= v->m->record.since + most;
}
static bool is_queued_unstaged(const struct view *v)
{
	return !transition_recovers(v) && !has_payload(v, &v->m->record.target);
}
static bool is_never_loaded(const struct view *v)
{
	bool is_halted = v->rollout->is_halted && rule_is_moving(v);
	return node_state_is_empty(v->m) && !v->m->record.receipt.is_there && !rule_is_target_spent(v) && !is_halted;
}
static void load_unattended(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_LOADING, REASON_NONE, "");
	rule_give_order(v, d, VERB_LOAD, d->next.target);
}
// The pods are listed before a workload is disturbed (5.7). A node that is cordoned already, since it failed, goes on.
static bool is_slot_granted(const struct view *v)
{
	return v->slot != SLOT_NONE && v->refused == REASON_NONE &&
	       (v->m->record.receipt.is_there || node_state_pods(v->m)->pods >= 0);
}
static bool is_node_protected(const struct view *v)
{
	return is_slot_granted(v) && !v->m->record.receipt.is_there &&
	       node_state_pods(v->m)->blocker.code == REASON_HOLDER_PROTECTED;
}
static void hold_protected(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_HELD, REASON_HOLDER_PROTECTED, node_state_pods(v->m)->blocker.object);
	rule_take_back_order(v, d);
}
// The state before is read in this very patch, which tests it (T20, T21, T22). A receipt that is there stays: the node
// has been ours since it failed.
static void cordon_granted_node(const struct view *v, struct decision *d)
{
	struct record *r = &d->next;
	unsigned whole = policy_span(v->pool, SPAN_CORDON) + policy_span(v->pool, SPAN_EVICT) +
			 (v->pool->wait_for ? 2 * policy_span(v->pool, SPAN_WAIT) : 0);
	if (!r->receipt.is_there) {
		r->receipt = (struct receipt){ .is_there = true, .prior = v->m->facts.is_unschedulable };
		r->previous = v->m->report.loaded;
	}
	r->receipt.until = v->now + whole;
	r->receipt.again = 0;
	r->receipt.waited = false;
	for (unsigned i = 0; hints[i].key; i++)
		r->autoscaler |= v->m->facts.hints & 1U << i ? 0 : (uint8_t)(1U << i);
	memcpy(r->pool, v->pool->name, sizeof(r->pool));
	memset(r->wave, 0, sizeof(r->wave));
	memcpy(r->wave, v->wave, strlen(v->wave));
	rule_enter_phase(v, d, PHASE_CORDONED, REASON_NONE, "");
	d->cordon = v->m->facts.is_unschedulable ? CORDON_KEEP : CORDON_ON;
}

static bool is_load_done(const struct view *v)
{
	return rule_is_answered(v, RESULT_DONE) && rule_is_loaded(v, &v->m->record.target);
}
static void finish_load(const struct view *v, struct decision *d)
{
	struct target_hash goal = transition_goal(v);
	d->next.attempts = 0;
	rule_enter_phase(v, d, target_hash_eq(&goal, &d->next.target) ? PHASE_DONE : PHASE_IDLE, REASON_NONE, "");
	rule_take_back_order(v, d);
}
static void drop_load_order(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_IDLE, REASON_NONE, "");
	rule_take_back_order(v, d);
}

// Two programs loaded a driver at the same time, which says nothing of ours.
static bool is_load_foreign(const struct view *v)
{
	return rule_is_handed_over(v) || (is_foreign(v) && (rule_is_answered(v, RESULT_FAILED) || rule_is_expired(v)));
}

static bool is_load_halted(const struct view *v)
{
	return v->rollout && v->rollout->is_halted && rule_is_moving(v) && rule_is_answered(v, RESULT_FAILED);
}
static bool is_load_again(const struct view *v)
{
	return (rule_has_failed_as(v, FAILING_TRANSIENT) || rule_has_failed_as(v, FAILING_BUSY)) &&
	       !rule_is_target_spent(v) && rule_has_backed_off(v, v->m->record.tries);
}
static void order_load_again(const struct view *v, struct decision *d)
{
	rule_give_order(v, d, VERB_LOAD, d->next.target);
}
static bool is_load_bad(const struct view *v)
{
	return rule_is_expired(v) || rule_has_failed_as(v, FAILING_PERMANENT) ||
	       (rule_is_answered(v, RESULT_FAILED) && rule_is_target_spent(v));
}
static void hold_load(const struct view *v, struct decision *d)
{
	d->next.failed = d->next.target;
	rule_enter_phase(v, d, PHASE_HELD, REASON_LOAD_FAILED, rule_ack_code(v));
	rule_take_back_order(v, d);
}

static bool is_cause_gone(const struct view *v)
{
	const struct record *r = &v->m->record;
	struct target_hash goal = transition_goal(v);
	bool is_new = target_hash_is_set(&goal) && !target_hash_eq(&goal, &r->target), is_gone;
	switch (r->reason.code) {
	case REASON_FOREIGN_CONTROLLER:
		return !node_state_is_foreign(v->m);
	case REASON_AGENT_SILENT:
		return rule_is_answered(v, RESULT_DONE) || rule_is_answered(v, RESULT_FAILED) || is_new;
	case REASON_RECEIPT_MISSING:
		return !v->m->facts.is_unschedulable;
	case REASON_HOLDER_PROTECTED:
		is_gone = node_state_pods(v->m)->pods >= 0 &&
			  node_state_pods(v->m)->blocker.code != REASON_HOLDER_PROTECTED;
		return is_gone || is_new || rule_is_loaded(v, &goal);
	default:
		return is_new || rule_is_loaded(v, &goal);
	}
}
const struct rule begin_rules[] = {
	{ RESTING | IN(HELD), "a retry is requested: one more attempt", is_retry_of_held, allow_one_retry },
	{ RESTING, "NVIDIA's operator manages the driver of the node: held", is_foreign, hold_foreign },
	{ RESTING, "the target is loaded: adopted, nothing to do", is_new_arrival, adopt_loaded },
	{ IN(IDLE), "no attempt is left for the target: held", is_goal_given_up, hold_given_up },
	{ RESTING, "the target does not stay loaded, and no drain attempt is left: held", is_drained_enough,
	  hold_given_up },
	{ RESTING, "the target is staged already: queued", may_queue, queue_goal },
	{ RESTING, "the target is not staged: staged first, without a disruption", may_stage, order_stage },
	{ IN(STAGING) | IN(QUEUED), "the plan changed: evaluated again", is_goal_gone, step_back },
	{ IN(STAGING), "the target is staged: queued", is_staged, queue_node },
	{ IN(STAGING), "the target is not available: held, no workload was disturbed", is_stage_bad, hold_stage },
	{ IN(STAGING), "staging failed too often: held, no workload was disturbed", is_stage_over, hold_stage },
	{ IN(STAGING), "staging failed or timed out: staged again", is_stage_again, order_stage_again },
	{ IN(STAGING) | IN(LOADING), "the agent does not answer: held", rule_is_silent, hold_silent },
	{ IN(QUEUED), "the target is loaded: adopted", is_adopted, adopt_loaded },
	{ IN(QUEUED),
	  "still cordoned after a failure, healthy again, and not its turn: queued to validate the loaded driver",
	  is_kept_waiting, rule_queue_recovery },
	{ IN(QUEUED), "the target is no longer staged for this kernel: staged again", is_queued_unstaged,
	  step_back_unstaged },
	{ IN(QUEUED), "no driver is loaded: the target is loaded without a cordon", is_never_loaded, load_unattended },
	{ IN(QUEUED), "a pod that must not be evicted uses the GPU: held, no workload was disturbed", is_node_protected,
	  hold_protected },
	{ IN(QUEUED), "a slot is granted: cordoned", is_slot_granted, cordon_granted_node },
	{ IN(LOADING), "the target is loaded", is_load_done, finish_load },
	{ IN(LOADING), "the target is not loaded, and NVIDIA's operator manages the driver now: held", is_load_foreign,
	  hold_foreign },
	{ IN(LOADING), "the load failed, and the rollout is halted: evaluated again", is_load_halted, drop_load_order },
	{ IN(LOADING), "the load failed temporarily: ordered again", is_load_again, order_load_again },
	{ IN(LOADING), "the load failed: held", is_load_bad, hold_load },
	{ IN(HELD), "the cause is gone: evaluated again", is_cause_gone, drop_load_order },
	{ 0 },
};
