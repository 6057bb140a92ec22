// SPDX-License-Identifier: Apache-2.0
// From the cordon to the last moment at which nothing has been unloaded: everything here can be called off.
#include "cluster/rollout/transition_internal.h"

enum { RECORDONS = 2, BEHIND_MOST = 3600 };

// NVIDIA's controller began behind our cordon, took it for somebody's and will leave it in the end: it is ours to take
// away then, and not before. Not for ever: an hour, or as long as our own drain might have lasted.
static bool is_goal_changed(const struct view *v)
{
	const struct node_state *m = v->m;
	bool is_late = v->now >= m->record.receipt.until && v->now >= m->record.since + BEHIND_MOST;
	return m->facts.has_initial_cordon && m->record.receipt.is_there && !is_late &&
	       (rule_is_upgraded(v) || (node_state_is_foreign(m) && m->facts.upgrade == UPGRADE_REQUIRED));
}
// After a restart the pods may not have been listed yet.
static const char *blocker_of(const struct view *v)
{
	const struct pods_seen *seen = node_state_pods(v->m);
	return seen->pods < 0 ? v->m->record.reason.object : seen->blocker.object;
}

static bool is_called_off(const struct view *v)
{
	return rule_stand_down_reason(v) != REASON_NONE;
}
static void call_off(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, rule_stand_down_reason(v), rule_stand_down_object(v));
}
// No node moves to a target that is considered bad (I8), even where those in progress may finish.
static bool is_drain_halted(const struct view *v)
{
	return v->rollout->is_halted && rule_is_moving(v);
}
static void call_off_halted(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, REASON_HALTED, "");
}
// Another policy, an undo or a pin: no workload is disturbed for what would be replaced again. A node without a driver
// is not judged by what it gets meanwhile.
static bool is_unwanted(const struct view *v)
{
	const struct target_hash *target = &v->m->record.target;
	struct target_hash goal = transition_goal(v);
	bool is_of_pool = !v->m->facts.is_pinned && target_hash_eq(&v->rollout->target, target);
	return target_hash_is_set(&goal) && !is_of_pool && !target_hash_eq(&goal, target) && !transition_recovers(v);
}
static void call_off_unwanted(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, REASON_TARGET_CHANGED, "");
}
static bool is_slot_revoked(const struct view *v)
{
	return v->is_revoked;
}
static void call_off_deadlock(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, REASON_PDB_DEADLOCK, blocker_of(v));
}

static bool is_uncordoned(const struct view *v)
{
	return !v->m->facts.is_unschedulable;
}
static bool is_uncordoned_again(const struct view *v)
{
	return is_uncordoned(v) && v->m->record.receipt.again >= RECORDONS;
}
static void give_in_to_uncordon(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_HELD, REASON_UNCORDONED, "");
	rule_take_back_order(v, d);
	rule_give_back_operands(d);
	d->next.receipt = (struct receipt){ 0 };
}
static void recordon(const struct view *v, struct decision *d)
{
	(void)v;
	d->next.receipt.again++;
	d->cordon = CORDON_ON;
}

static bool is_goal_loaded(const struct view *v)
{
	return v->slot != SLOT_NONE && transition_recovers(v);
}
static void validate_instead(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_VALIDATING, REASON_NONE, "");
	rule_give_order(v, d, VERB_VALIDATE, d->next.target);
	d->next.paused = 0;
}
static void call_off_spent(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, REASON_ATTEMPTS_SPENT, "");
}
static bool is_goal_unstaged(const struct view *v)
{
	return !node_state_is_staged(v->m, &v->m->record.target) &&
	       v->m->report.loaded.payload != v->m->record.target.payload && v->m->report.has_loaded;
}
static void call_off_unstaged(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, REASON_NOT_STAGED, "");
}

static bool is_kernel_empty(const struct view *v)
{
	return v->slot != SLOT_NONE && node_state_is_empty(v->m);
}
static void load_into_empty(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_REPLACING, REASON_NONE, "");
	rule_give_order(v, d, VERB_LOAD, d->next.target);
}

// What would come after the unload could not end inside, and the driver was not touched yet.
static bool is_window_short(const struct view *v)
{
	return !policy_window_is_open(v->pool, v->now, policy_window_rest(v->pool));
}
static void call_off_window(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, REASON_WINDOW_CLOSED, "");
}

