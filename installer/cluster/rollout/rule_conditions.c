// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/rules.h"

bool rule_is_busy(const struct view *v)
{
	return v->m->report.holders != 0;
}

bool rule_is_expired(const struct view *v)
{
	return v->m->record.deadline && v->now >= v->m->record.deadline;
}

bool rule_is_loaded(const struct view *v, const struct target_hash *target_hash)
{
	const struct report *r = &v->m->report;
	return r->has_loaded && !r->is_foreign && target_hash_is_set(target_hash) &&
	       target_hash_eq(&r->loaded, target_hash);
}

static bool is_ack_of_order(const struct view *v)
{
	return node_seq_cmp(v->m->report.ack.seq, v->m->record.go.seq) == 0 &&
	       v->m->report.ack.verb == v->m->record.go.verb;
}

bool rule_is_silent(const struct view *v)
{
	enum { ANSWERS_AWAITED = 3 };
	const struct record *r = &v->m->record;
	int64_t begin = r->ordered > r->since ? r->ordered : r->since; // one that was repeated has its own time
	return r->go.verb != VERB_NONE && !is_ack_of_order(v) &&
	       v->now >= begin + ANSWERS_AWAITED * (int64_t)policy_span(v->pool, SPAN_ACK);
}

bool rule_is_answered(const struct view *v, enum result result)
{
	return v->m->record.go.verb != VERB_NONE && is_ack_of_order(v) && v->m->report.ack.result == result;
}

bool rule_has_failed_as(const struct view *v, enum failing failing)
{
	return rule_is_answered(v, RESULT_FAILED) && v->m->report.ack.failing == failing;
}

bool rule_is_ordered(const struct view *v, enum verb verb, const struct target_hash *target_hash)
{
	return v->m->record.go.verb == verb && target_hash_eq(&v->m->record.go.target_hash, target_hash);
}

bool rule_is_target_spent(const struct view *v)
{
	const struct record *r = &v->m->record;
	unsigned most = v->pool ? v->pool->attempts : 1;
	bool is_bad = target_hash_is_set(&r->failed) && target_hash_eq(&r->failed, &r->target);
	return !rule_is_loaded(v, &r->target) && (is_bad || r->attempts >= most);
}

bool rule_is_retry_requested(const struct view *v)
{
	return v->m->facts.retry && v->m->facts.retry != v->m->record.retry;
}

bool rule_is_moving(const struct view *v)
{
	const struct record *r = &v->m->record;
	return v->rollout && target_hash_eq(&r->target, &v->rollout->target) && !rule_is_loaded(v, &r->target);
}

bool rule_has_backed_off(const struct view *v, unsigned tries)
{
	int64_t wait = policy_span(v->pool, SPAN_BACKOFF), most = policy_span(v->pool, SPAN_BACKOFF_MOST);
	for (unsigned i = 1; i < tries && wait < most; i++)
		wait *= 2;
	return v->now >= v->m->record.since + (wait < most ? wait : most);
}

// A node in flight is released, not frozen.
enum reason_code rule_stand_down_reason(const struct view *v)
{
	if (v->is_led_elsewhere)
		return REASON_FOREIGN_COORDINATOR;
	if (!v->pool)
		return REASON_POLICY_GONE;
	if (v->m->facts.is_skipped)
		return REASON_SKIPPED;
	if (node_state_is_foreign(v->m))
		return REASON_FOREIGN_CONTROLLER;
	return v->rollout->is_aborted ? REASON_ABORTED : REASON_NONE;
}

const char *rule_stand_down_object(const struct view *v)
{
	bool is_foreign = rule_stand_down_reason(v) == REASON_FOREIGN_CONTROLLER;
	return !is_foreign ? "" : *v->m->facts.driver_set ? v->m->facts.driver_set : UPGRADE_ENABLED;
}

bool rule_is_handed_over(const struct view *v)
{
	return node_state_is_foreign(v->m) && v->m->report.is_foreign;
}

bool rule_is_upgraded(const struct view *v)
{
	enum upgrade word = v->m->facts.upgrade;
	return node_state_is_foreign(v->m) && word != UPGRADE_NONE && word != UPGRADE_REQUIRED && word != UPGRADE_DONE;
}

struct target_hash rule_previous_driver(const struct view *v)
{
	const struct record *r = &v->m->record;
	if (target_hash_is_set(&r->previous))
		return r->previous;
	return target_hash_is_set(&r->stable) && !target_hash_eq(&r->stable, &r->target) ? r->stable : TARGET_HASH_NONE;
}

