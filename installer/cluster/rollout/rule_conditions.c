// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/rules.h"

bool is_busy(const struct view *v)
{
	return v->m->report.holders != 0;
}

bool is_expired(const struct view *v)
{
	return v->m->record.deadline && v->now >= v->m->record.deadline;
}

bool is_at(const struct view *v, const struct aim *aim)
{
	const struct report *r = &v->m->report;
	return r->has_loaded && !r->is_foreign && aim_is(aim) && aim_eq(&r->loaded, aim);
}

static bool is_heard(const struct view *v)
{
	return seq_cmp(v->m->report.ack.seq, v->m->record.go.seq) == 0 && v->m->report.ack.verb == v->m->record.go.verb;
}

bool is_silent(const struct view *v)
{
	enum { ANSWERS_AWAITED = 3 };
	const struct record *r = &v->m->record;
	int64_t begin = r->ordered > r->since ? r->ordered : r->since; // one that was repeated has its own time
	return r->go.verb != VERB_NONE && !is_heard(v) &&
	       v->now >= begin + ANSWERS_AWAITED * (int64_t)span_of(v->pool, SPAN_ACK);
}

bool answered(const struct view *v, enum result result)
{
	return v->m->record.go.verb != VERB_NONE && is_heard(v) && v->m->report.ack.result == result;
}

bool failed_as(const struct view *v, enum failing failing)
{
	return answered(v, RESULT_FAILED) && v->m->report.ack.failing == failing;
}

bool is_ordered(const struct view *v, enum verb verb, const struct aim *aim)
{
	return v->m->record.go.verb == verb && aim_eq(&v->m->record.go.aim, aim);
}

bool is_spent(const struct view *v)
{
	const struct record *r = &v->m->record;
	unsigned most = v->pool ? v->pool->attempts : 1;
	bool is_bad = aim_is(&r->failed) && aim_eq(&r->failed, &r->target);
	return !is_at(v, &r->target) && (is_bad || r->attempts >= most);
}

bool is_retry(const struct view *v)
{
	return v->m->facts.retry && v->m->facts.retry != v->m->record.retry;
}

bool is_moving(const struct view *v)
{
	const struct record *r = &v->m->record;
	return v->rollout && aim_eq(&r->target, &v->rollout->target) && !is_at(v, &r->target);
}

bool backed_off(const struct view *v, unsigned tries)
{
	int64_t wait = span_of(v->pool, SPAN_BACKOFF), most = span_of(v->pool, SPAN_BACKOFF_MOST);
	for (unsigned i = 1; i < tries && wait < most; i++)
		wait *= 2;
	return v->now >= v->m->record.since + (wait < most ? wait : most);
}

// A node in flight is released, not frozen.
enum reason_code stands_down(const struct view *v)
{
	if (v->is_led_elsewhere)
		return REASON_FOREIGN_COORDINATOR;
	if (!v->pool)
		return REASON_POLICY_GONE;
	if (v->m->facts.is_skipped)
		return REASON_SKIPPED;
	if (member_is_foreign(v->m))
		return REASON_FOREIGN_CONTROLLER;
	return v->rollout->is_aborted ? REASON_ABORTED : REASON_NONE;
}

const char *stands_down_for(const struct view *v)
{
	bool is_foreign = stands_down(v) == REASON_FOREIGN_CONTROLLER;
	return !is_foreign ? "" : *v->m->facts.driver_set ? v->m->facts.driver_set : UPGRADE_ENABLED;
}

bool is_handed_over(const struct view *v)
{
	return member_is_foreign(v->m) && v->m->report.is_foreign;
}

bool is_upgraded(const struct view *v)
{
	enum upgrade word = v->m->facts.upgrade;
	return member_is_foreign(v->m) && word != UPGRADE_NONE && word != UPGRADE_REQUIRED && word != UPGRADE_DONE;
}

struct aim way_back(const struct view *v)
{
	const struct record *r = &v->m->record;
	if (aim_is(&r->previous))
		return r->previous;
	return aim_is(&r->stable) && !aim_eq(&r->stable, &r->target) ? r->stable : AIM_NONE;
}

