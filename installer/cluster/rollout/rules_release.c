// SPDX-License-Identifier: Apache-2.0
// Release only what can be used: a node whose driver was changed stays cordoned, with its operands running again, until
// it has what it had when it was cordoned. The order to validate stays while it waits, so that the proof is looked at
// again when it is uncordoned, and the previous driver is known until then. A drain that touched no driver is released
// at once, and so is a node without a baseline: it had nothing, or an earlier version cordoned it.
#include "cluster/rollout/rules_internal.h"

#include <inttypes.h>
#include <stdio.h>

enum { KUBELET_S = 10 }; // nodeStatusUpdateFrequency

void rule_take_baseline(const struct node_state *m, char ret[BASELINE_TEXT])
{
	const struct pods_seen *seen = node_state_pods(m);
	memset(ret, 0, BASELINE_TEXT);
	memcpy(ret, m->facts.allocatable, strlen(m->facts.allocatable));
	if (seen->devices > 0) {
		auto_str char *devices = str_fmt(BASELINE_DEVICES "=%d", seen->devices);
		baseline_add(ret, devices);
	}
	if (!*ret && seen->has_plugin)
		baseline_add(ret, BASELINE_PLUGIN);
	if (!*ret)
		return;
	if (m->facts.has_mig_config && (m->facts.mig == MIG_SUCCESS || m->facts.mig == MIG_PENDING))
		baseline_add(ret, BASELINE_MIG);
	if (seen->has_validator)
		baseline_add(ret, BASELINE_VALIDATOR);
}

static bool set_short(struct reason *ret, enum reason_code code, const char *object)
{
	*ret = (struct reason){ .code = code };
	snprintf(ret->object, sizeof(ret->object), "%s", object);
	return false;
}

