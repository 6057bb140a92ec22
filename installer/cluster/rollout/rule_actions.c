// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/rules.h"

#include <stdio.h>

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
	bool is_lost =
		!receipt->is_there && v->m->facts.is_unschedulable; // whoever's it is, somebody has to know of it
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
