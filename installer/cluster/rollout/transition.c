// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/rules_internal.h"

#include <stdio.h>

bool rule_is_loaded(const struct view *v, const struct target_hash *target_hash)
{
	const struct report *r = &v->m->report;
	return r->has_loaded && !r->is_foreign && target_hash_is_set(target_hash) &&
	       target_hash_eq(&r->loaded, target_hash);
}

bool rule_has_answered(const struct view *v)
{
	return node_seq_cmp(v->m->report.ack.seq, v->m->record.go.seq) == 0 &&
	       v->m->report.ack.verb == v->m->record.go.verb;
}

// So many times as long as an answer may take, since the last order. A repeated one counts from its own time.
static bool is_past_answers(const struct view *v, int times)
{
	const struct record *r = &v->m->record;
	int64_t begin = r->ordered > r->since ? r->ordered : r->since;
	return v->now >= begin + times * (int64_t)policy_span(v->pool, SPAN_ACK);
}

bool rule_is_late(const struct view *v)
{
	enum { ANSWERS_AWAITED = 3 };
	return v->m->record.go.verb != VERB_NONE && rule_has_listened(v) && is_past_answers(v, ANSWERS_AWAITED);
}

bool rule_is_silent(const struct view *v)
{
	return rule_is_late(v) && !rule_has_answered(v);
}

bool rule_is_answered(const struct view *v, enum result result)
{
	return v->m->record.go.verb != VERB_NONE && rule_has_answered(v) && v->m->report.ack.result == result;
}

bool rule_is_asked(const struct view *v)
{
	return rule_is_ordered(v, VERB_STAGE, &v->m->record.target) && !rule_is_answered(v, RESULT_DONE) &&
	       !rule_is_answered(v, RESULT_FAILED);
}

bool rule_is_heard(const struct view *v)
{
	enum { ANSWERS_LASTED = 5 };
	return rule_is_ordered(v, VERB_STAGE, &v->m->record.target) && rule_is_answered(v, RESULT_DONE) &&
	       !is_past_answers(v, ANSWERS_LASTED);
}

bool rule_unloads(const struct view *v)
{
	return !rule_recovers(v) && !node_state_is_empty(v->m);
}

bool rule_is_target_spent(const struct view *v)
{
	const struct record *r = &v->m->record;
	unsigned most = v->pool ? v->pool->attempts : 1;
	bool is_bad = target_hash_is_set(&r->failed) && target_hash_eq(&r->failed, &r->target);
	return !rule_is_loaded(v, &r->target) && (is_bad || r->attempts >= most);
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

// A node in progress is released, not frozen.
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

struct target_hash rule_previous_driver(const struct view *v)
{
	const struct record *r = &v->m->record;
	if (target_hash_is_set(&r->previous))
		return r->previous;
	return target_hash_is_set(&r->stable) && !target_hash_eq(&r->stable, &r->target) ? r->stable : TARGET_HASH_NONE;
}

struct target_hash transition_goal(const struct view *v)
{
	const struct node_facts *f = &v->m->facts;
	if (f->is_pinned)
		return target_hash_is_set(&f->pin) ? f->pin : v->m->report.loaded;
	if (!v->pool)
		return TARGET_HASH_NONE;
	// A node without a driver gets what is known to work while the target is being tried (D3, T71, T75).
	bool is_back = rollout_blames_target(v->rollout) && v->pool->on_halt == HALT_ROLLBACK_ALL;
	if (target_hash_is_set(&v->rollout->stable) && (node_state_is_empty(v->m) || is_back))
		return v->rollout->stable;
	return v->rollout->target;
}

// Not of the way back: the driver that is left may be what broke it.
bool rule_is_ill_before(const struct view *v)
{
	struct target_hash goal = transition_goal(v);
	return v->pool->unhealthy_before != UNHEALTHY_REPLACE && target_hash_eq(&goal, &v->rollout->target) &&
	       !target_hash_eq(&goal, &v->m->record.stable) && gpu_report_broken(&v->m->report.gpus);
}

// The drain attempts for this target are used up: this node stops, and the others go on.
static enum reason_code given_up_reason(const struct view *v, const struct target_hash *goal)
{
	const struct record *r = &v->m->record;
	unsigned failed = rule_failed_drains(r, goal), most = v->pool->drain_attempts;
	if (failed && failed >= most)
		return REASON_DRAIN_GIVEN_UP;
	bool is_again = r->phase == PHASE_DONE && target_hash_eq(&r->target, goal) &&
			target_hash_eq(&r->drains.target_hash, goal) && !node_state_is_empty(v->m) &&
			v->now < r->since + REPEAT_S;
	return is_again && r->drains.repeated + 1U >= most ? REASON_DRIFT_REPEATED : REASON_NONE;
}

// The most important reason first.
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
	if (rule_is_ill_before(v))
		return REASON_GPU_BROKEN;
	// After a drain that did not complete, or a rollback: back off, each time longer.
	unsigned failed = rule_failed_drains(r, &goal);
	bool is_again = failed || (!is_new && r->reason.code != REASON_NONE);
	if (is_again && r->since && !rule_has_backed_off(v, r->attempts + 2U + (failed ? failed : 1)))
		return r->reason.code != REASON_NONE ? r->reason.code : REASON_BACKING_OFF;
	return REASON_NONE;
}

