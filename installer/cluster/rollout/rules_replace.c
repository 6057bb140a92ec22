// SPDX-License-Identifier: Apache-2.0
// From the order to replace to the release of the node, or the rollback (5.8). A failed node gets out only by another
// validation (T35, I4): through the queue, or at once where its agent was silent or it is to be left alone.
#include "cluster/rollout/rules_internal.h"

enum { TRIES = 2 };

// Too late to stop, and from here on not ours to uncordon: a new cordon is not ours.
static bool is_taken_by_operator(const struct view *v)
{
	const struct receipt *receipt = &v->m->record.receipt;
	return receipt->is_there && !receipt->prior && !v->m->facts.is_unschedulable;
}
static void leave_cordon(const struct view *v, struct decision *d)
{
	(void)v;
	d->next.receipt.prior = true;
}

static bool is_replace_done(const struct view *v)
{
	return rule_is_answered(v, RESULT_DONE) && rule_is_loaded(v, &v->m->record.target);
}
bool rule_is_rolled_back(const struct view *v)
{
	return v->rollout && rollout_blames_target(v->rollout) && v->pool->on_halt != HALT_FINISH &&
	       target_hash_eq(&v->m->record.target, &v->rollout->target);
}
// The order is gone: it was deleted.
static bool is_order_lost(const struct view *v)
{
	const struct target_hash *target = &v->m->record.target;
	return !rule_is_ordered(v, VERB_REPLACE, target) && !rule_is_ordered(v, VERB_LOAD, target);
}
// No further unload if the cordon, or our record of it, is gone.
static bool may_order(const struct view *v)
{
	bool is_halted = v->rollout && v->rollout->is_halted && rule_is_moving(v);
	return !rule_is_target_spent(v) && !is_halted && v->m->record.receipt.is_there && v->m->facts.is_unschedulable;
}
// A driver in use is not unloaded, and nothing was touched yet (5.4.3): the drain goes on until its deadline.
static bool is_busy_again(const struct view *v)
{
	return rule_has_failed_as(v, FAILING_BUSY) && v->m->record.receipt.is_there;
}
static void drain_again(const struct view *v, struct decision *d)
{
	bool is_held = rule_has_failed_as(v, FAILING_BUSY) && v->m->facts.is_unschedulable;
	rule_enter_phase(v, d, PHASE_EVICTING, is_held ? REASON_HOLDERS : REASON_REPLACE_AGAIN, rule_ack_code(v));
	rule_take_back_order(v, d);
	rule_pause_operands(v, d);
	if (rule_has_failed_as(v, FAILING_BUSY))
		d->next.attempts--;
}
// After another drain, which looks for holders again.
static bool may_order_again(const struct view *v)
{
	return (rule_has_failed_as(v, FAILING_TRANSIENT) || is_order_lost(v)) && may_order(v);
}
static bool is_order_spent(const struct view *v)
{
	return is_order_lost(v) && !may_order(v);
}
static bool is_replace_refused(const struct view *v)
{
	return rule_is_answered(v, RESULT_FAILED) || (rule_is_answered(v, RESULT_DONE) && v->m->report.has_loaded);
}
static void restore_refused(const struct view *v, struct decision *d)
{
	rule_restore_driver(v, d, rule_is_answered(v, RESULT_DONE) ? REASON_DRIFT : REASON_REPLACE_FAILED, true);
}
// The step of several rules: the target is not blamed, or is.
static void restore_previous(const struct view *v, struct decision *d)
{
	rule_restore_driver(v, d, d->rule->reason, false);
}
static void blame_target(const struct view *v, struct decision *d)
{
	rule_restore_driver(v, d, d->rule->reason, true);
}
static void fail_node(const struct view *v, struct decision *d)
{
	rule_fail_node(v, d, d->rule->reason, "");
}
// A new probe of exactly the loaded driver; a ready state alone is no proof (T35).
bool rule_is_proven(const struct view *v, const struct target_hash *target_hash)
{
	const struct report *r = &v->m->report;
	return rule_is_ordered(v, VERB_VALIDATE, target_hash) && rule_is_answered(v, RESULT_DONE) &&
	       rule_is_loaded(v, target_hash) && r->health.result == RESULT_DONE &&
	       target_hash_eq(&r->health.target_hash, target_hash);
}
static bool is_valid(const struct view *v)
{
	return rule_is_proven(v, &v->m->record.target);
}
static bool is_valid_too_soon(const struct view *v)
{
	return is_valid(v) && rule_is_kubelet_behind(v);
}
static bool is_valid_and_short(const struct view *v)
{
	return is_valid(v) && rule_is_short(v);
}
// The state after its release.
static enum node_phase settle_replaced(const struct view *v, struct decision *d)
{
	struct target_hash goal = transition_goal(v);
	const struct record *r = &v->m->record;
	bool is_goal = target_hash_eq(&goal, &r->target);
	// What it had before the attempt is no success, whoever brought it back.
	bool is_back = target_hash_is_set(&r->failed) || target_hash_eq(&r->previous, &r->target);
	d->next.attempts = 0;
	if (target_hash_eq(&d->next.drains.target_hash, &d->next.target))
		d->next.drains.failed = 0;
	if (target_hash_eq(&d->next.failed, &d->next.target))
		d->next.failed = TARGET_HASH_NONE;
	// One that is to be left alone has no goal, and is no rollback that somebody has to look at.
	enum node_phase other = rule_stand_down_reason(v) != REASON_NONE ? PHASE_IDLE : PHASE_ROLLEDBACK;
	return is_goal || !is_back ? PHASE_DONE : other;
}
static void finish_replaced(const struct view *v, struct decision *d)
{
	enum node_phase outcome = settle_replaced(v, d);
	d->next.previous = TARGET_HASH_NONE;
	rule_release_node(v, d, outcome, REASON_NONE, "");
}
static void await_replaced(const struct view *v, struct decision *d)
{
	rule_await_release(v, d, settle_replaced(v, d), NULL);
}
static bool is_probe_again(const struct view *v)
{
	bool is_lost = !rule_is_ordered(v, VERB_VALIDATE, &v->m->record.target);
	bool is_retried = rule_has_failed_as(v, FAILING_TRANSIENT) || rule_has_failed_as(v, FAILING_BUSY);
	return is_lost || (is_retried && v->m->record.tries < TRIES && rule_has_backed_off(v, v->m->record.tries));
}
static void probe_again(const struct view *v, struct decision *d)
{
	rule_give_order(v, d, VERB_VALIDATE, d->next.target);
}
static bool is_driver_unhealthy(const struct view *v)
{
	return rule_has_failed_as(v, FAILING_PERMANENT) ||
	       (rule_is_answered(v, RESULT_FAILED) && v->m->record.tries >= TRIES) || rule_is_answered(v, RESULT_DONE);
}
// The target is not blamed, and no other driver is ordered from an agent that is not there.
// The order stays, and its answer is the first word of an agent that is back.
static bool is_mute_in_time(const struct view *v)
{
	return rule_is_expired(v) && rule_is_silent(v);
}
static void fail_mute(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_FAILED, REASON_AGENT_SILENT, "");
}
static bool is_drifted(const struct view *v)
{
	const struct report *r = &v->m->report;
	return r->has_loaded && !node_state_is_empty(v->m) && !rule_is_loaded(v, &v->m->record.target);
}
// The deadline counts even without any answer (T01).
static void restore_unproven(const struct view *v, struct decision *d)
{
	bool is_mute = !rule_is_answered(v, RESULT_FAILED) && !rule_is_answered(v, RESULT_DONE);
	rule_restore_driver(v, d, is_mute ? REASON_VALIDATION_SILENT : REASON_VALIDATION_FAILED, true);
}

