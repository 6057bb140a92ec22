// SPDX-License-Identifier: Apache-2.0
// What the agent knows: the policy, what this node has, who holds the driver.
#include "cluster/agent/agent_internal.h"

#include <stdio.h>

enum {
	LOOK_MS = 60000, // drift is seen so late
	POLICY_MS = 5000,
	RETRY_MS = 10000, // of what cannot be read or written on this node
	EXACT_MS = 2000,
	COARSE_MS = 15000,
	HYSTERESIS_MS = 60000,
	TROUBLE_TEXT = 220, // beside the name of its error
};

void agent_log_trouble_once(struct agent *a, const char *what, const struct err *why)
{
	auto_str char *text = str_fmt("%s: %s", what, why->text);
	if (strncmp(a->said, text, sizeof(a->said) - 1) == 0)
		return;
	snprintf(a->said, sizeof(a->said), "%s", text);
	a->site->machine.trouble(a->site->machine.ctx, what, why);
}

void agent_stuck(struct agent *a, bool *is_it, const char *what, const struct err *why)
{
	a->hold_ms = a->now_ms + RETRY_MS;
	*is_it = true;
	snprintf(a->trouble, sizeof(a->trouble), "%s: %.*s", err_info(why->code)->name, TROUBLE_TEXT, why->text);
	agent_log_trouble_once(a, what, why);
}

void agent_unstuck(struct agent *a, bool *is_it)
{
	*is_it = false;
	if (!a->is_unwritten && !a->is_unordered)
		*a->trouble = '\0';
}

// The policy

// One that says nothing sensible changes nothing: what was read before holds.
void agent_read_policy(struct agent *a)
{
	struct err why;
	auto_policy struct policy policy = POLICY_NONE;
	a->policy_ms = a->now_ms + POLICY_MS;
	int r = a->site->machine.policy(a->site->machine.ctx, &policy, &why);
	if (r < 0)
		agent_log_trouble_once(a, "the policy is not read", &why);
	if (r <= 0)
		return;
	policy_done(&a->policy);
	a->policy = policy;
	policy = POLICY_NONE;
	a->look_ms = 0;
}

// What this node has

const struct target *agent_target_of(const struct agent *a, const struct target_hash *target_hash)
{
	for (size_t i = 0; i < a->policy.pool_count; i++)
		if (target_hash_eq(&a->policy.pools[i].target.target_hash, target_hash))
			return &a->policy.pools[i].target;
	return agent_known(&a->journal, target_hash);
}

static size_t add_known_target(const struct target **names, size_t count, const struct target *t)
{
	for (size_t i = 0; t && i < count; i++)
		if (target_hash_eq(&names[i]->target_hash, &t->target_hash))
			return count;
	if (t)
		names[count++] = t;
	return count;
}

// First what was ordered, when that was carried out; else what works here.
static size_t known_targets(const struct agent *a, const struct target **names)
{
	const struct agent_journal *j = &a->journal;
	bool is_new = a->has_end && a->end.is_ok && agent_changes(j->order.verb) && j->step == AGENT_BEGUN;
	size_t count = add_known_target(names, 0, agent_target_of(a, is_new ? &j->order.target_hash : &j->current));
	count = add_known_target(names, count, agent_target_of(a, &j->order.target_hash));
	for (size_t i = 0; i < a->policy.pool_count; i++)
		count = add_known_target(names, count, &a->policy.pools[i].target);
	for (size_t i = 0; i < j->known_count; i++)
		count = add_known_target(names, count, &j->known[i]);
	return count;
}

bool agent_write(struct agent *a)
{
	struct err why;
	if (agent_journal_write(a->site->state, &a->journal, &why) == 0) {
		agent_unstuck(a, &a->is_unwritten);
		return true;
	}
	agent_stuck(a, &a->is_unwritten, "nothing is begun, because the journal cannot be written", &why);
	return false;
}

