// SPDX-License-Identifier: Apache-2.0
// From the order to replace to the proof, or the way back (5.8).
#include "cluster/rollout/transition_internal.h"

enum { TRIES = 2 };

// Too late to stop, and from here on not ours to uncordon: a cordon that comes back is somebody's.
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
static void validate_replaced(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_VALIDATING, REASON_NONE, "");
	rule_give_order(v, d, VERB_VALIDATE, d->next.target);
	d->next.paused = 0;
}
static bool is_rolled_back(const struct view *v)
{
	return v->rollout && v->rollout->is_halted && v->pool->on_halt != HALT_FINISH &&
	       target_hash_eq(&v->m->record.target, &v->rollout->target);
}
static void roll_back(const struct view *v, struct decision *d)
{
	rule_restore_driver(v, d, REASON_HALTED, false);
}
// The order is gone: it was deleted.
static bool is_order_lost(const struct view *v)
{
	const struct target_hash *target = &v->m->record.target;
	return !rule_is_ordered(v, VERB_REPLACE, target) && !rule_is_ordered(v, VERB_LOAD, target);
}
// No further unload where the cordon, or the record of it, was taken away meanwhile.
static bool is_exposed(const struct view *v)
{
	return !v->m->record.receipt.is_there || !v->m->facts.is_unschedulable;
}
static bool may_order(const struct view *v)
{
	bool is_halted = v->rollout && v->rollout->is_halted && rule_is_moving(v);
	return !rule_is_target_spent(v) && !is_halted && !is_exposed(v);
}
// A driver in use is not unloaded, and nothing was touched yet (5.4.3): drain on, in the time that the receipt leaves.
static bool is_busy_again(const struct view *v)
{
	return rule_has_failed_as(v, FAILING_BUSY) && v->m->record.receipt.is_there;
}
static void drain_again(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_EVICTING,
			 rule_has_failed_as(v, FAILING_BUSY) ? REASON_HOLDERS : REASON_REPLACE_AGAIN, rule_ack_code(v));
	rule_take_back_order(v, d);
	rule_pause_operands(v, d);
	if (rule_has_failed_as(v, FAILING_BUSY))
		d->next.attempts--;
}
// By way of the drain, which looks for holders again.
static bool may_order_again(const struct view *v)
{
	return (rule_has_failed_as(v, FAILING_TRANSIENT) || is_order_lost(v)) && may_order(v);
}
static bool is_order_spent(const struct view *v)
{
	return is_order_lost(v) && !may_order(v);
}
static void restore_spent(const struct view *v, struct decision *d)
{
	rule_restore_driver(v, d, REASON_ATTEMPTS_SPENT, false);
}
static bool is_replace_refused(const struct view *v)
{
	return rule_is_answered(v, RESULT_FAILED) || (rule_is_answered(v, RESULT_DONE) && v->m->report.has_loaded);
}
static void restore_refused(const struct view *v, struct decision *d)
{
	rule_restore_driver(v, d, rule_is_answered(v, RESULT_DONE) ? REASON_DRIFT : REASON_REPLACE_FAILED, true);
}
static void fail_silent(const struct view *v, struct decision *d)
{
	rule_fail_node(v, d, REASON_AGENT_SILENT, "");
}
static void restore_late(const struct view *v, struct decision *d)
{
	rule_restore_driver(v, d, REASON_REPLACE_TIMEOUT, true);
}