const char *ack_code(const struct view *v)
{
	return answered(v, RESULT_FAILED) ? v->m->report.ack.code : "";
}

struct aim transition_goal(const struct view *v)
{
	const struct facts *f = &v->m->facts;
	if (f->is_pinned)
		return aim_is(&f->pin) ? f->pin : v->m->report.loaded;
	if (!v->pool)
		return AIM_NONE;
	// A node without a driver gets what is known to work while the target is being tried (D3, T71, T75).
	bool is_back = v->rollout->is_halted && v->pool->on_halt == HALT_ROLLBACK_ALL;
	if (aim_is(&v->rollout->stable) && (member_empty(v->m) || is_back))
		return v->rollout->stable;
	return v->rollout->target;
}

bool transition_recovers(const struct view *v)
{
	return is_at(v, &v->m->record.target);
}

unsigned failed_drains(const struct view *v, const struct aim *aim)
{
	const struct record *r = &v->m->record;
	return aim_eq(&r->drains.aim, aim) ? r->drains.failed : 0;
}

// Drained as often as one target is worth: it ends here, and the others go on.
static enum reason_code given_up(const struct view *v, const struct aim *goal)
{
	const struct record *r = &v->m->record;
	unsigned failed = failed_drains(v, goal), most = v->pool->drain_attempts;
	if (failed && failed >= most)
		return REASON_DRAIN_GIVEN_UP;
	bool is_again = r->phase == PHASE_DONE && aim_eq(&r->target, goal) && aim_eq(&r->drains.aim, goal) &&
			!member_empty(v->m) && v->now < r->since + REPEAT_S;
	return is_again && r->drains.repeated + 1U >= most ? REASON_DRIFT_REPEATED : REASON_NONE;
}

// In the order in which people want to hear of it.
enum reason_code transition_rests(const struct view *v)
{
	const struct record *r = &v->m->record;
	struct aim goal = transition_goal(v);
	bool is_new = !aim_eq(&goal, &r->target);
	if (stands_down(v) != REASON_NONE)
		return stands_down(v);
	if (!v->m->report.has_loaded)
		return REASON_NO_REPORT;
	if (!aim_is(&goal) || is_at(v, &goal))
		return REASON_UP_TO_DATE;
	if (aim_eq(&goal, &r->failed))
		return REASON_FAILED_TARGET;
	if (!is_new && r->attempts >= v->pool->attempts)
		return REASON_ATTEMPTS_SPENT;
	if (given_up(v, &goal) != REASON_NONE)
		return given_up(v, &goal);
	if (v->rollout->is_halted && aim_eq(&goal, &v->rollout->target))
		return REASON_HALTED;
	if (v->m->facts.is_paused)
		return REASON_NODE_PAUSED;
	if (!v->m->facts.is_ready)
		return REASON_NOT_READY;
	// After a drain that did not end, or another way back: not at once again, and each time later.
	unsigned failed = failed_drains(v, &goal);
	bool is_again = failed || (!is_new && r->reason.code != REASON_NONE);
	if (is_again && r->since && !backed_off(v, r->attempts + 2U + (failed ? failed : 1)))
		return r->reason.code != REASON_NONE ? r->reason.code : REASON_BACKING_OFF;
	return REASON_NONE;
}

// Repaired by somebody or by a reboot: what is in the kernel now is healthy by the agent's word. It still has to be
// proven, with a slot, like everything that ends in an uncordon.
bool is_well(const struct view *v)
{
	enum { RECOVERIES = 3, TIRED_S = 6 * 60 * 60 };
	const struct report *r = &v->m->report;
	const struct record *own = &v->m->record;
	// Not for ever: an agent that was away said so before it went.
	bool is_tired =
		aim_eq(&own->target, &r->loaded) && own->attempts >= RECOVERIES && v->now < own->since + TIRED_S;
	return own->receipt.is_there && !is_tired && r->has_loaded && !r->is_foreign && aim_is(&r->loaded) &&
	       aim_eq(&r->health.aim, &r->loaded) && r->health.result == RESULT_DONE &&
	       !aim_eq(&r->loaded, &own->failed);
}