// What was found is what works here, until an order says otherwise; and it can be brought back by its name.
static void adopt_loaded_driver(struct agent *a, const struct target *found)
{
	struct agent_journal *j = &a->journal;
	const struct agent_facts *f = &a->facts;
	bool is_ours = !f->is_empty && !f->is_foreign, is_changing = j->step == AGENT_BEGUN || j->step == AGENT_BACK;
	const struct target *t = *found->driver ? found : agent_target_of(a, &f->loaded);
	bool is_new = is_ours && t && agent_learn(j, t);
	if (!is_ours || is_changing || target_hash_eq(&j->current, &f->loaded))
		return;
	j->current = f->loaded;
	if (!agent_write(a) && is_new)
		a->look_ms = a->now_ms + RETRY_MS;
}

void agent_refresh_facts(struct agent *a)
{
	struct err why;
	struct target found = { 0 };
	const struct agent_machine *m = &a->site->machine;
	const struct target **names = mem_alloc((a->policy.pool_count + a->journal.known_count + 3) * sizeof(*names));
	a->look_ms = a->now_ms + LOOK_MS;
	if (m->look(m->ctx, names, known_targets(a, names), &a->facts, &found, &why) < 0) {
		a->look_ms = a->now_ms + RETRY_MS;
		agent_log_trouble_once(a, "this node cannot be looked at", &why);
	} else {
		adopt_loaded_driver(a, &found);
	}
	target_done(&found);
	free(names);
}

// Holders, on demand (5.2): exactly where the coordinator waits for them to go, roughly where it only chooses.

enum asked { ASKED_NOT, ASKED_COARSE, ASKED_EXACT };
static enum asked asked(const struct agent *a)
{
	const struct record *orders = agent_orders(a);
	switch (orders ? orders->phase : PHASE_IDLE) {
	case PHASE_CORDONED:
	case PHASE_EVICTING:
	case PHASE_REPLACING:
	case PHASE_RESTORING:
		return ASKED_EXACT;
	case PHASE_QUEUED:
	case PHASE_WAITING:
		return ASKED_COARSE;
	case PHASE_HELD: // for a pod that nobody may evict, until it has gone
		return orders->reason.code == REASON_HOLDER_PROTECTED ? ASKED_COARSE : ASKED_NOT;
	default:
		return ASKED_NOT;
	}
}

static void copy_holders(const struct agent_holders *from, bool is_coarse, struct agent_holders *to)
{
	agent_holders_done(to);
	*to = (struct agent_holders){
		.is_published = true, .is_coarse = is_coarse, .count = from->count, .generation = from->generation
	};
	for (size_t i = 0; i < from->pods.count; i++) // coarsely: those of that moment, and no later ones
		strv_add(&to->pods, str_dup(from->pods.items[i]));
}

// A node that is busy now and idle then writes nothing all day.
static void publish_coarse_holders(struct agent *a)
{
	bool is_busy = a->seen.count != 0, was_busy = a->told.count != 0;
	bool is_first = !a->told.is_published || !a->told.is_coarse;
	if (!is_first && is_busy == was_busy)
		a->coarse_ms = a->now_ms;
	if (is_first || a->now_ms - a->coarse_ms >= HYSTERESIS_MS) {
		copy_holders(&a->seen, true, &a->told);
		a->coarse_ms = a->now_ms;
	}
}

void agent_refresh_holders(struct agent *a)
{
	enum asked how = asked(a);
	if (how == ASKED_NOT) {
		agent_holders_done(&a->told);
		a->holders_ms = 0;
		return;
	}
	bool is_other = how == ASKED_EXACT && (!a->told.is_published || a->told.is_coarse);
	if (a->now_ms < a->holders_ms && !is_other)
		return;
	a->site->machine.holders(a->site->machine.ctx, &a->seen);
	a->holders_ms = a->now_ms + (how == ASKED_EXACT ? EXACT_MS : COARSE_MS);
	if (how == ASKED_COARSE)
		publish_coarse_holders(a);
	else
		copy_holders(&a->seen, false, &a->told);
}