static bool is_restore_proven(const struct view *v)
{
	struct target_hash back = rule_previous_driver(v);
	return rule_is_proven(v, &back);
}
static bool is_restored_and_short(const struct view *v)
{
	return is_restore_proven(v) && rule_is_short(v);
}
static enum node_phase restored_outcome(const struct record *r)
{
	bool is_bad = target_hash_is_set(&r->failed) && target_hash_eq(&r->failed, &r->target);
	return is_bad ? PHASE_ROLLEDBACK : PHASE_IDLE;
}
static void finish_restored(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	d->next.previous = TARGET_HASH_NONE;
	rule_release_node(v, d, restored_outcome(r), r->reason.code, r->reason.object);
}
static void await_restored(const struct view *v, struct decision *d)
{
	rule_await_release(v, d, restored_outcome(&v->m->record), &v->m->record.reason);
}
static bool has_no_previous_driver(const struct view *v)
{
	struct target_hash back = rule_previous_driver(v);
	return !target_hash_is_set(&back);
}
static bool is_restore_unproven(const struct view *v)
{
	struct target_hash back = rule_previous_driver(v);
	return rule_is_loaded(v, &back) && !rule_is_ordered(v, VERB_VALIDATE, &back);
}
static void validate_restored(const struct view *v, struct decision *d)
{
	d->next.tries = 0;
	rule_give_order(v, d, VERB_VALIDATE, rule_previous_driver(v));
}
static bool may_restore(const struct view *v)
{
	struct target_hash back = rule_previous_driver(v);
	return !rule_is_loaded(v, &back) && !rule_is_ordered(v, VERB_RESTORE, &back) && !rule_is_busy(v) &&
	       !rule_is_ordered(v, VERB_VALIDATE, &back);
}
static void order_restore(const struct view *v, struct decision *d)
{
	rule_give_order(v, d, VERB_RESTORE, rule_previous_driver(v));
}
static bool may_restore_again(const struct view *v)
{
	bool is_short = rule_has_failed_as(v, FAILING_BUSY) || rule_has_failed_as(v, FAILING_TRANSIENT);
	return is_short && v->m->record.tries < TRIES + 2U && rule_has_backed_off(v, v->m->record.tries) &&
	       !rule_is_busy(v);
}
static void order_restore_again(const struct view *v, struct decision *d)
{
	rule_give_order(v, d, v->m->record.go.verb, rule_previous_driver(v));
}
static bool is_restore_bad(const struct view *v)
{
	return rule_has_failed_as(v, FAILING_PERMANENT) ||
	       (rule_is_answered(v, RESULT_FAILED) && v->m->record.tries >= TRIES + 2U) ||
	       (v->m->record.go.verb == VERB_VALIDATE && rule_is_answered(v, RESULT_DONE));
}
static void fail_restore(const struct view *v, struct decision *d)
{
	rule_fail_node(v, d, REASON_RESTORE_FAILED, rule_ack_code(v));
}
static bool has_receipt(const struct view *v)
{
	return v->m->record.receipt.is_there;
}
static bool has_no_receipt(const struct view *v)
{
	return !v->m->record.receipt.is_there;
}
// Another process wrote a receipt: the patch is repeated, without a limit (T26).
static void release_again(const struct view *v, struct decision *d)
{
	struct reason why = v->m->record.reason;
	rule_release_node(v, d, v->m->record.outcome, why.code, why.object);
}
static void finish_release(const struct view *v, struct decision *d)
{
	struct reason why = v->m->record.reason;
	enum node_phase outcome = v->m->record.outcome;
	rule_enter_phase(v, d, outcome, why.code, why.object);
	memset(d->next.pool, 0, sizeof(d->next.pool));
}