// Repaired by hand or by a reboot: the agent reports the loaded driver as healthy; or it has the target, and was silent
// since it was ordered to load or validate it. It still has to be validated, with a slot, like everything that ends in
// an uncordon.
bool rule_is_provable(const struct view *v)
{
	enum { RECOVERIES = 3, TIRED_S = 6 * 60 * 60 };
	const struct report *r = &v->m->report;
	const struct record *own = &v->m->record;
	bool is_target = target_hash_eq(&own->target, &r->loaded);
	bool is_judged = target_hash_eq(&r->health.target_hash, &r->loaded) && r->health.result != RESULT_NONE;
	bool is_tired = is_target && own->attempts >= RECOVERIES && v->now < own->since + TIRED_S;
	// The report of an agent that is gone stays on the node.
	return own->receipt.is_there && !rule_is_mute(v) && !is_tired && r->has_loaded && !r->is_foreign &&
	       target_hash_is_set(&r->loaded) && !target_hash_eq(&r->loaded, &own->failed) &&
	       (is_judged ? r->health.result == RESULT_DONE : is_target && own->reason.code == REASON_AGENT_SILENT);
}

// Every state with a span gets its deadline here; that of a drain is never later than its receipt says.
void rule_enter_phase(const struct view *v, struct decision *d, enum node_phase phase, enum reason_code why,
		      const char *object)
{
	struct record *r = &d->next;
	enum span span = node_phase_info(phase)->span;
	r->phase = phase;
	r->has_phase = true;
	r->since = v->now;
	r->deadline = span == SPAN_NONE ? 0 : v->now + policy_span(v->pool, span);
	if (phase == PHASE_EVICTING && r->receipt.is_there && r->receipt.until < r->deadline)
		r->deadline = r->receipt.until;
	r->tries = 0;
	r->ordered = 0;
	r->outcome = phase == PHASE_RELEASING ? r->outcome : PHASE_IDLE;
	// Done, and out of service: whoever wants the node back has to know that no uncordon of ours will come.
	if (phase == PHASE_DONE && why == REASON_NONE && v->m->facts.is_unschedulable && !r->receipt.is_there)
		why = REASON_FOREIGN_CORDON;
	r->reason = (struct reason){ .code = why };
	r->reason_since = 0;
	// One line of plain characters: it may come from an agent or a pod's name.
	char *to = r->reason.object, *const end = to + OBJECT_TEXT - 1;
	for (const char *c = object; why != REASON_NONE && *c && to < end; c++)
		*to++ = *c >= ' ' && *c <= '~' ? *c : '?';
}