const char *rule_ack_code(const struct view *v)
{
	return rule_is_answered(v, RESULT_FAILED) ? v->m->report.ack.code : "";
}

struct target_hash transition_goal(const struct view *v)
{
	const struct node_facts *f = &v->m->facts;
	if (f->is_pinned)
		return target_hash_is_set(&f->pin) ? f->pin : v->m->report.loaded;
	if (!v->pool)
		return TARGET_HASH_NONE;
	// A node without a driver gets what is known to work while the target is being tried (D3, T71, T75).
	bool is_back = v->rollout->is_halted && v->pool->on_halt == HALT_ROLLBACK_ALL;
	if (target_hash_is_set(&v->rollout->stable) && (node_state_is_empty(v->m) || is_back))
		return v->rollout->stable;
	return v->rollout->target;
}

bool transition_recovers(const struct view *v)
{
	return rule_is_loaded(v, &v->m->record.target);
}

unsigned rule_failed_drains(const struct view *v, const struct target_hash *target_hash)
{
	const struct record *r = &v->m->record;
	return target_hash_eq(&r->drains.target_hash, target_hash) ? r->drains.failed : 0;
}

// Drained as often as one target is worth: it ends here, and the others go on.
static enum reason_code given_up_reason(const struct view *v, const struct target_hash *goal)
{
	const struct record *r = &v->m->record;
	unsigned failed = rule_failed_drains(v, goal), most = v->pool->drain_attempts;
	if (failed && failed >= most)
		return REASON_DRAIN_GIVEN_UP;
	bool is_again = r->phase == PHASE_DONE && target_hash_eq(&r->target, goal) &&
			target_hash_eq(&r->drains.target_hash, goal) && !node_state_is_empty(v->m) &&
			v->now < r->since + REPEAT_S;
	return is_again && r->drains.repeated + 1U >= most ? REASON_DRIFT_REPEATED : REASON_NONE;
}

// In the order in which people want to hear of it.
enum reason_code transition_rests(const struct view *v)
{
	const struct record *r = &v->m->record;
	struct target_hash goal = transition_goal(v);
	bool is_new = !target_hash_eq(&goal, &r->target);
	if (rule_stand_down_reason(v) != REASON_NONE)
		return rule_stand_down_reason(v);
	if (!v->m->report.has_loaded)
		return REASON_NO_REPORT;
	if (!target_hash_is_set(&goal) || rule_is_loaded(v, &goal))
		return REASON_UP_TO_DATE;
	if (target_hash_eq(&goal, &r->failed))
		return REASON_FAILED_TARGET;
	if (!is_new && r->attempts >= v->pool->attempts)
		return REASON_ATTEMPTS_SPENT;
	if (given_up_reason(v, &goal) != REASON_NONE)
		return given_up_reason(v, &goal);
	if (v->rollout->is_halted && target_hash_eq(&goal, &v->rollout->target))
		return REASON_HALTED;
	if (v->m->facts.is_paused)
		return REASON_NODE_PAUSED;
	if (!v->m->facts.is_ready)
		return REASON_NOT_READY;
	// After a drain that did not end, or another way back: not at once again, and each time later.
	unsigned failed = rule_failed_drains(v, &goal);
	bool is_again = failed || (!is_new && r->reason.code != REASON_NONE);
	if (is_again && r->since && !rule_has_backed_off(v, r->attempts + 2U + (failed ? failed : 1)))
		return r->reason.code != REASON_NONE ? r->reason.code : REASON_BACKING_OFF;
	return REASON_NONE;
}

// Repaired by somebody or by a reboot: what is in the kernel now is healthy by the agent's word. It still has to be
// proven, with a slot, like everything that ends in an uncordon.
bool rule_is_provable(const struct view *v)
{
	enum { RECOVERIES = 3, TIRED_S = 6 * 60 * 60 };
	const struct report *r = &v->m->report;
	const struct record *own = &v->m->record;
	// Not for ever: an agent that was away said so before it went.
	bool is_tired = target_hash_eq(&own->target, &r->loaded) && own->attempts >= RECOVERIES &&
			v->now < own->since + TIRED_S;
	return own->receipt.is_there && !is_tired && r->has_loaded && !r->is_foreign &&
	       target_hash_is_set(&r->loaded) && target_hash_eq(&r->health.target_hash, &r->loaded) &&
	       r->health.result == RESULT_DONE && !target_hash_eq(&r->loaded, &own->failed);
}