static void hold_release(const struct view *v, struct decision *d)
{
	struct reason why = v->m->record.reason;
	bool is_lost = v->m->facts.is_unschedulable;
	rule_enter_phase(v, d, PHASE_HELD, is_lost ? REASON_RECEIPT_MISSING : why.code, is_lost ? "" : why.object);
	rule_give_back_operands(d);
}

// Or nothing was touched since our cordon.
// Whether its driver works is for the operator to prove: its validator decides when pods get GPUs.
static void leave_to_operator(const struct view *v, struct decision *d)
{
	rule_release_node(v, d, PHASE_IDLE, REASON_FOREIGN_CONTROLLER, rule_stand_down_object(v));
}
static bool is_left_to_operator(const struct view *v)
{
	return rule_is_handed_over(v) || (node_state_is_foreign(v->m) && !v->m->record.receipt.touched);
}

static bool is_goal_halted(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	return v->rollout && v->rollout->is_halted && target_hash_eq(&goal, &v->rollout->target);
}
// During a halt the request waits, and is not used up.
static bool is_retry_of_failed(const struct view *v)
{
	return rule_is_retry_requested(v) && rule_stand_down_reason(v) == REASON_NONE && !is_goal_halted(v);
}
static void stage_goal(const struct view *v, struct decision *d)
{
	rule_set_target(v, d, transition_goal(v));
	rule_enter_phase(v, d, PHASE_STAGING, REASON_NONE, "");
	rule_give_order(v, d, VERB_STAGE, d->next.target);
}
static void retry_target(const struct view *v, struct decision *d)
{
	unsigned most = v->pool->attempts;
	stage_goal(v, d);
	d->next.retry = v->m->facts.retry;
	d->next.attempts = (uint16_t)(d->next.attempts < most ? d->next.attempts : most - 1);
	d->next.failed = TARGET_HASH_NONE;
	memset(&d->next.drains, 0, sizeof(d->next.drains));
}
static bool is_new_target(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	return rule_stand_down_reason(v) == REASON_NONE && target_hash_is_set(&goal) &&
	       !target_hash_eq(&goal, &v->m->record.target) && !target_hash_eq(&goal, &v->m->record.failed) &&
	       !is_goal_halted(v) && !rule_is_mute(v);
}
static bool is_healed(const struct view *v)
{
	const struct record *own = &v->m->record;
	// A drain timed out, and onTimeout is hold: nothing was touched, so nothing can have been repaired.
	bool is_kept = !own->receipt.touched && own->reason.code == REASON_DRAIN_TIMEOUT;
	bool is_short = rule_is_release_reason(own->reason.code) && rule_is_short(v);
	return rule_is_provable(v) && !is_kept && !is_short && rule_stand_down_reason(v) == REASON_NONE;
}
static void recover_node(const struct view *v, struct decision *d)
{
	struct target_hash goal = transition_goal(v);
	// Repeated drains for the same target have a limit, too.
	if (target_hash_eq(&goal, &d->next.target) && !target_hash_eq(&goal, &d->next.failed) &&
	    !target_hash_eq(&goal, &v->m->report.loaded))
		rule_count_drain(d, false);
	rule_queue_recovery(v, d);
}

