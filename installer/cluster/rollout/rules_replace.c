// SPDX-License-Identifier: Apache-2.0
// From the order to replace to the proof, or the way back (5.8).
#include "cluster/rollout/rules.h"

enum { TRIES = 2 };

// Too late to stop, and from here on not ours to uncordon: a cordon that comes back is somebody's.
static bool is_taken(const struct view *v)
{
	const struct receipt *receipt = &v->m->record.receipt;
	return receipt->is_there && !receipt->prior && !v->m->facts.is_unschedulable;
}
static void leave_cordon(const struct view *v, struct decision *d)
{
	(void)v;
	d->next.receipt.prior = true;
}

static bool is_replaced(const struct view *v)
{
	return answered(v, RESULT_DONE) && is_at(v, &v->m->record.target);
}
static void validate(const struct view *v, struct decision *d)
{
	enter(v, d, PHASE_VALIDATING, REASON_NONE, "");
	give_order(v, d, VERB_VALIDATE, d->next.target);
	d->next.paused = 0;
}
static bool is_rolled_back(const struct view *v)
{
	return v->rollout && v->rollout->is_halted && v->pool->on_halt != HALT_FINISH &&
	       aim_eq(&v->m->record.target, &v->rollout->target);
}
static void roll_back(const struct view *v, struct decision *d)
{
	restore(v, d, REASON_HALTED, false);
}
// The order stands no more, since somebody deleted it.
static bool is_order_lost(const struct view *v)
{
	const struct aim *target = &v->m->record.target;
	return !is_ordered(v, VERB_REPLACE, target) && !is_ordered(v, VERB_LOAD, target);
}
// No further unload where the cordon, or the record of it, was taken away meanwhile.
static bool is_exposed(const struct view *v)
{
	return !v->m->record.receipt.is_there || !v->m->facts.is_unschedulable;
}
static bool may_order(const struct view *v)
{
	bool is_halted = v->rollout && v->rollout->is_halted && is_moving(v);
	return !is_spent(v) && !is_halted && !is_exposed(v);
}
// Nobody unloads under a holder, and nothing was touched yet (5.4.3): back, in the time that the receipt still gives.
static bool is_busy_again(const struct view *v)
{
	return failed_as(v, FAILING_BUSY) && v->m->record.receipt.is_there;
}
static void drain_again(const struct view *v, struct decision *d)
{
	enter(v, d, PHASE_EVICTING, failed_as(v, FAILING_BUSY) ? REASON_HOLDERS : REASON_REPLACE_AGAIN, ack_code(v));
	take_back_order(v, d);
	pause_operands(v, d);
	if (failed_as(v, FAILING_BUSY))
		d->next.attempts--;
}
// By way of the drain, which looks for holders again.
static bool may_again(const struct view *v)
{
	return (failed_as(v, FAILING_TRANSIENT) || is_order_lost(v)) && may_order(v);
}
static bool is_order_spent(const struct view *v)
{
	return is_order_lost(v) && !may_order(v);
}
static void restore_spent(const struct view *v, struct decision *d)
{
	restore(v, d, REASON_ATTEMPTS_SPENT, false);
}
static bool is_refused(const struct view *v)
{
	return answered(v, RESULT_FAILED) || (answered(v, RESULT_DONE) && v->m->report.has_loaded);
}
static void restore_refused(const struct view *v, struct decision *d)
{
	restore(v, d, answered(v, RESULT_DONE) ? REASON_DRIFT : REASON_REPLACE_FAILED, true);
}
static void fail_silent(const struct view *v, struct decision *d)
{
	fail(v, d, REASON_AGENT_SILENT, "");
}
static void restore_late(const struct view *v, struct decision *d)
{
	restore(v, d, REASON_REPLACE_TIMEOUT, true);
}

// A new probe of exactly what is in the kernel; that something says ready is no proof (T35).
static bool is_proven(const struct view *v, const struct aim *aim)
{
	const struct report *r = &v->m->report;
	return is_ordered(v, VERB_VALIDATE, aim) && answered(v, RESULT_DONE) && is_at(v, aim) &&
	       r->health.result == RESULT_DONE && aim_eq(&r->health.aim, aim);
}
static bool is_valid(const struct view *v)
{
	return is_proven(v, &v->m->record.target);
}
static void finish(const struct view *v, struct decision *d)
{
	struct aim goal = transition_goal(v);
	bool is_goal = aim_eq(&goal, &v->m->record.target);
	bool is_back = aim_is(&v->m->record.failed);
	d->next.attempts = 0;
	if (aim_eq(&d->next.drains.aim, &d->next.target))
		d->next.drains.failed = 0;
	if (aim_eq(&d->next.failed, &d->next.target))
		d->next.failed = AIM_NONE;
	d->next.previous = AIM_NONE;
	release(v, d, is_goal || !is_back ? PHASE_DONE : PHASE_ROLLEDBACK, REASON_NONE, "");
}
static bool is_probe_again(const struct view *v)
{
	bool is_lost = !is_ordered(v, VERB_VALIDATE, &v->m->record.target);
	bool is_retried = failed_as(v, FAILING_TRANSIENT) || failed_as(v, FAILING_BUSY);
	return is_lost || (is_retried && v->m->record.tries < TRIES && backed_off(v, v->m->record.tries));
}
static void probe_again(const struct view *v, struct decision *d)
{
	give_order(v, d, VERB_VALIDATE, d->next.target);
}
static bool is_ill(const struct view *v)
{
	return failed_as(v, FAILING_PERMANENT) || (answered(v, RESULT_FAILED) && v->m->record.tries >= TRIES) ||
	       answered(v, RESULT_DONE);
}
static void restore_ill(const struct view *v, struct decision *d)
{
	restore(v, d, REASON_VALIDATION_FAILED, true);
}
static bool is_drifted(const struct view *v)
{
	const struct report *r = &v->m->report;
	return r->has_loaded && !member_empty(v->m) && !is_at(v, &v->m->record.target);
}
static void restore_drifted(const struct view *v, struct decision *d)
{
	restore(v, d, REASON_DRIFT, true);
}
// The deadline counts whether or not anybody ever answered (T01).
static void restore_unproven(const struct view *v, struct decision *d)
{
	bool is_mute = !answered(v, RESULT_FAILED) && !answered(v, RESULT_DONE);
	restore(v, d, is_mute ? REASON_VALIDATION_SILENT : REASON_VALIDATION_FAILED, true);
}