static struct seq next_seq(const struct view *v)
{
	const struct record *r = &v->m->record;
	struct seq last = r->seq, ours = { v->epoch, 0 };
	const struct seq others[] = { r->go.seq, v->m->report.ack.seq, ours };
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		last = node_seq_cmp(others[i], last) > 0 ? others[i] : last;
	// An agent may claim any number: its last one leads on to the next epoch, not back.
	return last.n == UINT32_MAX ? (struct seq){ last.epoch + 1, 1 } : (struct seq){ last.epoch, last.n + 1 };
}

void rule_give_order(const struct view *v, struct decision *d, enum verb verb, struct target_hash target_hash)
{
	d->next.go = (struct order){ next_seq(v), verb, target_hash };
	d->next.tries++;
	d->next.ordered = d->next.since == v->now ? 0 : v->now;
	// After a restore of etcd the deadline of the order that was passed may have been over for hours.
	if (rule_is_passed(v) && d->next.deadline)
		d->next.deadline = v->now + policy_span(v->pool, node_phase_info(d->next.phase)->span);
	if (verb == VERB_REPLACE || verb == VERB_LOAD)
		d->next.attempts++;
	if (verb == VERB_REPLACE || verb == VERB_LOAD || verb == VERB_RESTORE)
		d->next.receipt.touched = d->next.receipt.is_there;
}

void rule_take_back_order(const struct view *v, struct decision *d)
{
	d->next.ordered = 0;
	if (v->m->record.go.verb != VERB_NONE)
		d->next.go = (struct order){ next_seq(v), VERB_NONE, TARGET_HASH_NONE };
}

void rule_set_target(const struct view *v, struct decision *d, struct target_hash target_hash)
{
	if (!target_hash_eq(&d->next.target, &target_hash)) {
		d->next.attempts = 0;
		memset(d->next.wave, 0, sizeof(d->next.wave));
	}
	d->next.target = target_hash;
	d->next.stable = v->rollout ? v->rollout->stable : d->next.stable;
}

// The end of our cordon, in one patch: labels, unschedulable, receipt (T25). Without a receipt nothing is uncordoned.
// During an upgrade by NVIDIA's controller the cordon stays, since it belongs to that controller by now: it cordons
// first and uncordons last.
void rule_release_node(const struct view *v, struct decision *d, enum node_phase outcome, enum reason_code why,
		       const char *object)
{
	struct receipt *receipt = &d->next.receipt;
	bool is_ours = receipt->is_there && !receipt->prior && !v->m->facts.keeps_cordon && !rule_is_upgraded(v);
	bool is_lost = !receipt->is_there && v->m->facts.is_unschedulable; // reported even if the cordon is not ours
	rule_enter_phase(v, d, is_lost ? PHASE_HELD : PHASE_RELEASING, is_lost ? REASON_RECEIPT_MISSING : why,
			 is_lost ? "" : object);
	rule_take_back_order(v, d);
	rule_give_back_operands(d);
	if (is_lost)
		return;
	d->next.outcome = outcome;
	d->cordon = is_ours && v->m->facts.is_unschedulable ? CORDON_OFF : CORDON_KEEP;
	*receipt = (struct receipt){ 0 };
	memset(d->next.baseline, 0, sizeof(d->next.baseline));
}

void rule_count_drain(struct decision *d, bool is_repeat)
{
	struct record *r = &d->next;
	if (!target_hash_eq(&r->drains.target_hash, &r->target)) {
		memset(&r->drains, 0, sizeof(r->drains));
		r->drains.target_hash = r->target;
	}
	uint16_t *count = is_repeat ? &r->drains.repeated : &r->drains.failed;
	*count = (uint16_t)(*count + (*count < UINT16_MAX));
}

void rule_validate_target(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_VALIDATING, REASON_NONE, "");
	rule_give_order(v, d, VERB_VALIDATE, d->next.target);
	d->next.paused = 0;
}

