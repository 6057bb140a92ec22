// SPDX-License-Identifier: Apache-2.0
// Keys of ours that were changed by users or by accident: checked first, in every state (T13, T62, 5.6).
#include "cluster/node_state/annotations.h"
#include "cluster/rollout/rules_internal.h"

enum { CLOCK_SLACK = 300 };

static bool is_leader_other(const struct view *v)
{
	return v->is_led_elsewhere;
}
static bool is_unknown_retry(const struct view *v)
{
	return v->m->record.phase == PHASE_UNKNOWN && rule_is_retry_requested(v);
}
static void forget_unknown_phase(const struct view *v, struct decision *d)
{
	bool is_ours = v->m->record.receipt.is_there;
	bool is_phase_lost = node_key_is_malformed(&v->m->record, KEY_PREFIX "cordon") && v->m->facts.is_unschedulable;
	d->next.malformed = 0;
	d->next.retry = v->m->facts.retry;
	rule_enter_phase(v, d,
			 is_ours       ? PHASE_FAILED :
			 is_phase_lost ? PHASE_HELD :
					 PHASE_IDLE,
			 is_ours       ? REASON_UNKNOWN_STATE :
			 is_phase_lost ? REASON_RECEIPT_MISSING :
					 REASON_NONE,
			 "");
	d->next.receipt.touched = is_ours;
	rule_take_back_order(v, d);
}
static bool is_phase_unknown(const struct view *v)
{
	return v->m->record.phase == PHASE_UNKNOWN;
}

static bool is_phase_lost(const struct view *v)
{
	const struct record *r = &v->m->record;
	return !r->has_phase &&
	       (r->receipt.is_there || r->go.verb != VERB_NONE || r->paused || r->autoscaler || v->slot != SLOT_NONE);
}
// What was in progress, by the last order.
static enum node_phase rebuilt_phase(const struct view *v)
{
	const struct record *r = &v->m->record;
	struct target_hash back = rule_previous_driver(v);
	switch (r->go.verb) {
	case VERB_STAGE:
		return PHASE_STAGING;
	case VERB_REPLACE:
		return PHASE_REPLACING;
	case VERB_LOAD:
		return r->receipt.is_there ? PHASE_REPLACING : PHASE_LOADING;
	case VERB_RESTORE:
		return PHASE_RESTORING;
	case VERB_VALIDATE:
		return target_hash_is_set(&back) && target_hash_eq(&r->go.target_hash, &back) ? PHASE_RESTORING :
												PHASE_VALIDATING;
	default:
		return r->receipt.is_there ? (r->receipt.touched ? PHASE_FAILED : PHASE_CORDONED) : PHASE_IDLE;
	}
}
static void rebuild_phase(const struct view *v, struct decision *d)
{
	enum node_phase phase = rebuilt_phase(v);
	bool is_cordon_lost = phase == PHASE_IDLE && v->slot != SLOT_NONE && v->m->facts.is_unschedulable;
	rule_enter_phase(v, d, is_cordon_lost ? PHASE_HELD : phase,
			 is_cordon_lost ? REASON_RECEIPT_MISSING : REASON_NONE, "");
	d->next.tries = v->m->record.tries;
	if (phase == PHASE_IDLE)
		rule_give_back_operands(d);
}

static bool is_drain_receipt_lost(const struct view *v)
{
	return !v->m->record.receipt.is_there;
}
static void hold_unreceipted(const struct view *v, struct decision *d)
{
	rule_enter_phase(v, d, PHASE_HELD, REASON_RECEIPT_MISSING, "");
	rule_take_back_order(v, d);
	rule_give_back_operands(d);
}

// A user who uncordons a failed node has decided about it.
static bool is_node_taken_over(const struct view *v)
{
	return v->m->record.receipt.is_there && !v->m->facts.is_unschedulable;
}

// Deleted, or implausibly far away (T17).
static bool is_deadline_bad(const struct view *v)
{
	const struct record *r = &v->m->record;
	enum span span = node_phase_info(r->phase)->span;
	if (r->phase == PHASE_RELEASING && !r->receipt.is_there)
		return false;
	return span != SPAN_NONE && (!r->deadline || r->deadline > v->now + policy_span(v->pool, span) + CLOCK_SLACK);
}
static void set_deadline(const struct view *v, struct decision *d)
{
	d->next.deadline = v->now + policy_span(v->pool, node_phase_info(v->m->record.phase)->span);
	d->next.since = v->m->record.since && v->m->record.since <= v->now ? v->m->record.since : v->now;
}