// Its agent is back. What it has by now is validated, whatever was ordered before; if that fails, it goes back. Neither
// waits for a slot: the node has been out of service since it was drained, and counts as unavailable all the time. It
// takes a work slot from here on, so maxParallel begins no other node meanwhile.
static bool is_heard_again(const struct view *v)
{
	return v->m->record.reason.code == REASON_AGENT_SILENT && v->m->record.go.verb == VERB_VALIDATE &&
	       !rule_is_mute(v) && rule_stand_down_reason(v) == REASON_NONE;
}
static void validate_found(const struct view *v, struct decision *d)
{
	const struct report *r = &v->m->report;
	bool is_other = r->has_loaded && !r->is_foreign && target_hash_is_set(&r->loaded) &&
			!target_hash_eq(&r->loaded, &v->m->record.failed);
	if (is_other)
		rule_set_target(v, d, r->loaded);
	rule_validate_target(v, d);
}

// Excluded, aborted or without a pool, it gets no slot and no other driver: the loaded one is validated as it is.
static bool is_excluded_and_provable(const struct view *v)
{
	return rule_is_provable(v) && rule_stand_down_reason(v) != REASON_NONE && !node_state_is_foreign(v->m);
}
static void validate_excluded(const struct view *v, struct decision *d)
{
	rule_set_target(v, d, v->m->report.loaded);
	d->next.attempts++;
	rule_enter_phase(v, d, PHASE_VALIDATING, rule_stand_down_reason(v), "");
	rule_give_order(v, d, VERB_VALIDATE, d->next.target);
	d->next.paused = 0;
}

