// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/transition_internal.h"

#include <stdio.h>

static const struct rule *const tables[] = { repair_rules, begin_rules, drain_rules, change_rules, end_rules };

const struct rule *transition_next_rule(const struct rule *previous, enum node_phase phase)
{
	bool is_behind = !previous;
	for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
		for (const struct rule *r = tables[t]; r->text; r++) {
			if (is_behind && r->phases & 1U << phase)
				return r;
			is_behind = is_behind || r == previous;
		}
	return NULL;
}

const char *transition_rule_text(const struct rule *rule)
{
	return rule->text;
}

bool transition_rule_applies(const struct rule *rule, const struct view *v)
{
	return rule->when(v);
}

static void set_wait_reason(struct decision *d, enum reason_code why, const char *object)
{
	d->waits = (struct reason){ .code = why };
	snprintf(d->waits.object, sizeof(d->waits.object), "%s", object);
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

// No rule applies: what the node waits for.
static void explain_wait(const struct view *v, struct decision *d)
{
	const struct record *r = &v->m->record;
	enum reason_code why;
	if (v->is_led_elsewhere) {
		set_wait_reason(d, REASON_FOREIGN_COORDINATOR, r->leader);
		return;
	}
	if ((DRAINING & 1U << r->phase) && rule_stand_down_reason(v) == REASON_FOREIGN_CONTROLLER) {
		set_wait_reason(d, REASON_FOREIGN_CONTROLLER, rule_stand_down_object(v));
		return;
	}
	switch (r->phase) {
	case PHASE_IDLE:
	case PHASE_DONE:
	case PHASE_ROLLEDBACK:
		why = transition_rests(v) != REASON_NONE ? transition_rests(v) : v->refused;
		set_wait_reason(d, why, why == r->reason.code ? r->reason.object : "");
		return;
	case PHASE_STAGING:
		set_wait_reason(d, REASON_STAGING_UNDER_WAY, rule_ack_code(v));
		return;
	case PHASE_QUEUED:
		why = v->slot != SLOT_NONE ? REASON_PODS_UNKNOWN : REASON_NO_SLOT;
		set_wait_reason(d, v->refused != REASON_NONE ? v->refused : why, "");
		return;
	case PHASE_EVICTING: // without a list of pods, use what was recorded when a budget began to block
		if (node_state_pods(v->m)->pods < 0 && r->reason.code != REASON_NONE)
			set_wait_reason(d, r->reason.code, r->reason.object);
		else
			set_wait_reason(d, drain_wait_reason(v), node_state_pods(v->m)->blocker.object);
		return;
	case PHASE_UNKNOWN:
		set_wait_reason(d, REASON_UNKNOWN_STATE, "");
		return;
	default:
		set_wait_reason(d, r->reason.code != REASON_NONE ? r->reason.code : REASON_WORKING, r->reason.object);
	}
}

// Evictions go on for exactly those who may: ours by receipt and slot (I6), and only where something is to be unloaded.
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