static bool is_back_proven(const struct view *v)
{
	struct aim back = way_back(v);
	return is_proven(v, &back);
}
static void finish_back(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	bool is_bad = aim_is(&r->failed) && aim_eq(&r->failed, &r->target);
	d->next.previous = AIM_NONE;
	release(v, d, is_bad ? PHASE_ROLLEDBACK : PHASE_IDLE, r->reason.code, r->reason.object);
}
static bool has_no_way_back(const struct view *v)
{
	struct aim back = way_back(v);
	return !aim_is(&back);
}
static void fail_no_way_back(const struct view *v, struct decision *d)
{
	fail(v, d, REASON_NO_PREVIOUS, "");
}
static bool is_back_unproven(const struct view *v)
{
	struct aim back = way_back(v);
	return is_at(v, &back) && !is_ordered(v, VERB_VALIDATE, &back);
}
static void validate_back(const struct view *v, struct decision *d)
{
	d->next.tries = 0;
	give_order(v, d, VERB_VALIDATE, way_back(v));
}
static bool may_restore(const struct view *v)
{
	struct aim back = way_back(v);
	return !is_at(v, &back) && !is_ordered(v, VERB_RESTORE, &back) && !is_busy(v) &&
	       !is_ordered(v, VERB_VALIDATE, &back);
}
static void order_back(const struct view *v, struct decision *d)
{
	give_order(v, d, VERB_RESTORE, way_back(v));
}
static bool may_restore_again(const struct view *v)
{
	bool is_short = failed_as(v, FAILING_BUSY) || failed_as(v, FAILING_TRANSIENT);
	return is_short && v->m->record.tries < TRIES + 2U && backed_off(v, v->m->record.tries) && !is_busy(v);
}
static void again_back(const struct view *v, struct decision *d)
{
	give_order(v, d, v->m->record.go.verb, way_back(v));
}
static bool is_back_bad(const struct view *v)
{
	return failed_as(v, FAILING_PERMANENT) || (answered(v, RESULT_FAILED) && v->m->record.tries >= TRIES + 2U) ||
	       (v->m->record.go.verb == VERB_VALIDATE && answered(v, RESULT_DONE));
}
static void fail_back(const struct view *v, struct decision *d)
{
	fail(v, d, REASON_RESTORE_FAILED, ack_code(v));
}
static void fail_back_late(const struct view *v, struct decision *d)
{
	fail(v, d, REASON_RESTORE_TIMEOUT, "");
}

const struct rule change_rules[] = {
	{ IN(REPLACING) | IN(VALIDATING) | IN(RESTORING), "somebody uncordoned it: whatever cordon comes is theirs",
	  is_taken, leave_cordon },
	{ IN(REPLACING), "the target is in the kernel: validated, operands are given back", is_replaced, validate },
	{ IN(REPLACING) | IN(VALIDATING), "the roll-out is halted, and the policy rolls back", is_rolled_back,
	  roll_back },
	{ IN(REPLACING), "the driver was in use, nothing was touched: drained further", is_busy_again, drain_again },
	{ IN(REPLACING), "it failed for a while, or the order is gone: once more, by way of the drain", may_again,
	  drain_again },
	{ IN(REPLACING), "the target cannot be loaded: the way back", is_refused, restore_refused },
	{ IN(REPLACING), "the order is gone, and no other is allowed: the way back", is_order_spent, restore_spent },
	{ IN(REPLACING), "the agent does not answer: stays cordoned", is_silent, fail_silent },
	{ IN(REPLACING), "it took too long: the way back", is_expired, restore_late },
	{ IN(VALIDATING), "proven healthy: uncordoned", is_valid, finish },
	{ IN(VALIDATING), "another driver is in the kernel: the way back", is_drifted, restore_drifted },
	{ IN(VALIDATING), "it failed for a while, or the order is gone: probed again", is_probe_again, probe_again },
	{ IN(VALIDATING), "it is not healthy: the way back", is_ill, restore_ill },
	{ IN(VALIDATING), "nothing proved it in time: the way back", is_expired, restore_unproven },
	{ IN(RESTORING), "NVIDIA's operator drives it with a driver of its own: released, nobody takes that out",
	  is_handed_over, leave_to_operator },
	{ IN(RESTORING), "the previous driver is proven healthy: uncordoned", is_back_proven, finish_back },
	{ IN(RESTORING), "there is nothing to go back to: stays cordoned", has_no_way_back, fail_no_way_back },
	{ IN(RESTORING), "the previous driver is in the kernel: validated", is_back_unproven, validate_back },
	{ IN(RESTORING), "nobody holds the driver: the previous one is ordered", may_restore, order_back },
	{ IN(RESTORING), "it failed for a while: once more", may_restore_again, again_back },
	{ IN(RESTORING), "the previous driver does not work: stays cordoned", is_back_bad, fail_back },
	{ IN(RESTORING), "it took too long: stays cordoned", is_expired, fail_back_late },
	{ 0 },
};
