// SPDX-License-Identifier: Apache-2.0
// Released, and failed: the only ways out of a failure lead through the queue and a new proof (T35, I4).
#include "cluster/rollout/transition_internal.h"

// Another process wrote a receipt: the patch is repeated, without a limit (T26).
static bool is_unreleased(const struct view *v)
{
	return v->m->record.receipt.is_there;
}
static void release_again(const struct view *v, struct decision *d)
{
	struct reason why = v->m->record.reason;
	rule_release_node(v, d, v->m->record.outcome, why.code, why.object);
}
static bool is_always(const struct view *v)
{
	return v->m != NULL;
}
static void finish_release(const struct view *v, struct decision *d)
{
	struct reason why = v->m->record.reason;
	enum node_phase outcome = v->m->record.outcome;
	rule_enter_phase(v, d, outcome, why.code, why.object);
	d->next.outcome = PHASE_IDLE;
	memset(d->next.pool, 0, sizeof(d->next.pool));
}

static bool is_release_receipt_lost(const struct view *v)
{
	return !v->m->record.receipt.is_there;
}
static void hold_release(const struct view *v, struct decision *d)
{
	struct reason why = v->m->record.reason;
	bool is_lost = v->m->facts.is_unschedulable;
	rule_enter_phase(v, d, PHASE_HELD, is_lost ? REASON_RECEIPT_MISSING : why.code, is_lost ? "" : why.object);
	rule_give_back_operands(d);
}

// Or as it was before our cordon, where nothing was touched since.
static bool is_left_to_operator(const struct view *v)
{
	return rule_is_handed_over(v) || (node_state_is_foreign(v->m) && !v->m->record.receipt.touched);
}

static bool is_goal_halted(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	return v->rollout && v->rollout->is_halted && target_hash_eq(&goal, &v->rollout->target);
}
// Of a rollout that is halted it waits for the end of that, and is not used up.
static bool is_retry_of_failed(const struct view *v)
{
	return rule_is_retry_requested(v) && rule_stand_down_reason(v) == REASON_NONE && !is_goal_halted(v);
}
static void retry_target(const struct view *v, struct decision *d)
{
	unsigned most = v->pool->attempts;
	rule_set_target(v, d, transition_goal(v));
	d->next.retry = v->m->facts.retry;
	d->next.attempts = (uint16_t)(d->next.attempts < most ? d->next.attempts : most - 1);
	d->next.failed = TARGET_HASH_NONE;
	memset(&d->next.drains, 0, sizeof(d->next.drains));
	rule_enter_phase(v, d, PHASE_STAGING, REASON_NONE, "");
	rule_give_order(v, d, VERB_STAGE, d->next.target);
}
static bool is_new_target(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	return rule_stand_down_reason(v) == REASON_NONE && target_hash_is_set(&goal) &&
	       !target_hash_eq(&goal, &v->m->record.target) && !target_hash_eq(&goal, &v->m->record.failed) &&
	       !is_goal_halted(v);
}
static void try_new_target(const struct view *v, struct decision *d)
{
	rule_set_target(v, d, transition_goal(v));
	rule_enter_phase(v, d, PHASE_STAGING, REASON_NONE, "");
	rule_give_order(v, d, VERB_STAGE, d->next.target);
}
static bool is_healed(const struct view *v)
{
	const struct record *own = &v->m->record;
	// A drain that did not end, where the policy holds: nothing was touched, so that nothing can have been
	// repaired.
	bool is_kept = !own->receipt.touched && own->reason.code == REASON_DRAIN_TIMEOUT;
	return rule_is_provable(v) && !is_kept && rule_stand_down_reason(v) == REASON_NONE;
}
static void recover_node(const struct view *v, struct decision *d)
{
	struct target_hash goal = transition_goal(v);
	// That it drains once more for the same target is to end, too.
	if (target_hash_eq(&goal, &d->next.target) && !target_hash_eq(&goal, &d->next.failed) &&
	    !target_hash_eq(&goal, &v->m->report.loaded))
		rule_count_drain(d);
	rule_queue_recovery(v, d);
}

// Taken out, aborted or without a pool, it gets no slot and no other driver: what it has is proven where it is.
static bool is_to_release_to_operator(const struct view *v)
{
	return rule_is_provable(v) && rule_stand_down_reason(v) != REASON_NONE && !node_state_is_foreign(v->m);
}
static void release_driver_to_operator(const struct view *v, struct decision *d)
{
	rule_set_target(v, d, v->m->report.loaded);
	d->next.attempts++;
	rule_enter_phase(v, d, PHASE_VALIDATING, rule_stand_down_reason(v), "");
	rule_give_order(v, d, VERB_VALIDATE, d->next.target);
	d->next.paused = 0;
}

const struct rule end_rules[] = {
	{ IN(RELEASING), "the record of our cordon is still there: released again", is_unreleased, release_again },
	{ IN(RELEASING), "the release is confirmed: the attempt is over", is_always, finish_release },
	{ IN(FAILED), "the record of our cordon is gone: held", is_release_receipt_lost, hold_release },
	{ IN(FAILED), "NVIDIA's operator manages the driver now, and nothing of ours is in its way: released",
	  is_left_to_operator, rule_leave_to_operator },
	{ IN(FAILED), "a retry is requested: one more attempt", is_retry_of_failed, retry_target },
	{ IN(FAILED), "there is a new target: one attempt with it", is_new_target, try_new_target },
	{ IN(FAILED), "its driver is healthy again: queued for validation", is_healed, recover_node },
	{ IN(FAILED), "its driver is healthy, and the node is excluded: validated, then uncordoned",
	  is_to_release_to_operator, release_driver_to_operator },
	{ 0 },
};