static bool is_receipt_stray(const struct view *v)
{
	return v->m->record.receipt.is_there;
}
static void fail_stray(const struct view *v, struct decision *d)
{
	d->next.receipt.touched = true;
	rule_fail_node(v, d, REASON_UNKNOWN_STATE, "cordon");
}

static bool has_leftovers(const struct view *v)
{
	return (v->m->record.paused || v->m->record.autoscaler) && !v->m->record.receipt.is_there;
}
static void give_leftovers(const struct view *v, struct decision *d)
{
	(void)v;
	rule_give_back_operands(d);
}

// The list of what we paused was edited. Under our cordon only we pause operands.
static bool is_paused_list_short(const struct view *v)
{
	const struct record *r = &v->m->record;
	return r->receipt.is_there && !node_state_is_foreign(v->m) && v->m->facts.paused & ~(unsigned)r->paused;
}
static void complete_paused_list(const struct view *v, struct decision *d)
{
	d->next.paused |= v->m->facts.paused;
}

// An earlier version wrote NVIDIA's label with every state. If its value still matches the state, and NVIDIA's operator
// does not manage the node, the label is from that version.
static bool is_upgrade_label_left(const struct view *v)
{
	enum upgrade word = v->m->facts.upgrade;
	return v->m->record.has_phase && !node_state_is_foreign(v->m) && word != UPGRADE_NONE && word != UPGRADE_DONE &&
	       word == node_phase_info(v->m->record.phase)->mirrored;
}
static void drop_upgrade_label(const struct view *v, struct decision *d)
{
	(void)v;
	d->drops_word = true;
}

#define ANY (~0U)
#define TIMED                                                                                                     \
	(IN(STAGING) | IN(LOADING) | IN(CORDONED) | IN(WAITING) | IN(EVICTING) | IN(REPLACING) | IN(VALIDATING) | \
	 IN(RESTORING) | IN(RELEASING))
const struct rule repair_rules[] = {
	{ ANY, "the coordinator of another namespace leads this node: nothing is done", is_leader_other, NULL,
	  REASON_NONE },
	{ IN(UNKNOWN), "a retry is requested: values that this version does not know are dropped", is_unknown_retry,
	  forget_unknown_phase, REASON_NONE },
	{ IN(UNKNOWN), "a label or annotation has a value that this version does not know: nothing is done",
	  is_phase_unknown, NULL, REASON_NONE },
	{ ANY, "an earlier version left a label that starts NVIDIA's upgrade controller: it is removed",
	  is_upgrade_label_left, drop_upgrade_label, REASON_NONE },
	{ ANY, "the label of the state is gone: it is derived from the other keys", is_phase_lost, rebuild_phase,
	  REASON_NONE },
	{ DRAINING, "the record of our cordon is gone: the node is held and stays as it is", is_drain_receipt_lost,
	  hold_unreceipted, REASON_NONE },
	{ IN(FAILED) | IN(STAGING) | IN(QUEUED), "uncordoned by a user: it is left as it is", is_node_taken_over,
	  rule_hand_over, REASON_UNCORDONED },
	{ TIMED, "the deadline is missing or implausible: it is set again", is_deadline_bad, set_deadline,
	  REASON_NONE },
	{ DRAINING | IN(REPLACING) | IN(RESTORING) | IN(FAILED),
	  "paused operands are missing in our record: they are added", is_paused_list_short, complete_paused_list,
	  REASON_NONE },
	{ RESTING | IN(HELD),
	  "there is a record of our cordon in a state without one: stays cordoned until a driver is validated",
	  is_receipt_stray, fail_stray, REASON_NONE },
	{ RESTING | IN(HELD) | IN(STAGING) | IN(QUEUED) | IN(LOADING), "operands and autoscaler hints are set back",
	  has_leftovers, give_leftovers, REASON_NONE },
	{ 0 },
};