static bool is_to_wait_for_jobs(const struct view *v)
{
	return v->slot == SLOT_WAIT;
}
static void wait_for_jobs(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_WAITING, REASON_JOBS, "");
}
static bool is_to_evict(const struct view *v)
{
	return v->slot == SLOT_WORK;
}
static bool is_done_waiting(const struct view *v)
{
	return is_to_evict(v) && (node_state_pods(v->m)->jobs == 0 || v->m->record.receipt.waited);
}
static void begin_evictions(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_EVICTING, REASON_NONE, "");
	rule_pause_operands(v, d);
	d->next.paused &= (uint16_t)~rule_last_operands(v);
}
// Pods with claims end only while the plugin is there that takes the claims back (T11).
static bool is_last_to_pause(const struct view *v)
{
	return v->slot == SLOT_WORK && node_state_pods(v->m)->pods == 0 && rule_last_operands(v);
}
static void pause_last_operands(const struct view *v, struct decision *d)
{
	d->next.paused |= rule_last_operands(v);
}
static bool is_cordon_late(const struct view *v)
{
	return rule_is_expired(v);
}
static void call_off_late(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, REASON_NO_WORK_SLOT, "");
}

static bool is_wait_over(const struct view *v)
{
	return rule_is_expired(v) && !v->m->record.receipt.waited && v->pool->on_wait_timeout == WAIT_EVICT;
}
static void wait_for_slot(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_WAITING, REASON_WAIT_OVER, "");
	d->next.receipt.waited = true;
}

// It was bound before the scheduler heard of the cordon, or while somebody had taken that away. The next drain waits
// for it from the beginning.
static bool is_job_new(const struct view *v)
{
	return v->pool->wait_for && !v->m->record.receipt.waited && node_state_pods(v->m)->jobs > 0;
}
static void call_off_job(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, REASON_JOBS, blocker_of(v));
}

static bool is_wait_given_up(const struct view *v)
{
	const struct pods_seen *seen = node_state_pods(v->m);
	bool has_jobs = seen->pods < 0 ? *v->m->record.reason.object != '\0' : seen->jobs > 0;
	return rule_is_expired(v) && !v->m->record.receipt.waited && has_jobs;
}

static bool is_drain_complete(const struct view *v)
{
	return v->slot == SLOT_WORK && !rule_is_busy(v) && node_state_pods(v->m)->pods == 0;
}
static void order_replace(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_REPLACING, REASON_NONE, "");
	rule_give_order(v, d, VERB_REPLACE, d->next.target);
}
static enum reason_code blocker_reason(const struct view *v)
{
	const struct pods_seen *seen = node_state_pods(v->m);
	if (seen->blocker.code != REASON_NONE)
		return seen->blocker.code;
	if (seen->pods != 0)
		return seen->pods < 0 ? REASON_PODS_UNKNOWN : REASON_PODS_LEFT;
	return REASON_HOLDERS;
}
// A node that a budget blocks gives its slot to others (T82).
static bool is_blocked_long(const struct view *v)
{
	int64_t since = node_state_pods(v->m)->blocked_since;
	return since && v->now >= since + (int64_t)policy_span(v->pool, SPAN_BLOCKED) &&
	       v->pool->on_timeout == TIMEOUT_RELEASE;
}
static void call_off_blocked(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, blocker_reason(v), blocker_of(v));
}
static bool is_drain_held(const struct view *v)
{
	return rule_is_expired(v) && v->pool->on_timeout == TIMEOUT_HOLD;
}
static void hold_cordoned(const struct view *v, struct decision *d)
{
	rule_fail_node(v, d, REASON_DRAIN_TIMEOUT, blocker_of(v));
}
static void call_off_drain(const struct view *v, struct decision *d)
{
	rule_stop_drain(v, d, REASON_DRAIN_TIMEOUT, blocker_of(v));
}
// Who is in the way is worth a write when it is somebody else than the node tells: at once if only people can help,
// later if it may go by itself, so that a drain without trouble writes nothing.
static int64_t blocker_patience(enum reason_code was, enum reason_code is)
{
	enum { SAME_S = 60, SLOW_S = 120 };
	if (was == is || is == REASON_NONE)
		return SAME_S;
	return is == REASON_PODS_LEFT || is == REASON_HOLDERS ? SLOW_S : 0;
}
static bool is_blocker_new(const struct view *v)
{
	const struct pods_seen *seen = node_state_pods(v->m);
	const struct reason *was = &v->m->record.reason, *is = &seen->blocker;
	bool is_first = was->code == REASON_JOBS && !*was->object; // the wait began before the pods were listed
	if (seen->pods < 0 || (was->code == is->code && str_eq(was->object, is->object)) ||
	    (v->m->record.phase == PHASE_WAITING && (was->code != REASON_JOBS || is->code != REASON_JOBS)) ||
	    (v->m->record.phase == PHASE_HELD &&
	     (was->code != REASON_HOLDER_PROTECTED || is->code != REASON_HOLDER_PROTECTED)) ||
	    (is->code == REASON_PDB_BLOCKED && !seen->blocked_since))
		return false;
	return v->now >= seen->blocker_since + (is_first ? 0 : blocker_patience(was->code, is->code));
}
static void report_blocker(const struct view *v, struct decision *d)
{
	const struct pods_seen *seen = node_state_pods(v->m);
	d->next.reason = seen->blocker;
	d->next.reason_since = seen->blocker.code == REASON_NONE ? 0 : seen->blocker_since;
}