// The first cause first: partitions, what is allocatable, the pods that use it.
bool transition_is_back(const struct node_state *m, struct reason *ret)
{
	static const char *const mig_words[] = { "is absent", "is not success yet", "is success", "is failed" };
	static const char *const pods[] = { BASELINE_PLUGIN, BASELINE_VALIDATOR };
	const char *baseline = m->record.baseline;
	const struct pods_seen *seen = node_state_pods(m);
	char missing[SHORTAGE_TEXT];
	*ret = (struct reason){ .code = REASON_NONE };
	if (!*baseline)
		return true;
	if (!m->facts.is_ready) // what its kubelet said last may be of before
		return set_short(ret, REASON_NOT_READY, "");
	if (baseline_has(baseline, BASELINE_MIG) && m->facts.has_mig_config && m->facts.mig != MIG_SUCCESS)
		return set_short(ret, REASON_WAITS_MIG, mig_words[m->facts.mig]);
	if (!baseline_is_allocatable(baseline, m->facts.allocatable, missing))
		return set_short(ret, REASON_WAITS_ALLOCATABLE, missing);
	uint64_t devices = baseline_count(baseline, BASELINE_DEVICES);
	if (devices && seen->devices == DEVICES_UNKNOWN)
		return set_short(ret, REASON_PODS_UNKNOWN, "");
	if (devices > (uint64_t)seen->devices) {
		auto_str char *text = str_fmt("devices of gpu.nvidia.com %d of %" PRIu64, seen->devices, devices);
		return set_short(ret, REASON_WAITS_ALLOCATABLE, text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		bool is_there = i == 0 ? seen->has_plugin : seen->has_validator;
		if (baseline_has(baseline, pods[i]) && !is_there)
			return set_short(ret, seen->pods < 0 ? REASON_PODS_UNKNOWN : REASON_WAITS_OPERANDS,
					 seen->pods < 0 ? "" : pods[i]);
	}
	return true;
}

bool transition_waits_for_release(const struct node_state *m)
{
	return m->record.phase == PHASE_RELEASING && m->record.receipt.is_there && m->record.go.verb == VERB_VALIDATE;
}

bool transition_looks_at_operands(const struct node_state *m)
{
	const struct record *r = &m->record;
	bool is_failed = r->phase == PHASE_FAILED && rule_is_release_reason(r->reason.code);
	return (is_failed || transition_waits_for_release(m)) &&
	       (baseline_has(r->baseline, BASELINE_PLUGIN) || baseline_has(r->baseline, BASELINE_VALIDATOR) ||
		baseline_has(r->baseline, BASELINE_DEVICES));
}

// A job of the user's own has the last word about the rollout's target, once all else is back. What a node goes back
// to has had it already. The reason on the node says that it has begun, so that nothing that is away for a moment
// begins it again.
static bool wants_job(const struct view *v)
{
	const struct record *r = &v->m->record;
	return v->pool && v->pool->job && rule_stand_down_reason(v) == REASON_NONE &&
	       target_hash_eq(&r->target, &v->rollout->target) && rule_is_ordered(v, VERB_VALIDATE, &r->target);
}
static bool has_begun_job(const struct view *v)
{
	return v->m->record.reason.code == REASON_WAITS_JOB;
}
static bool lacks_job(const struct view *v)
{
	return wants_job(v) && !(has_begun_job(v) && v->job && v->job->state == JOB_PASSED);
}
bool transition_runs_job(const struct view *v)
{
	return transition_waits_for_release(v->m) && v->m->record.receipt.touched && v->m->facts.is_unschedulable &&
	       has_begun_job(v) && wants_job(v);
}
static bool is_job(const struct view *v, enum job_state state)
{
	return transition_runs_job(v) && v->job && v->job->state == state;
}

bool rule_is_back(const struct view *v, struct reason *ret)
{
	bool is_job_next = lacks_job(v) && (has_begun_job(v) || transition_is_back(v->m, ret));
	if (!is_job_next)
		return transition_is_back(v->m, ret);
	return set_short(ret, REASON_WAITS_JOB,
			 v->job           ? v->job->text :
			 has_begun_job(v) ? v->m->record.reason.object :
					    "");
}

bool transition_is_kept(const struct view *v, struct reason *ret)
{
	return transition_waits_for_release(v->m) && !rule_is_back(v, ret) && !is_job(v, JOB_RUNS);
}

bool rule_is_short(const struct view *v)
{
	struct reason ignored;
	return v->m->record.receipt.is_there && v->m->record.receipt.touched && v->m->facts.is_unschedulable &&
	       !node_state_is_foreign(v->m) && !rule_is_back(v, &ignored);
}

bool rule_is_kubelet_behind(const struct view *v)
{
	const struct record *r = &v->m->record;
	return *r->baseline && r->receipt.touched && v->now >= r->since && v->now < r->since + KUBELET_S;
}

void rule_await_release(const struct view *v, struct decision *d, enum node_phase outcome, const struct reason *why)
{
	struct reason missing;
	rule_is_back(v, &missing);
	why = why ? why : &missing;
	rule_enter_phase(v, d, PHASE_RELEASING, why->code, why->object);
	d->next.outcome = outcome;
	d->next.paused = 0;
}

static bool is_awaited(const struct view *v)
{
	return transition_waits_for_release(v->m);
}
// Others may uncordon the node, or take it over: then there is nothing to wait for.
static bool is_back(const struct view *v)
{
	return is_awaited(v) && !rule_is_short(v) &&
	       (!v->m->facts.is_unschedulable || node_state_is_foreign(v->m) ||
		rule_is_proven(v, &v->m->record.go.target_hash));
}
static void release_awaited(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	bool is_replaced = target_hash_eq(&r->go.target_hash, &r->target); // else the reason is why it went back
	d->next.previous = TARGET_HASH_NONE;
	rule_release_node(v, d, r->outcome, is_replaced ? REASON_NONE : r->reason.code, r->reason.object);
}

static bool is_called_back(const struct view *v)
{
	return is_awaited(v) && target_hash_eq(&v->m->record.go.target_hash, &v->m->record.target) &&
	       rule_is_rolled_back(v);
}
static void call_back(const struct view *v, struct decision *d)
{
	rule_restore_driver(v, d, REASON_HALTED, false);
}

static bool is_proof_lost(const struct view *v)
{
	return is_awaited(v) && !rule_is_proven(v, &v->m->record.go.target_hash);
}
// After a reboot there is no driver, and the agent loads none: the node is under way. During a halt no node moves to
// the target.
static void prove_again(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	bool is_halted = v->rollout && v->rollout->is_halted && rule_is_moving(v);
	if (!target_hash_eq(&r->go.target_hash, &r->target)) {
		rule_enter_phase(v, d, PHASE_RESTORING, r->reason.code, r->reason.object);
		rule_take_back_order(v, d);
		rule_pause_operands(v, d);
	} else if (node_state_is_empty(v->m) && is_halted) {
		rule_restore_driver(v, d, REASON_HALTED, false);
	} else if (node_state_is_empty(v->m)) {
		rule_enter_phase(v, d, PHASE_REPLACING, REASON_NONE, "");
		rule_give_order(v, d, VERB_LOAD, r->target);
	} else {
		rule_validate_target(v, d);
	}
}

static bool is_job_due(const struct view *v)
{
	struct reason ignored;
	return is_awaited(v) && !has_begun_job(v) && lacks_job(v) && transition_is_back(v->m, &ignored);
}
static void begin_job(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_RELEASING, REASON_WAITS_JOB, "");
}
static bool is_job_failed(const struct view *v)
{
	return is_job(v, JOB_FAILED);
}
static bool is_job_late(const struct view *v)
{
	return is_job(v, JOB_LATE);
}
static void undo_for_job(const struct view *v, struct decision *d)
{
	struct reason *why = &d->next.reason;
	rule_restore_driver(v, d, d->rule->reason, true);
	if (why->code == d->rule->reason || why->code == REASON_NO_PREVIOUS)
		memcpy(why->object, v->job->text, sizeof(why->object));
}

