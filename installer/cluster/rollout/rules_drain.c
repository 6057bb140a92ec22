// SPDX-License-Identifier: Apache-2.0
// From rest to the last moment before a driver is unloaded: staging, queued, held, cordoned, drained. Every step here
// can be cancelled; a node without a driver is loaded from here without a drain.
#include "cluster/rollout/rules_internal.h"

static bool is_managed_by_operator(const struct view *v)
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

static bool is_cordon_gone(const struct view *v)
{
	return v->m->record.reason.code == REASON_FOREIGN_CORDON && !v->m->facts.is_unschedulable;
}
static void forget_cordon(const struct view *v, struct decision *d)
{
	(void)v;
	d->next.reason = (struct reason){ .code = REASON_NONE };
}

static bool is_retry_of_held(const struct view *v)
{
	return rule_is_retry_requested(v) && rule_stand_down_reason(v) == REASON_NONE;
}
// One more attempt (5.2): the nonce is remembered, never deleted. A target with attempts left loses none.
static void allow_one_retry(const struct view *v, struct decision *d)
{
	unsigned most = v->pool->attempts;
	d->next.retry = v->m->facts.retry;
	d->next.attempts = (uint16_t)(d->next.attempts < most ? d->next.attempts : most - 1);
	d->next.failed = TARGET_HASH_NONE;
	memset(&d->next.drains, 0, sizeof(d->next.drains));
	rule_enter_phase(v, d, v->m->record.receipt.is_there ? PHASE_FAILED : PHASE_IDLE, REASON_NONE, "");
	rule_take_back_order(v, d); // of an agent that did not answer; it is ordered again if still needed
}

// Idle would look as if nothing was wrong, and its wave would wait for it without a reason (T03, I12).
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

// A change of parameters alone needs nothing fetched.
static bool has_payload(const struct view *v, const struct target_hash *target_hash)
{
	return node_state_is_staged(v->m, target_hash) ||
	       (target_hash_is_set(&v->m->report.loaded) && v->m->report.loaded.payload == target_hash->payload);
}
static bool may_queue(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	return transition_rests(v) == REASON_NONE && has_payload(v, &goal);
}
// The reason of the last drain stays until another one begins.
static void keep_reason(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	if (!node_phase_info(r->phase)->is_disruptive && r->reason.code != REASON_STAGE_FAILED &&
	    r->reason.code != REASON_FOREIGN_CORDON)
		d->next.reason = r->reason;
}
static void begin_goal(const struct view *v, struct decision *d, enum node_phase phase)
{
	const struct record *r = &v->m->record;
	rule_set_target(v, d, transition_goal(v));
	if (r->phase == PHASE_DONE && target_hash_eq(&r->target, &d->next.target) && !node_state_is_empty(v->m)) {
		if (v->now >= r->since + REPEAT_S)
			d->next.drains.repeated = 0;
		rule_count_drain(d, true); // another driver is loaded although this one had been validated
	}
	rule_enter_phase(v, d, phase, REASON_NONE, "");
	keep_reason(v, d);
}
static void queue_goal(const struct view *v, struct decision *d)
{
	begin_goal(v, d, PHASE_QUEUED);
	rule_take_back_order(v, d);
}
static bool may_stage(const struct view *v)
{
	return transition_rests(v) == REASON_NONE && v->refused == REASON_NONE;
}
static void order_stage(const struct view *v, struct decision *d)
{
	begin_goal(v, d, PHASE_STAGING);
	rule_give_order(v, d, VERB_STAGE, d->next.target);
}
// No node moves to a target that is considered bad (I8), even if those in progress may finish.
static bool is_halted(const struct view *v)
{
	return v->rollout && v->rollout->is_halted && rule_is_moving(v);
}
// The plan changed before a workload was disturbed (T15, T40): back to where it is evaluated again.
static bool is_goal_gone(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	bool is_recovering = v->m->record.receipt.is_there && rule_recovers(v);
	return rule_stand_down_reason(v) != REASON_NONE || (v->m->record.phase == PHASE_STAGING && is_halted(v)) ||
	       (!is_recovering && !target_hash_eq(&goal, &v->m->record.target));
}
static void step_back_for(const struct view *v, struct decision *d, enum reason_code why, const char *object)
{
	rule_enter_phase(v, d, v->m->record.receipt.is_there ? PHASE_FAILED : PHASE_IDLE, why, object);
	rule_take_back_order(v, d);
}
static void step_back(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	enum reason_code why = rule_stand_down_reason(v);
	if (why == REASON_NONE && r->receipt.is_there && r->phase == PHASE_STAGING && is_halted(v))
		why = REASON_HALTED; // a node under our cordon shows a reason
	step_back_for(v, d, why, rule_stand_down_object(v));
}