// A new probe of exactly what is in the kernel; that something says ready is no proof (T35).
static bool is_driver_proven(const struct view *v, const struct target_hash *target_hash)
{
	const struct report *r = &v->m->report;
	return rule_is_ordered(v, VERB_VALIDATE, target_hash) && rule_is_answered(v, RESULT_DONE) &&
	       rule_is_loaded(v, target_hash) && r->health.result == RESULT_DONE &&
	       target_hash_eq(&r->health.target_hash, target_hash);
}
static bool is_valid(const struct view *v)
{
	return is_driver_proven(v, &v->m->record.target);
}
static void finish_replaced(const struct view *v, struct decision *d)
{
	struct target_hash goal = transition_goal(v);
	bool is_goal = target_hash_eq(&goal, &v->m->record.target);
	bool is_back = target_hash_is_set(&v->m->record.failed);
	d->next.attempts = 0;
	if (target_hash_eq(&d->next.drains.target_hash, &d->next.target))
		d->next.drains.failed = 0;
	if (target_hash_eq(&d->next.failed, &d->next.target))
		d->next.failed = TARGET_HASH_NONE;
	d->next.previous = TARGET_HASH_NONE;
	rule_release_node(v, d, is_goal || !is_back ? PHASE_DONE : PHASE_ROLLEDBACK, REASON_NONE, "");
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
static void restore_unhealthy(const struct view *v, struct decision *d)
{
	rule_restore_driver(v, d, REASON_VALIDATION_FAILED, true);
}
static bool is_drifted(const struct view *v)
{
	const struct report *r = &v->m->report;
	return r->has_loaded && !node_state_is_empty(v->m) && !rule_is_loaded(v, &v->m->record.target);
}
static void restore_drifted(const struct view *v, struct decision *d)
{
	rule_restore_driver(v, d, REASON_DRIFT, true);
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
	return is_driver_proven(v, &back);
}
static void finish_restored(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	bool is_bad = target_hash_is_set(&r->failed) && target_hash_eq(&r->failed, &r->target);
	d->next.previous = TARGET_HASH_NONE;
	rule_release_node(v, d, is_bad ? PHASE_ROLLEDBACK : PHASE_IDLE, r->reason.code, r->reason.object);
}
static bool has_no_previous_driver(const struct view *v)
{
	struct target_hash back = rule_previous_driver(v);
	return !target_hash_is_set(&back);
}
static void fail_no_previous_driver(const struct view *v, struct decision *d)
{
	rule_fail_node(v, d, REASON_NO_PREVIOUS, "");
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
static void fail_restore_late(const struct view *v, struct decision *d)
{
	rule_fail_node(v, d, REASON_RESTORE_TIMEOUT, "");
}

const struct rule change_rules[] = {
	{ IN(REPLACING) | IN(VALIDATING) | IN(RESTORING), "uncordoned by a user: a later cordon is not ours",
	  is_taken_by_operator, leave_cordon },
	{ IN(REPLACING), "the target is loaded: validated, operands restored", is_replace_done, validate_replaced },
	{ IN(REPLACING) | IN(VALIDATING), "the rollout is halted, and onHalt is rollback", is_rolled_back, roll_back },
	{ IN(REPLACING), "the driver was in use, nothing was touched: the drain goes on", is_busy_again, drain_again },
	{ IN(REPLACING), "temporary failure, or the order is gone: ordered again, after another drain", may_order_again,
	  drain_again },
	{ IN(REPLACING), "the target cannot be loaded: the previous driver is restored", is_replace_refused,
	  restore_refused },
	{ IN(REPLACING), "the order is gone, and no retry is allowed: the previous driver is restored", is_order_spent,
	  restore_spent },
	{ IN(REPLACING), "the agent does not answer: stays cordoned", rule_is_silent, fail_silent },
	{ IN(REPLACING), "timed out: the previous driver is restored", rule_is_expired, restore_late },
	{ IN(VALIDATING), "validated: uncordoned", is_valid, finish_replaced },
	{ IN(VALIDATING), "another driver is loaded: the previous one is restored", is_drifted, restore_drifted },
	{ IN(VALIDATING), "temporary failure, or the order is gone: validated again", is_probe_again, probe_again },
	{ IN(VALIDATING), "the driver is not healthy: the previous one is restored", is_driver_unhealthy,
	  restore_unhealthy },
	{ IN(VALIDATING), "not validated in time: the previous driver is restored", rule_is_expired, restore_unproven },
	{ IN(RESTORING), "NVIDIA's operator has loaded its own driver: released with that driver", rule_is_handed_over,
	  rule_leave_to_operator },
	{ IN(RESTORING), "the previous driver is validated: uncordoned", is_restore_proven, finish_restored },
	{ IN(RESTORING), "there is no previous driver: stays cordoned", has_no_previous_driver,
	  fail_no_previous_driver },
	{ IN(RESTORING), "the previous driver is loaded: validated", is_restore_unproven, validate_restored },
	{ IN(RESTORING), "the driver is not in use: the previous one is ordered", may_restore, order_restore },
	{ IN(RESTORING), "temporary failure: ordered again", may_restore_again, order_restore_again },
	{ IN(RESTORING), "the previous driver does not work: stays cordoned", is_restore_bad, fail_restore },
	{ IN(RESTORING), "timed out: stays cordoned", rule_is_expired, fail_restore_late },
	{ 0 },
};
