// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/transition_internal.h"

#include <stdio.h>

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

static unsigned failed_drains(const struct view *v, const struct target_hash *target_hash)
{
	const struct record *r = &v->m->record;
	return target_hash_eq(&r->drains.target_hash, target_hash) ? r->drains.failed : 0;
}

// Drained as often as one target is worth: it ends here, and the others go on.
static enum reason_code given_up_reason(const struct view *v, const struct target_hash *goal)
{
	const struct record *r = &v->m->record;
	unsigned failed = failed_drains(v, goal), most = v->pool->drain_attempts;
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
	unsigned failed = failed_drains(v, &goal);
	bool is_again = failed || (!is_new && r->reason.code != REASON_NONE);
	if (is_again && r->since && !rule_has_backed_off(v, r->attempts + 2U + (failed ? failed : 1)))
		return r->reason.code != REASON_NONE ? r->reason.code : REASON_BACKING_OFF;
	return REASON_NONE;
}

// Repaired by hand or by a reboot: the agent reports the loaded driver as healthy. It still has to be
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

// Of a drain that ended, for as long as nothing else is to be told: until the next one begins.
void rule_keep_reason(const struct view *v, struct decision *d)
{
	if (node_phase_info(v->m->record.phase)->is_disruptive || v->m->record.reason.code == REASON_STAGE_FAILED)
		return;
	d->next.reason = v->m->record.reason;
}

static void set_reason(struct record *r, enum reason_code why, const char *object)
{
	r->reason = (struct reason){ .code = why };
	r->reason_since = 0;
	if (why == REASON_NONE)
		return;
	// One line of plain characters: it may come from an agent or a pod's name.
	for (size_t i = 0; i < OBJECT_TEXT - 1 && object[i]; i++)
		r->reason.object[i] = object[i] >= ' ' && object[i] <= '~' ? object[i] : '?';
}

// Every state with a span has a deadline from here on; that of a drain is never later than its receipt says.
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
	set_reason(r, why, object);
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

uint16_t rule_last_operands(const struct view *v)
{
	unsigned bits = 0;
	for (unsigned i = 0; operands[i].key; i++)
		bits |= operands[i].is_last ? v->m->facts.operands & 1U << i : 0;
	return (uint16_t)bits;
}

void rule_pause_operands(const struct view *v, struct decision *d)
{
	d->next.paused |= v->m->facts.operands;
}

void rule_give_back_operands(struct decision *d)
{
	d->next.paused = 0;
	d->next.autoscaler = 0;
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

// The end of our cordon, in one patch: labels, unschedulable, receipt (T25). Without a receipt nothing is uncordoned;
// and under an upgrade of NVIDIA's controller the cordon stays, since it is that one's by now: the first thing that it
// did was to cordon, the last is to uncordon.
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
}

static void count_drain_for_target(struct decision *d, bool is_repeat, bool is_first)
{
	struct record *r = &d->next;
	if (!target_hash_eq(&r->drains.target_hash, &r->target)) {
		memset(&r->drains, 0, sizeof(r->drains));
		r->drains.target_hash = r->target;
	}
	uint16_t *count = is_repeat ? &r->drains.repeated : &r->drains.failed;
	*count = is_first ? 1 : (uint16_t)(*count + (*count < UINT16_MAX));
}

void rule_count_drain(struct decision *d)
{
	count_drain_for_target(d, false, false);
}

void rule_count_repeat(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	if (r->phase == PHASE_DONE && target_hash_eq(&r->target, &d->next.target) && !node_state_is_empty(v->m))
		count_drain_for_target(d, true, v->now >= r->since + REPEAT_S);
}

// Neither the node nor its pods can help that.
static bool is_policy_reason(enum reason_code why)
{
	return why == REASON_HALTED || why == REASON_ATTEMPTS_SPENT || why == REASON_POLICY_GONE ||
	       why == REASON_SKIPPED || why == REASON_WINDOW_CLOSED || why == REASON_FOREIGN_CONTROLLER ||
	       why == REASON_ABORTED || why == REASON_TARGET_CHANGED;
}

// Nothing was unloaded in this attempt. Where an earlier one did, what is in the kernel has to prove itself first (I4).
void rule_stop_drain(const struct view *v, struct decision *d, enum reason_code why, const char *object)
{
	if (!is_policy_reason(why))
		rule_count_drain(d);
	if (v->m->record.receipt.touched)
		rule_restore_driver(v, d, why, false);
	else
		rule_release_node(v, d, PHASE_IDLE, why, object);
}

// Whether its driver works is the operator's to prove: pods get no GPU before its validator has said so.
void rule_leave_to_operator(const struct view *v, struct decision *d)
{
	rule_release_node(v, d, PHASE_IDLE, REASON_FOREIGN_CONTROLLER, rule_stand_down_object(v));
}

void rule_fail_node(const struct view *v, struct decision *d, enum reason_code why, const char *object)
{
	rule_enter_phase(v, d, PHASE_FAILED, why, object);
	rule_take_back_order(v, d);
}

void rule_restore_driver(const struct view *v, struct decision *d, enum reason_code why, bool is_blamed)
{
	struct target_hash back = rule_previous_driver(v);
	auto_str char *code = str_dup(rule_ack_code(v));
	if (rule_is_handed_over(v)) { // the way back is the operator's, and not to be laid to the target
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