static bool is_staged(const struct view *v)
{
	return rule_is_ordered(v, VERB_STAGE, &v->m->record.target) && rule_is_answered(v, RESULT_DONE) &&
	       node_state_is_staged(v->m, &v->m->record.target);
}
// The answer counts for a while, so the order stays.
static void queue_node(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_QUEUED, REASON_NONE, "");
	keep_reason(v, d);
}
static bool is_order_refused(const struct view *v)
{
	return rule_has_failed_as(v, FAILING_PERMANENT);
}
static bool is_stage_over(const struct view *v)
{
	enum { STAGE_TRIES = 3 };
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
// Its turn may be days away: a wave, a maintenance window, a pause.
static bool is_kept_waiting(const struct view *v)
{
	int64_t most = policy_span(v->pool, SPAN_BACKOFF_MOST);
	return !rule_recovers(v) && rule_is_provable(v) && v->refused != REASON_NONE &&
	       v->now >= v->m->record.since + most;
}
static bool is_queued_unstaged(const struct view *v)
{
	return !rule_recovers(v) && !has_payload(v, &v->m->record.target);
}
// With a back-off and a limit: something may clean up the disk again and again.
static void stage_again(const struct view *v, struct decision *d)
{
	rule_count_drain(d, false);
	step_back_for(v, d, REASON_NOT_STAGED, "");
}
static bool is_never_loaded(const struct view *v)
{
	return node_state_is_empty(v->m) && !v->m->record.receipt.is_there && !rule_is_target_spent(v) && !is_halted(v);
}
static void load_unattended(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_LOADING, REASON_NONE, "");
	rule_give_order(v, d, VERB_LOAD, d->next.target);
}
// Its turn may have come days after it was staged, or it never was, since the target is in its store: an agent that
// cannot start would be given a node without pods.
static bool is_to_ask(const struct view *v)
{
	return rule_unloads(v) && !rule_is_heard(v) && !rule_is_asked(v);
}
static bool is_grant_unheard(const struct view *v)
{
	bool is_granted = v->refused == REASON_NONE || v->refused == REASON_PODS_UNKNOWN ||
			  v->refused == REASON_AGENT_ASKED; // so that all of a group are asked at the same time
	return v->slot != SLOT_NONE && is_granted && is_to_ask(v);
}
static void ask_agent(const struct view *v, struct decision *d)
{
	rule_give_order(v, d, VERB_STAGE, d->next.target);
}
// Or it was accepted, and not answered as soon as by an agent that has the target: it fetches it, or has died over it.
static bool is_target_lost(const struct view *v)
{
	bool is_slow = rule_is_asked(v) && rule_has_answered(v) && rule_is_late(v);
	return is_slow || (rule_is_ordered(v, VERB_STAGE, &v->m->record.target) && rule_is_answered(v, RESULT_FAILED));
}
static void stage_lost_target(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_STAGING, REASON_STAGE_FAILED, rule_ack_code(v));
}
// The pods are listed before a workload is disturbed (5.7). A failed node, which is cordoned already, goes on.
static bool is_slot_granted(const struct view *v)
{
	return v->slot != SLOT_NONE && v->refused == REASON_NONE &&
	       (v->m->record.receipt.is_there || node_state_pods(v->m)->pods >= 0);
}
static bool is_cordon_due(const struct view *v)
{
	return is_slot_granted(v) && (rule_is_heard(v) || !rule_unloads(v));
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
// This patch tests the previous state that it records (T20, T21, T22). An existing receipt stays: the node has been
// ours since it failed.
static void cordon_granted_node(const struct view *v, struct decision *d)
{
	struct record *r = &d->next;
	unsigned whole = policy_span(v->pool, SPAN_CORDON) + policy_span(v->pool, SPAN_EVICT) +
			 (v->pool->wait_for ? 2 * policy_span(v->pool, SPAN_WAIT) : 0);
	if (!r->receipt.is_there) {
		r->receipt = (struct receipt){ .is_there = true, .prior = v->m->facts.is_unschedulable };
		r->previous = v->m->report.loaded;
		rule_take_baseline(v->m, r->baseline);
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

// Two programs loaded a driver at the same time, which says nothing about our target.
static bool is_load_foreign(const struct view *v)
{
	return rule_is_handed_over(v) ||
	       (node_state_is_foreign(v->m) && (rule_is_answered(v, RESULT_FAILED) || rule_is_expired(v)));
}

static bool is_load_halted(const struct view *v)
{
	return is_halted(v) && rule_is_answered(v, RESULT_FAILED);
}
static bool is_load_again(const struct view *v)
{
	bool is_retried = (rule_has_failed_as(v, FAILING_TRANSIENT) || rule_has_failed_as(v, FAILING_BUSY)) &&
			  rule_has_backed_off(v, v->m->record.tries);
	return (is_retried || rule_is_passed(v)) && !rule_is_target_spent(v);
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
		return rule_is_answered(v, RESULT_DONE) || rule_is_answered(v, RESULT_FAILED) || rule_is_passed(v) ||
		       is_new;
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

// Its DaemonSet is gone and the annotation is left, for instance: whoever wants the node back has to know which.
static bool is_foreign_renamed(const struct view *v)
{
	const struct reason *was = &v->m->record.reason;
	return was->code == REASON_FOREIGN_CONTROLLER && rule_stand_down_reason(v) == REASON_FOREIGN_CONTROLLER &&
	       !str_eq(was->object, rule_stand_down_object(v));
}
static void rename_foreign(const struct view *v, struct decision *d)
{
	d->next.reason = (struct reason){ .code = REASON_FOREIGN_CONTROLLER };
	snprintf(d->next.reason.object, sizeof(d->next.reason.object), "%s", rule_stand_down_object(v));
}

// NVIDIA's controller started its upgrade under our cordon, takes that for a user's and will leave it: we uncordon
// after it, not before. But not later than in an hour, or when our own drain would have timed out.
static bool is_operator_upgrading(const struct view *v)
{
	enum { BEHIND_MOST = 3600 };
	const struct node_state *m = v->m;
	bool is_late = v->now >= m->record.receipt.until && v->now >= m->record.since + BEHIND_MOST;
	return m->facts.has_initial_cordon && m->record.receipt.is_there && !is_late &&
	       (rule_is_upgraded(v) || (node_state_is_foreign(m) && m->facts.upgrade == UPGRADE_REQUIRED));
}
// After a restart the pods may not have been listed yet.
static const char *blocking_pod(const struct view *v)
{
	const struct pods_seen *seen = node_state_pods(v->m);
	return seen->pods < 0 ? v->m->record.reason.object : seen->blocker.object;
}

// Nothing was unloaded in this attempt. If an earlier one did, the loaded driver has to be validated first (I4).
static void stop_drain(const struct view *v, struct decision *d, enum reason_code why, const char *object)
{
	switch (why) { // neither the node nor its pods can help these
	case REASON_HALTED:
	case REASON_ATTEMPTS_SPENT:
	case REASON_POLICY_GONE:
	case REASON_SKIPPED:
	case REASON_WINDOW_CLOSED:
	case REASON_FOREIGN_CONTROLLER:
	case REASON_ABORTED:
	case REASON_TARGET_CHANGED:
		break;
	default:
		rule_count_drain(d, false);
	}
	if (v->m->record.receipt.touched)
		rule_restore_driver(v, d, why, false);
	else
		rule_release_node(v, d, PHASE_IDLE, why, object);
}
static void cancel_drain(const struct view *v, struct decision *d)
{
	stop_drain(v, d, d->rule->reason, "");
}
static void cancel_blocked_drain(const struct view *v, struct decision *d)
{
	stop_drain(v, d, d->rule->reason, blocking_pod(v));
}

static bool is_excluded(const struct view *v)
{
	return rule_stand_down_reason(v) != REASON_NONE;
}
static void cancel_excluded(const struct view *v, struct decision *d)
{
	stop_drain(v, d, rule_stand_down_reason(v), rule_stand_down_object(v));
}
// Another policy, an undo or a pin: no workload is disturbed for a driver that would be replaced again. The stable
// driver that a node without any gets meanwhile does not count.
static bool is_unwanted(const struct view *v)
{
	const struct target_hash *target = &v->m->record.target;
	struct target_hash goal = transition_goal(v);
	bool is_of_pool = !v->m->facts.is_pinned && target_hash_eq(&v->rollout->target, target);
	return target_hash_is_set(&goal) && !is_of_pool && !target_hash_eq(&goal, target) && !rule_recovers(v);
}
static bool is_slot_revoked(const struct view *v)
{
	return v->is_revoked;
}
static bool is_uncordoned(const struct view *v)
{
	return !v->m->facts.is_unschedulable;
}
static bool is_uncordoned_again(const struct view *v)
{
	enum { RECORDONS = 2 };
	return is_uncordoned(v) && v->m->record.receipt.again >= RECORDONS;
}
// The patch tests that it was not cordoned, so this cordon is ours, whatever was before (T22).
static void recordon(const struct view *v, struct decision *d)
{
	(void)v;
	d->next.receipt.again++;
	d->next.receipt.prior = false;
	d->cordon = CORDON_ON;
}

static bool is_goal_loaded(const struct view *v)
{
	return v->slot != SLOT_NONE && rule_recovers(v);
}
static bool is_goal_unstaged(const struct view *v)
{
	return !node_state_is_staged(v->m, &v->m->record.target) &&
	       v->m->report.loaded.payload != v->m->record.target.payload && v->m->report.has_loaded;
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

// What follows the unload would not finish inside the window, and the driver was not touched yet.
static bool is_window_short(const struct view *v)
{
	return !policy_window_is_open(v->pool, v->now, policy_window_rest(v->pool));
}
static bool is_to_wait_for_jobs(const struct view *v)
{
	return v->slot == SLOT_WAIT;
}
static void wait_for_jobs(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_WAITING, REASON_JOBS, "");
}
static bool is_eviction_due(const struct view *v)
{
	bool has_waited =
		v->m->record.phase == PHASE_CORDONED || node_state_pods(v->m)->jobs == 0 || v->m->record.receipt.waited;
	return v->slot == SLOT_WORK && has_waited;
}
static bool is_eviction_unheard(const struct view *v)
{
	return is_eviction_due(v) && is_to_ask(v);
}
static bool is_unheard_for_long(const struct view *v)
{
	return rule_is_silent(v) || (is_eviction_due(v) && rule_is_asked(v) && rule_is_expired(v));
}
static bool is_to_evict(const struct view *v)
{
	return is_eviction_due(v) && rule_is_heard(v);
}
// Pods with claims end only while the plugin runs that releases the claims (T11).
static uint16_t last_operands(const struct view *v)
{
	unsigned bits = 0;
	for (unsigned i = 0; operands[i].key; i++)
		bits |= operands[i].is_last ? v->m->facts.operands & 1U << i : 0;
	return (uint16_t)bits;
}
static void begin_evictions(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_EVICTING, REASON_NONE, "");
	rule_take_back_order(v, d);
	rule_pause_operands(v, d);
	d->next.paused &= (uint16_t)~last_operands(v);
}
static bool is_last_to_pause(const struct view *v)
{
	return v->slot == SLOT_WORK && node_state_pods(v->m)->pods == 0 && last_operands(v);
}
static void pause_last_operands(const struct view *v, struct decision *d)
{
	d->next.paused |= last_operands(v);
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

// It was bound before the scheduler saw the cordon, or while the node was uncordoned by a user. The next drain waits
// for it from the beginning.
static bool is_job_new(const struct view *v)
{
	return v->pool->wait_for && !v->m->record.receipt.waited && node_state_pods(v->m)->jobs > 0;
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
// A node that is blocked by a budget gives its slot to others (T82).
static bool is_blocked_long(const struct view *v)
{
	int64_t since = node_state_pods(v->m)->blocked_since;
	return since && v->now >= since + (int64_t)policy_span(v->pool, SPAN_BLOCKED) &&
	       v->pool->on_timeout == TIMEOUT_RELEASE;
}
static void release_blocked(const struct view *v, struct decision *d)
{
	const struct pods_seen *seen = node_state_pods(v->m);
	enum reason_code why = seen->blocker.code != REASON_NONE ? seen->blocker.code :
			       seen->pods < 0                    ? REASON_PODS_UNKNOWN :
			       seen->pods > 0                    ? REASON_PODS_LEFT :
								   REASON_HOLDERS;
	stop_drain(v, d, why, blocking_pod(v));
}
static bool is_drain_held(const struct view *v)
{
	return rule_is_expired(v) && v->pool->on_timeout == TIMEOUT_HOLD;
}
static void hold_cordoned(const struct view *v, struct decision *d)
{
	rule_fail_node(v, d, REASON_DRAIN_TIMEOUT, blocking_pod(v));
}
// Another blocker than the recorded one is worth a write: at once if only people can help, later if it may go away by
// itself, so that a drain without trouble writes nothing.
static bool is_blocker_new(const struct view *v)
{
	const struct pods_seen *seen = node_state_pods(v->m);
	const struct reason *was = &v->m->record.reason, *is = &seen->blocker;
	enum { SAME_S = 60, SLOW_S = 120 };
	bool is_first = was->code == REASON_JOBS && !*was->object; // the wait began before the pods were listed
	bool is_passing = is->code == REASON_PODS_LEFT || is->code == REASON_HOLDERS;
	int64_t patience = is_first                                         ? 0 :
			   was->code == is->code || is->code == REASON_NONE ? SAME_S :
			   is_passing                                       ? SLOW_S :
									      0;
	if (seen->pods < 0 || (was->code == is->code && str_eq(was->object, is->object)) ||
	    (v->m->record.phase == PHASE_WAITING && (was->code != REASON_JOBS || is->code != REASON_JOBS)) ||
	    (v->m->record.phase == PHASE_HELD &&
	     (was->code != REASON_HOLDER_PROTECTED || is->code != REASON_HOLDER_PROTECTED)) ||
	    (is->code == REASON_PDB_BLOCKED && !seen->blocked_since))
		return false;
	return v->now >= seen->blocker_since + patience;
}
static void report_blocker(const struct view *v, struct decision *d)
{
	const struct pods_seen *seen = node_state_pods(v->m);
	d->next.reason = seen->blocker;
	d->next.reason_since = seen->blocker.code == REASON_NONE ? 0 : seen->blocker_since;
}

const struct rule drain_rules[] = {
	{ RESTING | IN(HELD), "a retry is requested: one more attempt", is_retry_of_held, allow_one_retry,
	  REASON_NONE },
	{ RESTING, "NVIDIA's operator manages the driver of the node: held", is_managed_by_operator, hold_foreign,
	  REASON_NONE },
	{ RESTING, "the target is loaded: adopted, nothing to do", is_new_arrival, adopt_loaded, REASON_NONE },
	{ IN(DONE), "it is not cordoned any more", is_cordon_gone, forget_cordon, REASON_NONE },
	{ IN(IDLE), "no attempt is left for the target: held", is_goal_given_up, hold_given_up, REASON_NONE },
	{ RESTING, "the target does not stay loaded, and no drain attempt is left: held", is_drained_enough,
	  hold_given_up, REASON_NONE },
	{ RESTING, "the target is staged already: queued", may_queue, queue_goal, REASON_NONE },
	{ RESTING, "the target is not staged: staged first, without a disruption", may_stage, order_stage,
	  REASON_NONE },
	{ IN(STAGING) | IN(QUEUED), "the plan changed: evaluated again", is_goal_gone, step_back, REASON_NONE },
	{ IN(STAGING), "the target is staged: queued", is_staged, queue_node, REASON_NONE },
	{ IN(STAGING), "the target is not available: held, no workload was disturbed", is_order_refused, hold_stage,
	  REASON_NONE },
	{ IN(STAGING), "staging failed too often: held, no workload was disturbed", is_stage_over, hold_stage,
	  REASON_NONE },
	{ IN(STAGING), "staging failed or timed out: staged again", is_stage_again, order_stage_again, REASON_NONE },
	{ IN(STAGING) | IN(LOADING), "the agent does not answer: held", rule_is_silent, hold_silent, REASON_NONE },
	{ IN(QUEUED), "the target is loaded: adopted", is_adopted, adopt_loaded, REASON_NONE },
	{ IN(QUEUED),
	  "still cordoned after a failure, healthy again, and not its turn: queued to validate the loaded driver",
	  is_kept_waiting, rule_queue_recovery, REASON_NONE },
	{ IN(QUEUED), "the target is no longer staged for this kernel: staged again", is_queued_unstaged, stage_again,
	  REASON_NONE },
	{ IN(QUEUED), "no driver is loaded: the target is loaded without a cordon", is_never_loaded, load_unattended,
	  REASON_NONE },
	{ IN(QUEUED), "a pod that must not be evicted uses the GPU: held, no workload was disturbed", is_node_protected,
	  hold_protected, REASON_NONE },
	{ IN(QUEUED), "the agent does not have the target any more: staged again", is_target_lost, stage_lost_target,
	  REASON_NONE },
	{ IN(QUEUED), "the agent does not answer: held, no workload was disturbed", rule_is_silent, hold_silent,
	  REASON_NONE },
	{ IN(QUEUED), "a slot is granted: the agent is asked whether it has the target", is_grant_unheard, ask_agent,
	  REASON_NONE },
	{ IN(QUEUED), "a slot is granted: cordoned", is_cordon_due, cordon_granted_node, REASON_NONE },
	{ IN(LOADING), "the target is loaded", is_load_done, finish_load, REASON_NONE },
	{ IN(LOADING), "the target is not loaded, and NVIDIA's operator manages the driver now: held", is_load_foreign,
	  hold_foreign, REASON_NONE },
	{ IN(LOADING), "the load failed, and the rollout is halted: evaluated again", is_load_halted, drop_load_order,
	  REASON_NONE },
	{ IN(LOADING), "the load failed temporarily: ordered again", is_load_again, order_load_again, REASON_NONE },
	{ IN(LOADING), "the load failed: held", is_load_bad, hold_load, REASON_NONE },
	{ IN(HELD), "the cause is gone: evaluated again", is_cause_gone, drop_load_order, REASON_NONE },
	{ IN(HELD), "NVIDIA's operator holds the node by something else by now: recorded on the node",
	  is_foreign_renamed, rename_foreign, REASON_NONE },
	{ DRAINING | IN(VALIDATING) | IN(RESTORING) | IN(RELEASING) | IN(FAILED),
	  "NVIDIA's upgrade controller works behind our cordon: waiting until it is done", is_operator_upgrading, NULL,
	  REASON_NONE },
	{ DRAINING, "the node is excluded: the drain is cancelled", is_excluded, cancel_excluded, REASON_NONE },
	{ DRAINING, "the rollout is halted: the drain is cancelled", is_halted, cancel_drain, REASON_HALTED },
	{ DRAINING, "the target has changed: the drain is cancelled", is_unwanted, cancel_drain,
	  REASON_TARGET_CHANGED },
	{ DRAINING, "its slot was revoked: the drain is cancelled", is_slot_revoked, cancel_blocked_drain,
	  REASON_PDB_DEADLOCK },
	{ DRAINING, "uncordoned by a user for the third time: left uncordoned", is_uncordoned_again, rule_hand_over,
	  REASON_UNCORDONED },
	{ DRAINING, "uncordoned by a user: cordoned again", is_uncordoned, recordon, REASON_NONE },
	{ DRAINING, "the target is loaded already: validated", is_goal_loaded, rule_validate_target, REASON_NONE },
	{ DRAINING, "no attempt is left for the target: the drain is cancelled", rule_is_target_spent, cancel_drain,
	  REASON_ATTEMPTS_SPENT },
	{ DRAINING, "the target is no longer staged: the drain is cancelled", is_goal_unstaged, cancel_drain,
	  REASON_NOT_STAGED },
	{ DRAINING, "no driver is loaded: nothing to drain, the target is ordered", is_kernel_empty, load_into_empty,
	  REASON_NONE },
	{ DRAINING, "the maintenance window ends too soon: the drain is cancelled", is_window_short, cancel_drain,
	  REASON_WINDOW_CLOSED },
	{ IN(CORDONED) | IN(WAITING), "the agent does not answer: the drain is cancelled, no pod was evicted",
	  is_unheard_for_long, cancel_drain, REASON_AGENT_SILENT },
	{ IN(CORDONED) | IN(WAITING),
	  "the agent does not have the target any more: the drain is cancelled, no pod was evicted", is_target_lost,
	  cancel_drain, REASON_NOT_STAGED },
	{ IN(CORDONED) | IN(WAITING), "it has a work slot: the agent is asked whether it has the target",
	  is_eviction_unheard, ask_agent, REASON_NONE },
	{ IN(CORDONED), "it has a work slot: pods are evicted, operands paused", is_to_evict, begin_evictions,
	  REASON_NONE },
	{ IN(CORDONED), "the policy waits for jobs", is_to_wait_for_jobs, wait_for_jobs, REASON_NONE },
	{ IN(CORDONED), "no work slot came free in time: the drain is cancelled", rule_is_expired, cancel_drain,
	  REASON_NO_WORK_SLOT },
	{ IN(WAITING), "no job is left, and it has a work slot: pods are evicted, operands paused", is_to_evict,
	  begin_evictions, REASON_NONE },
	{ IN(WAITING), "the wait is over: a work slot is requested", is_wait_over, wait_for_slot, REASON_NONE },
	{ IN(WAITING), "jobs did not finish in time, and onTimeout is release: the drain is cancelled",
	  is_wait_given_up, cancel_blocked_drain, REASON_JOBS },
	{ IN(WAITING), "no work slot came free in time: the drain is cancelled", rule_is_expired, cancel_drain,
	  REASON_NO_WORK_SLOT },
	{ IN(EVICTING), "a job has started that the policy waits for: the drain is cancelled", is_job_new,
	  cancel_blocked_drain, REASON_JOBS },
	{ IN(EVICTING), "no pod is left: the operand that their claims needed is paused, too", is_last_to_pause,
	  pause_last_operands, REASON_NONE },
	{ IN(EVICTING), "no holder and no pod is left: the driver is replaced", is_drain_complete, order_replace,
	  REASON_NONE },
	{ IN(EVICTING), "a disruption budget blocks for too long: the slot is released", is_blocked_long,
	  release_blocked, REASON_NONE },
	{ IN(EVICTING), "the drain timed out, and onTimeout is hold: stays cordoned", is_drain_held, hold_cordoned,
	  REASON_NONE },
	{ IN(EVICTING), "the drain timed out: cancelled, the driver was not touched", rule_is_expired,
	  cancel_blocked_drain, REASON_DRAIN_TIMEOUT },
	{ IN(WAITING) | IN(EVICTING) | IN(HELD), "an eviction is blocked: recorded on the node", is_blocker_new,
	  report_blocker, REASON_NONE },
	{ 0 },
};