const struct rule replace_rules[] = {
	{ IN(REPLACING) | IN(VALIDATING) | IN(RESTORING), "uncordoned by a user: a later cordon is not ours",
	  is_taken_by_operator, leave_cordon, REASON_NONE },
	{ IN(REPLACING), "the target is loaded: validated, operands restored", is_replace_done, rule_validate_target,
	  REASON_NONE },
	{ IN(REPLACING) | IN(VALIDATING), "the rollout is halted, and onHalt is rollback", rule_is_rolled_back,
	  restore_previous, REASON_HALTED },
	{ IN(REPLACING), "the driver was in use, nothing was touched: the drain goes on", is_busy_again, drain_again,
	  REASON_NONE },
	{ IN(REPLACING), "temporary failure, or the order is gone: ordered again, after another drain", may_order_again,
	  drain_again, REASON_NONE },
	{ IN(REPLACING), "the target cannot be loaded: the previous driver is restored", is_replace_refused,
	  restore_refused, REASON_NONE },
	{ IN(REPLACING), "the order is gone, and no retry is allowed: the previous driver is restored", is_order_spent,
	  restore_previous, REASON_ATTEMPTS_SPENT },
	{ IN(REPLACING), "the agent does not answer: stays cordoned", rule_is_silent, fail_node, REASON_AGENT_SILENT },
	{ IN(REPLACING), "timed out: the previous driver is restored", rule_is_expired, blame_target,
	  REASON_REPLACE_TIMEOUT },
	{ IN(VALIDATING), "validated: the kubelet will say what is allocatable since", is_valid_too_soon, NULL,
	  REASON_NONE },
	{ IN(VALIDATING), "validated: waits until what was there before is back", is_valid_and_short, await_replaced,
	  REASON_NONE },
	{ IN(VALIDATING), "validated: uncordoned", is_valid, finish_replaced, REASON_NONE },
	{ IN(VALIDATING), "another driver is loaded: the previous one is restored", is_drifted, blame_target,
	  REASON_DRIFT },
	{ IN(VALIDATING), "temporary failure, or the order is gone: validated again", is_probe_again, probe_again,
	  REASON_NONE },
	{ IN(VALIDATING), "the driver is not healthy: the previous one is restored", is_driver_unhealthy, blame_target,
	  REASON_VALIDATION_FAILED },
	{ IN(VALIDATING), "the agent did not answer in time: stays cordoned until it does", is_mute_in_time, fail_mute,
	  REASON_NONE },
	{ IN(VALIDATING), "not validated in time: the previous driver is restored", rule_is_expired, restore_unproven,
	  REASON_NONE },
	{ IN(RESTORING), "NVIDIA's operator has loaded its own driver: released with that driver", rule_is_handed_over,
	  leave_to_operator, REASON_NONE },
	{ IN(RESTORING), "the previous driver is validated: operands run again, until what was there before is back",
	  is_restored_and_short, await_restored, REASON_NONE },
	{ IN(RESTORING), "the previous driver is validated: uncordoned", is_restore_proven, finish_restored,
	  REASON_NONE },
	{ IN(RESTORING), "there is no previous driver: stays cordoned", has_no_previous_driver, fail_node,
	  REASON_NO_PREVIOUS },
	{ IN(RESTORING), "the previous driver is loaded: validated", is_restore_unproven, validate_restored,
	  REASON_NONE },
	{ IN(RESTORING), "the driver is not in use: the previous one is ordered", may_restore, order_restore,
	  REASON_NONE },
	{ IN(RESTORING), "temporary failure: ordered again", may_restore_again, order_restore_again, REASON_NONE },
	{ IN(RESTORING), "the previous driver does not work: stays cordoned", is_restore_bad, fail_restore,
	  REASON_NONE },
	{ IN(RESTORING), "timed out: stays cordoned", rule_is_expired, fail_node, REASON_RESTORE_TIMEOUT },
	{ IN(RELEASING), "the record of our cordon is still there: released again", has_receipt, release_again,
	  REASON_NONE },
	{ IN(RELEASING), "the release is confirmed: the attempt is over", has_no_receipt, finish_release, REASON_NONE },
	{ IN(FAILED), "the record of our cordon is gone: held", has_no_receipt, hold_release, REASON_NONE },
	{ IN(FAILED), "NVIDIA's operator manages the driver now, and nothing of ours is in its way: released",
	  is_left_to_operator, leave_to_operator, REASON_NONE },
	{ IN(FAILED), "a retry is requested: one more attempt", is_retry_of_failed, retry_target, REASON_NONE },
	{ IN(FAILED), "the agent answers again: the driver is validated", is_heard_again, validate_found, REASON_NONE },
	{ IN(FAILED), "there is a new target: one attempt with it", is_new_target, stage_goal, REASON_NONE },
	{ IN(FAILED), "its driver is healthy again: queued for validation", is_healed, recover_node, REASON_NONE },
	{ IN(FAILED), "its driver is healthy, and the node is excluded: validated, then uncordoned",
	  is_excluded_and_provable, validate_excluded, REASON_NONE },
	{ 0 },
};