const struct rule drain_rules[] = {
	{ DRAINING | IN(VALIDATING) | IN(RESTORING) | IN(FAILED),
	  "NVIDIA's upgrade controller works behind our cordon: waiting until it is done", is_goal_changed, NULL },
	{ DRAINING, "the node is excluded: the drain is cancelled", is_called_off, call_off },
	{ DRAINING, "the rollout is halted: the drain is cancelled", is_drain_halted, call_off_halted },
	{ DRAINING, "the target has changed: the drain is cancelled", is_unwanted, call_off_unwanted },
	{ DRAINING, "its slot was revoked: the drain is cancelled", is_slot_revoked, call_off_deadlock },
	{ DRAINING, "uncordoned by a user for the third time: left uncordoned", is_uncordoned_again,
	  give_in_to_uncordon },
	{ DRAINING, "uncordoned by a user: cordoned again", is_uncordoned, recordon },
	{ DRAINING, "the target is loaded already: validated", is_goal_loaded, validate_instead },
	{ DRAINING, "no attempt is left for the target: the drain is cancelled", rule_is_target_spent, call_off_spent },
	{ DRAINING, "the target is no longer staged: the drain is cancelled", is_goal_unstaged, call_off_unstaged },
	{ DRAINING, "no driver is loaded: nothing to drain, the target is ordered", is_kernel_empty, load_into_empty },
	{ DRAINING, "the maintenance window ends too soon: the drain is cancelled", is_window_short, call_off_window },
	{ IN(CORDONED), "it has a work slot: pods are evicted, operands paused", is_to_evict, begin_evictions },
	{ IN(CORDONED), "the policy waits for jobs", is_to_wait_for_jobs, wait_for_jobs },
	{ IN(CORDONED), "no work slot came free in time: the drain is cancelled", is_cordon_late, call_off_late },
	{ IN(WAITING), "no job is left, and it has a work slot: pods are evicted, operands paused", is_done_waiting,
	  begin_evictions },
	{ IN(WAITING), "the wait is over: a work slot is requested", is_wait_over, wait_for_slot },
	{ IN(WAITING), "jobs did not finish in time, and onTimeout is release: the drain is cancelled",
	  is_wait_given_up, call_off_job },
	{ IN(WAITING), "no work slot came free in time: the drain is cancelled", rule_is_expired, call_off_late },
	{ IN(EVICTING), "a job has started that the policy waits for: the drain is cancelled", is_job_new,
	  call_off_job },
	{ IN(EVICTING), "no pod is left: the operand that their claims needed is paused, too", is_last_to_pause,
	  pause_last_operands },
	{ IN(EVICTING), "no holder and no pod is left: the driver is replaced", is_drain_complete, order_replace },
	{ IN(EVICTING), "a disruption budget blocks for too long: the slot is released", is_blocked_long,
	  call_off_blocked },
	{ IN(EVICTING), "the drain timed out, and onTimeout is hold: stays cordoned", is_drain_held, hold_cordoned },
	{ IN(EVICTING), "the drain timed out: cancelled, the driver was not touched", rule_is_expired, call_off_drain },
	{ IN(WAITING) | IN(EVICTING) | IN(HELD), "an eviction is blocked: recorded on the node", is_blocker_new,
	  report_blocker },
	{ 0 },
};