void rule_fail_node(const struct view *v, struct decision *d, enum reason_code why, const char *object)
{
	rule_enter_phase(v, d, PHASE_FAILED, why, object);
	rule_take_back_order(v, d);
}

void rule_hand_over(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_HELD, d->rule->reason, "");
	rule_take_back_order(v, d);
	rule_give_back_operands(d);
	d->next.receipt = (struct receipt){ 0 };
	memset(d->next.baseline, 0, sizeof(d->next.baseline));
}

void rule_restore_driver(const struct view *v, struct decision *d, enum reason_code why, bool is_blamed)
{
	struct target_hash back = rule_previous_driver(v);
	auto_str char *code = str_dup(rule_ack_code(v));
	if (rule_is_handed_over(v)) { // the rollback is the operator's, and says nothing about the target
		rule_enter_phase(v, d, PHASE_RESTORING, REASON_FOREIGN_CONTROLLER, rule_stand_down_object(v));
		rule_take_back_order(v, d);
		return;
	}
	if (is_blamed && !target_hash_eq(&back, &v->m->record.target))
		d->next.failed = v->m->record.target;
	if (!target_hash_is_set(&back) || target_hash_eq(&back, &v->m->record.target)) {
		rule_fail_node(v, d, target_hash_is_set(&back) ? why : REASON_NO_PREVIOUS, code);
		return;
	}
	rule_enter_phase(v, d, PHASE_RESTORING, why, code);
	rule_take_back_order(v, d);
	rule_pause_operands(v, d);
}

void rule_queue_recovery(const struct view *v, struct decision *d)
{
	rule_set_target(v, d, v->m->report.loaded);
	d->next.attempts++;
	rule_enter_phase(v, d, PHASE_QUEUED, REASON_NONE, "");
}

const struct rule *transition_next_rule(const struct rule *previous, enum node_phase phase)
{
	static const struct rule *const tables[] = { repair_rules, drain_rules, release_rules, replace_rules };
	bool is_behind = !previous;
	for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
		for (const struct rule *r = tables[t]; r->text; r++) {
			if (is_behind && r->phases & 1U << phase)
				return r;
			is_behind = is_behind || r == previous;
		}
	return NULL;
}

static void set_wait_reason(struct decision *d, enum reason_code why, const char *object)
{
	d->waits = (struct reason){ .code = why };
	snprintf(d->waits.object, sizeof(d->waits.object), "%s", object);
}

static void set_gpu_reason(const struct view *v, struct decision *d, enum reason_code why,
			   const struct gpu_fault *fault)
{
	char object[GPU_FAULT_TEXT];
	gpu_report_object(&v->m->report.gpus, fault, object);
	set_wait_reason(d, why, object);
}

static enum reason_code drain_wait_reason(const struct view *v)
{
	const struct pods_seen *seen = node_state_pods(v->m);
	if (seen->blocker.code != REASON_NONE)
		return seen->blocker.code;
	if (seen->pods > 0)
		return REASON_PODS_LEFT;
	if (rule_is_busy(v))
		return REASON_HOLDERS;
	return seen->pods < 0 ? REASON_PODS_UNKNOWN : REASON_NO_SLOT;
}

