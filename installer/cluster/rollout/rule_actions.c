// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/rules.h"

#include <stdio.h>

// Of a drain that ended, for as long as nothing else is to be told: until the next one begins.
void keep_reason(const struct view *v, struct decision *d)
{
	if (phase_info(v->m->record.phase)->is_disruptive || v->m->record.reason.code == REASON_STAGE_FAILED)
		return;
	d->next.reason = v->m->record.reason;
}

static void because(struct record *r, enum reason_code why, const char *object)
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
void enter(const struct view *v, struct decision *d, enum phase phase, enum reason_code why, const char *object)
{
	struct record *r = &d->next;
	enum span span = phase_info(phase)->span;
	r->phase = phase;
	r->has_phase = true;
	r->since = v->now;
	r->deadline = span == SPAN_NONE ? 0 : v->now + span_of(v->pool, span);
	if (phase == PHASE_EVICTING && r->receipt.is_there && r->receipt.until < r->deadline)
		r->deadline = r->receipt.until;
	r->tries = 0;
	r->ordered = 0;
	because(r, why, object);
}

static struct seq next_seq(const struct view *v)
{
	const struct record *r = &v->m->record;
	struct seq last = r->seq, ours = { v->epoch, 0 };
	const struct seq others[] = { r->go.seq, v->m->report.ack.seq, ours };
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		last = seq_cmp(others[i], last) > 0 ? others[i] : last;
	// An agent may claim any number: its last one leads on to the next epoch, not back.
	return last.n == UINT32_MAX ? (struct seq){ last.epoch + 1, 1 } : (struct seq){ last.epoch, last.n + 1 };
}

void give_order(const struct view *v, struct decision *d, enum verb verb, struct aim aim)
{
	d->next.go = (struct order){ next_seq(v), verb, aim };
	d->next.tries++;
	d->next.ordered = d->next.since == v->now ? 0 : v->now;
	if (verb == VERB_REPLACE || verb == VERB_LOAD)
		d->next.attempts++;
	if (verb == VERB_REPLACE || verb == VERB_LOAD || verb == VERB_RESTORE)
		d->next.receipt.touched = d->next.receipt.is_there;
}

void take_back_order(const struct view *v, struct decision *d)
{
	d->next.ordered = 0;
	if (v->m->record.go.verb != VERB_NONE)
		d->next.go = (struct order){ next_seq(v), VERB_NONE, AIM_NONE };
}

uint16_t last_operands(const struct view *v)
{
	unsigned bits = 0;
	for (unsigned i = 0; operands[i].key; i++)
		bits |= operands[i].is_last ? v->m->facts.operands & 1U << i : 0;
	return (uint16_t)bits;
}

void pause_operands(const struct view *v, struct decision *d)
{
	d->next.paused |= v->m->facts.operands;
}

void give_back(struct decision *d)
{
	d->next.paused = 0;
	d->next.autoscaler = 0;
}

void set_target(const struct view *v, struct decision *d, struct aim aim)
{
	if (!aim_eq(&d->next.target, &aim)) {
		d->next.attempts = 0;
		memset(d->next.wave, 0, sizeof(d->next.wave));
	}
	d->next.target = aim;
	d->next.stable = v->rollout ? v->rollout->stable : d->next.stable;
}

// The end of our cordon, in one patch: labels, unschedulable, receipt (T25). Without a receipt nothing is uncordoned;
// and under an upgrade of NVIDIA's controller the cordon stays, since it is that one's by now: the first thing that it
// did was to cordon, the last is to uncordon.
void release(const struct view *v, struct decision *d, enum phase outcome, enum reason_code why, const char *object)
{
	struct receipt *receipt = &d->next.receipt;
	bool is_ours = receipt->is_there && !receipt->prior && !v->m->facts.keeps_cordon && !is_upgraded(v);
	bool is_lost =
		!receipt->is_there && v->m->facts.is_unschedulable; // whoever's it is, somebody has to know of it
	enter(v, d, is_lost ? PHASE_HELD : PHASE_RELEASING, is_lost ? REASON_RECEIPT_MISSING : why,
	      is_lost ? "" : object);
	take_back_order(v, d);
	give_back(d);
	if (is_lost)
		return;
	d->next.outcome = outcome;
	d->cordon = is_ours && v->m->facts.is_unschedulable ? CORDON_OFF : CORDON_KEEP;
	*receipt = (struct receipt){ 0 };
}

static void count_for(struct decision *d, bool is_repeat, bool is_first)
{
	struct record *r = &d->next;
	if (!aim_eq(&r->drains.aim, &r->target)) {
		memset(&r->drains, 0, sizeof(r->drains));
		r->drains.aim = r->target;
	}
	uint16_t *count = is_repeat ? &r->drains.repeated : &r->drains.failed;
	*count = is_first ? 1 : (uint16_t)(*count + (*count < UINT16_MAX));
}

void count_drain(struct decision *d)
{
	count_for(d, false, false);
}

void count_repeat(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	if (r->phase == PHASE_DONE && aim_eq(&r->target, &d->next.target) && !member_empty(v->m))
		count_for(d, true, v->now >= r->since + REPEAT_S);
}

// Neither the node nor its pods can help that.
static bool is_from_above(enum reason_code why)
{
	return why == REASON_HALTED || why == REASON_ATTEMPTS_SPENT || why == REASON_POLICY_GONE ||
	       why == REASON_SKIPPED || why == REASON_WINDOW_CLOSED || why == REASON_FOREIGN_CONTROLLER ||
	       why == REASON_ABORTED || why == REASON_TARGET_CHANGED;
}

// Nothing was unloaded in this attempt. Where an earlier one did, what is in the kernel has to prove itself first (I4).
void stop_drain(const struct view *v, struct decision *d, enum reason_code why, const char *object)
{
	if (!is_from_above(why))
		count_drain(d);
	if (v->m->record.receipt.touched)
		restore(v, d, why, false);
	else
		release(v, d, PHASE_IDLE, why, object);
}

// Whether its driver works is the operator's to prove: pods get no GPU before its validator has said so.
void leave_to_operator(const struct view *v, struct decision *d)
{
	release(v, d, PHASE_IDLE, REASON_FOREIGN_CONTROLLER, stands_down_for(v));
}

void fail(const struct view *v, struct decision *d, enum reason_code why, const char *object)
{
	enter(v, d, PHASE_FAILED, why, object);
	take_back_order(v, d);
}

void restore(const struct view *v, struct decision *d, enum reason_code why, bool is_blamed)
{
	struct aim back = way_back(v);
	auto_str char *code = str_dup(ack_code(v));
	if (is_handed_over(v)) { // the way back is the operator's, and not to be laid to the target
		enter(v, d, PHASE_RESTORING, REASON_FOREIGN_CONTROLLER, stands_down_for(v));
		take_back_order(v, d);
		return;
	}
	if (is_blamed && !aim_eq(&back, &v->m->record.target))
		d->next.failed = v->m->record.target;
	if (!aim_is(&back) || aim_eq(&back, &v->m->record.target)) {
		fail(v, d, aim_is(&back) ? why : REASON_NO_PREVIOUS, code);
		return;
	}
	enter(v, d, PHASE_RESTORING, why, code);
	take_back_order(v, d);
	pause_operands(v, d);
}