// A node that is to be left alone is not kept. A job that runs has a deadline of its own.
static bool is_overdue(const struct view *v, enum on_release_timeout what)
{
	bool is_left = !v->pool || v->m->facts.is_skipped;
	enum on_release_timeout policy = is_left ? RELEASE_ANYWAY : v->pool->on_release_timeout;
	bool is_job_open = transition_runs_job(v) && (!v->job || v->job->state == JOB_UNSEEN || is_job(v, JOB_RUNS));
	return is_awaited(v) && rule_is_expired(v) && !is_job_open && policy == what;
}
static bool is_released_anyway(const struct view *v)
{
	return is_overdue(v, RELEASE_ANYWAY);
}
static void release_anyway(const struct view *v, struct decision *d)
{
	rule_is_back(v, &d->waits);
	release_awaited(v, d);
	d->warns = true;
}
static bool is_failed(const struct view *v)
{
	return is_overdue(v, RELEASE_FAIL);
}
static void fail_short(const struct view *v, struct decision *d)
{
	struct reason why;
	rule_is_back(v, &why);
	rule_fail_node(v, d, why.code, why.object);
}
// The target is undone like one that is not healthy; with the previous driver the node fails.
static void fail_awaited(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	struct reason why;
	rule_is_back(v, &why);
	if (target_hash_eq(&r->go.target_hash, &r->target)) {
		rule_restore_driver(v, d, why.code, true);
		if (d->next.reason.code == why.code)
			d->next.reason = why;
	} else {
		fail_short(v, d);
	}
}
// An undo, for instance: a failed node takes it up under its cordon.
static bool is_target_new(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	return is_overdue(v, RELEASE_HOLD) && rule_stand_down_reason(v) == REASON_NONE && target_hash_is_set(&goal) &&
	       !target_hash_eq(&goal, &v->m->record.target) && !rule_is_loaded(v, &goal);
}
static bool is_held(const struct view *v)
{
	return is_overdue(v, RELEASE_HOLD) && !v->m->record.tries;
}
static void hold_awaited(const struct view *v, struct decision *d)
{
	rule_is_back(v, &d->waits);
	d->next.tries = 1; // once
	d->warns = true;
}

// Of a node that goes back the reason is why it does.
static bool is_shortage_new(const struct view *v)
{
	enum { SAME_S = 60 };
	const struct record *r = &v->m->record;
	struct reason why;
	int64_t since = r->reason_since ? r->reason_since : r->since;
	return is_awaited(v) && target_hash_eq(&r->go.target_hash, &r->target) && v->now >= since + SAME_S &&
	       !rule_is_back(v, &why) && (!has_begun_job(v) || why.code == REASON_WAITS_JOB) &&
	       (why.code != r->reason.code || !str_eq(why.object, r->reason.object));
}
static void report_shortage(const struct view *v, struct decision *d)
{
	rule_is_back(v, &d->next.reason);
	d->next.reason_since = v->now;
}

const struct rule release_rules[] = {
	{ IN(RELEASING), "the rollout is halted, and onHalt is rollback", is_called_back, call_back, REASON_NONE },
	{ IN(RELEASING), "what was there before is back, or others decided about the node: uncordoned", is_back,
	  release_awaited, REASON_NONE },
	{ IN(RELEASING), "the driver is not the one that was validated, or not healthy: validated again", is_proof_lost,
	  prove_again, REASON_NONE },
	{ IN(RELEASING), "what was there before is back: the policy's validation runs", is_job_due, begin_job,
	  REASON_NONE },
	{ IN(RELEASING), "the policy's validation failed: the previous driver is restored", is_job_failed, undo_for_job,
	  REASON_JOB_FAILED },
	{ IN(RELEASING), "the policy's validation did not end in time: the previous driver is restored", is_job_late,
	  undo_for_job, REASON_JOB_LATE },
	{ IN(RELEASING), "not back in time, and onReleaseTimeout is release: uncordoned without it", is_released_anyway,
	  release_anyway, REASON_NONE },
	{ IN(RELEASING), "not back in time, and onReleaseTimeout is fail: the previous driver is restored", is_failed,
	  fail_awaited, REASON_NONE },
	{ IN(RELEASING), "not back in time, and there is another target by now: stays cordoned for it", is_target_new,
	  fail_short, REASON_NONE },
	{ IN(RELEASING), "not back in time, and onReleaseTimeout is hold: stays cordoned until it is", is_held,
	  hold_awaited, REASON_NONE },
	{ IN(RELEASING), "something else is not back by now: recorded on the node", is_shortage_new, report_shortage,
	  REASON_NONE },
	{ IN(RELEASING), "waits for what was there before, with its operands running", is_awaited, NULL, REASON_NONE },
	{ 0 },
};