// No rule applies: why the node waits.
static void explain_wait(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	enum reason_code why;
	if (v->is_led_elsewhere) {
		set_wait_reason(d, REASON_FOREIGN_COORDINATOR, r->leader);
		return;
	}
	if (((DRAINING | IN(RELEASING)) & 1U << r->phase) && rule_stand_down_reason(v) == REASON_FOREIGN_CONTROLLER) {
		set_wait_reason(d, REASON_FOREIGN_CONTROLLER, rule_stand_down_object(v));
		return;
	}
	switch (r->phase) {
	case PHASE_IDLE:
	case PHASE_DONE:
	case PHASE_ROLLEDBACK:
		why = transition_rests(v) != REASON_NONE ? transition_rests(v) : v->refused;
		if (why == REASON_UP_TO_DATE && v->m->facts.is_unschedulable && !r->receipt.is_there)
			why = REASON_FOREIGN_CORDON;
		if (why == REASON_GPU_BROKEN)
			set_gpu_reason(v, d, why, gpu_report_broken(&v->m->report.gpus));
		else if (why == REASON_UP_TO_DATE && gpu_report_worst(&v->m->report.gpus, GPU_BLAMES_HARDWARE))
			set_gpu_reason(v, d, REASON_GPU_ERROR,
				       gpu_report_worst(&v->m->report.gpus, GPU_BLAMES_HARDWARE));
		else
			set_wait_reason(d, why, why == r->reason.code ? r->reason.object : "");
		return;
	case PHASE_STAGING:
		set_wait_reason(d, REASON_STAGING_UNDER_WAY, rule_ack_code(v));
		return;
	case PHASE_QUEUED:
		why = v->slot == SLOT_NONE ? REASON_NO_SLOT :
		      rule_is_asked(v)     ? REASON_AGENT_ASKED :
					     REASON_PODS_UNKNOWN;
		set_wait_reason(d, v->refused != REASON_NONE ? v->refused : why, "");
		if (v->refused == REASON_GPU_BROKEN)
			set_gpu_reason(v, d, v->refused, gpu_report_broken(&v->m->report.gpus));
		return;
	case PHASE_EVICTING:
		// Without a list of pods, use what was recorded when a budget began to block.
		if (!v->m->facts.is_ready) // its pods do not end, and its agent says nothing
			set_wait_reason(d, REASON_NOT_READY, "");
		else if (node_state_pods(v->m)->pods < 0 && r->reason.code != REASON_NONE)
			set_wait_reason(d, r->reason.code, r->reason.object);
		else
			set_wait_reason(d, drain_wait_reason(v), node_state_pods(v->m)->blocker.object);
		return;
	case PHASE_RELEASING:
		rule_is_back(v, &d->waits);
		return;
	case PHASE_UNKNOWN:
		set_wait_reason(d, REASON_UNKNOWN_STATE, "");
		return;
	default:
		if ((IN(CORDONED) | IN(WAITING)) & 1U << r->phase && rule_is_asked(v))
			set_wait_reason(d, REASON_AGENT_ASKED, "");
		else
			set_wait_reason(d, r->reason.code != REASON_NONE ? r->reason.code : REASON_WORKING,
					r->reason.object);
	}
}

// Pods are evicted only on nodes that are ours by receipt and slot (I6), and only if a driver has to be unloaded.
static bool may_evict(const struct view *v)
{
	const struct record *r = &v->m->record;
	struct target_hash back = rule_previous_driver(v);
	bool is_drain = r->phase == PHASE_EVICTING || (r->phase == PHASE_RESTORING && !rule_is_loaded(v, &back));
	return is_drain && v->slot == SLOT_WORK && r->receipt.is_there && v->m->facts.is_unschedulable &&
	       (node_state_pods(v->m)->pods != 0 || rule_is_busy(v));
}

void transition(const struct view *v, struct decision *ret)
{
	*ret = (struct decision){ .next = v->m->record };
	const struct rule *rule = NULL;
	while ((rule = transition_next_rule(rule, v->m->record.phase)) && !rule->when(v))
		;
	if (!rule || !rule->take) {
		explain_wait(v, ret);
		ret->evicts = !rule && may_evict(v);
		return;
	}
	ret->rule = rule;
	rule->take(v, ret);
	struct seq order = ret->next.go.seq, last = v->m->record.seq;
	bool is_given = node_seq_cmp(order, v->m->record.go.seq) > 0;
	struct seq next = { v->epoch, last.n + 1 };
	if (node_seq_cmp(next, last) <= 0)
		next = (struct seq){ last.epoch, last.n + 1 };
	ret->next.seq = is_given ? order : next;
	if (v->leader)
		snprintf(ret->next.leader, sizeof(ret->next.leader), "%s", v->leader);
}
