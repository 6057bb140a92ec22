// SPDX-License-Identifier: Apache-2.0
// Released, and failed: the only ways out of a failure lead through the queue and a new proof (T35, I4).
#include "cluster/rollout/rules.h"

// Somebody wrote a receipt behind us: the patch is repeated, for ever (T26).
static bool is_unreleased(const struct view *v)
{
	return v->m->record.receipt.is_there;
}
static void release_again(const struct view *v, struct decision *d)
{
	struct reason why = v->m->record.reason;
	release(v, d, v->m->record.outcome, why.code, why.object);
}
static bool is_always(const struct view *v)
{
	return v->m != NULL;
}
static void arrive(const struct view *v, struct decision *d)
{
	struct reason why = v->m->record.reason;
	enum phase outcome = v->m->record.outcome;
	enter(v, d, outcome, why.code, why.object);
	d->next.outcome = PHASE_IDLE;
	memset(d->next.pool, 0, sizeof(d->next.pool));
}

static bool is_receipt_lost(const struct view *v)
{
	return !v->m->record.receipt.is_there;
}
static void hold(const struct view *v, struct decision *d)
{
	struct reason why = v->m->record.reason;
	bool is_lost = v->m->facts.is_unschedulable;
	enter(v, d, PHASE_HELD, is_lost ? REASON_RECEIPT_MISSING : why.code, is_lost ? "" : why.object);
	give_back(d);
}

// Or as it was before our cordon, where nothing was touched since.
static bool is_left_to_operator(const struct view *v)
{
	return is_handed_over(v) || (member_is_foreign(v->m) && !v->m->record.receipt.touched);
}

static bool is_goal_halted(const struct view *v)
{
	struct aim goal = transition_goal(v);
	return v->rollout && v->rollout->is_halted && aim_eq(&goal, &v->rollout->target);
}
// Of a roll-out that is halted it waits for the end of that, and is not used up.
static bool is_retry_wanted(const struct view *v)
{
	return is_retry(v) && stands_down(v) == REASON_NONE && !is_goal_halted(v);
}
static void try_again(const struct view *v, struct decision *d)
{
	unsigned most = v->pool->attempts;
	set_target(v, d, transition_goal(v));
	d->next.retry = v->m->facts.retry;
	d->next.attempts = (uint16_t)(d->next.attempts < most ? d->next.attempts : most - 1);
	d->next.failed = AIM_NONE;
	memset(&d->next.drains, 0, sizeof(d->next.drains));
	enter(v, d, PHASE_STAGING, REASON_NONE, "");
	give_order(v, d, VERB_STAGE, d->next.target);
}
static bool is_new_target(const struct view *v)
{
	struct aim goal = transition_goal(v);
	return stands_down(v) == REASON_NONE && aim_is(&goal) && !aim_eq(&goal, &v->m->record.target) &&
	       !aim_eq(&goal, &v->m->record.failed) && !is_goal_halted(v);
}
static void try_new(const struct view *v, struct decision *d)
{
	set_target(v, d, transition_goal(v));
	enter(v, d, PHASE_STAGING, REASON_NONE, "");
	give_order(v, d, VERB_STAGE, d->next.target);
}
static bool is_healed(const struct view *v)
{
	const struct record *own = &v->m->record;
	// A drain that did not end, where the policy holds: nothing was touched, so that nothing can have been
	// repaired.
	bool is_kept = !own->receipt.touched && own->reason.code == REASON_DRAIN_TIMEOUT;
	return is_well(v) && !is_kept && stands_down(v) == REASON_NONE;
}
static void recover(const struct view *v, struct decision *d)
{
	struct aim failed = d->next.failed, goal = transition_goal(v), loaded = v->m->report.loaded;
	// That it drains once more for the same target is to end, too.
	if (aim_eq(&goal, &d->next.target) && !aim_eq(&goal, &failed) && !aim_eq(&goal, &loaded))
		count_drain(d);
	set_target(v, d, loaded);
	d->next.failed = failed;
	d->next.attempts++;
	enter(v, d, PHASE_QUEUED, REASON_NONE, "");
}

// Taken out, aborted or without a pool, it gets no slot and no other driver: what it has is proven where it is.
static bool is_to_leave(const struct view *v)
{
	return is_well(v) && stands_down(v) != REASON_NONE && !member_is_foreign(v->m);
}
static void leave(const struct view *v, struct decision *d)
{
	struct aim failed = d->next.failed;
	set_target(v, d, v->m->report.loaded);
	d->next.failed = failed;
	d->next.attempts++;
	enter(v, d, PHASE_VALIDATING, stands_down(v), "");
	give_order(v, d, VERB_VALIDATE, d->next.target);
	d->next.paused = 0;
}

const struct rule end_rules[] = {
	{ IN(RELEASING), "a receipt is still there: released again", is_unreleased, release_again },
	{ IN(RELEASING), "released, as was read back: the attempt is over", is_always, arrive },
	{ IN(FAILED), "the record of our cordon is gone: held", is_receipt_lost, hold },
	{ IN(FAILED), "NVIDIA's operator drives it by now, and nothing of ours is in its way: released",
	  is_left_to_operator, leave_to_operator },
	{ IN(FAILED), "somebody asks for a retry: one more attempt", is_retry_wanted, try_again },
	{ IN(FAILED), "there is a new target: it is tried", is_new_target, try_new },
	{ IN(FAILED), "its driver is healthy again: queued for a proof", is_healed, recover },
	{ IN(FAILED), "its driver is healthy, and the node is to be left alone: proven and uncordoned", is_to_leave,
	  leave },
	{ 0 },
};
