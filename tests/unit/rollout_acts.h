// SPDX-License-Identifier: Apache-2.0
// What can happen in the small world, and what must hold whenever the coordinator decides something.
#pragma once
#include "cluster/node_state/annotations.h"
#include "tests/unit/rollout_world.h"
#include "tests/unit/test.h"

enum act {
#define X(name, text) ACT_##name,
#include "tests/unit/rollout_acts.def"
#undef X
	ACT_END,
	ACT_OF_NODE = ACT_DECIDE // and those behind it
};
static const char *const act_names[ACT_END] = {
#define X(name, text) text,
#include "tests/unit/rollout_acts.def"
#undef X
};

enum { UNSEEN = 3 }; // owner of a cordon: it was ours, is gone, and the coordinator has not looked since

struct domain {
	const char *name;
	unsigned nodes, people;
	uint32_t without; // bits of acts
	enum on_halt on_halt;
	bool waits;
	enum foreign_cordon foreign;
	unsigned away; // maxUnavailable; 0 = 1
};

static struct policy policy;
static struct pool pool;
static const struct domain *domain;
static char violation[256];

static bool violates(const char *what, const struct world *w, unsigned i)
{
	if (!*violation)
		snprintf(violation, sizeof(violation), "%s on node %s in %s", what, node_names[i],
			 node_phase_info(w->m[i].record.phase)->name);
	return false;
}

static void set_up(const struct domain *d)
{
	domain = d;
	pool = (struct pool){ .name = "gpu",
			      .parallel = { 1, false },
			      .unavailable = { d->away ? d->away : 1, false },
			      .waiting = 1,
			      .attempts = 2,
			      .drain_attempts = 2,
			      .on_halt = d->on_halt,
			      .foreign_cordon = d->foreign,
			      .wait_for = d->waits ? (char *)(uintptr_t) "job" : NULL,
			      .breaker_percent = 100,
			      .breaker_row = 2,
			      .target.target_hash = sides[NEW] };
	for (unsigned s = 0; s < SPAN_COUNT; s++)
		pool.spans[s] = TICK;
	pool.spans[SPAN_STAGE] = pool.spans[SPAN_REPLACE] = 2 * TICK;
	pool.spans[SPAN_ACK] = TICK / 3;
	policy = (struct policy){ .parallel = { LIMIT_NONE, false },
				  .unavailable = { LIMIT_NONE, false },
				  .staging = 1,
				  .pools = &pool,
				  .pool_count = 1 };
}

static struct cluster cluster_of(const struct world *w, struct slot_ledger *ledger, struct ledger_entry *entries)
{
	ledger->items = entries;
	ledger->count = 0;
	for (unsigned i = 0; i < w->nodes; i++)
		if (w->slot[i] != SLOT_NONE) {
			entries[ledger->count] = (struct ledger_entry){ .slot = w->slot[i] };
			memcpy(entries[ledger->count++].uid, w->m[i].uid, UID_TEXT);
		}
	policy.is_paused = w->is_paused;
	pool.target.target_hash = sides[w->is_retargeted ? OTHER : NEW];
	return (struct cluster){ &policy, &w->rollout, w->m, w->nodes, ledger, 1, NOW, NULL, NULL, false, 0, NULL, 0 };
}

// I1, counted anew: whoever gets a slot finds room.
static bool check_grants(const struct world *w, const struct slots *s)
{
	unsigned work = 0, away = 0, granted = 0;
	for (unsigned i = 0; i < w->nodes; i++) {
		const struct node_facts *f = &w->m[i].facts;
		enum node_phase p = w->m[i].record.phase;
		work += s->node_plans[i].has == SLOT_WORK ||
			(node_phase_info(p)->is_disruptive && p != PHASE_UNKNOWN && p != PHASE_WAITING);
		away += s->node_plans[i].has != SLOT_NONE || f->is_unschedulable || !f->is_ready;
		bool is_new = s->node_plans[i].has > s->node_plans[i].had && w->m[i].record.phase == PHASE_QUEUED;
		granted += is_new;
		// A driver that works is released from our cordon whatever is paused.
		bool is_release = w->m[i].record.receipt.is_there &&
				  target_hash_eq(&w->m[i].report.loaded, &w->m[i].record.target);
		if (is_new && w->is_paused && !is_release)
			return violates("a grant while paused", w, i);
	}
	return !granted || (work <= 1 && away <= pool.unavailable.value) ||
	       violates("I1: a grant beyond the limits", w, 0);
}

static bool write_ledger(struct world *w)
{
	struct ledger_entry entries[NODES_MOST];
	struct slot_ledger ledger;
	struct cluster c = cluster_of(w, &ledger, entries);
	auto_slots struct slots s = SLOTS_NONE;
	scheduler_plan(&c, &s);
	bool is_good = check_grants(w, &s);
	bool is_changed = s.granted || s.freed || memcmp(&s.rollouts[0], &w->rollout, sizeof(w->rollout)) != 0;
	for (unsigned i = 0; i < w->nodes; i++)
		w->slot[i] = s.node_plans[i].has;
	w->rollout = s.rollouts[0];
	w->rollout.frozen = 0;
	memset(w->rollout.halt.object, 0, OBJECT_TEXT);
	(void)is_good;
	return is_changed;
}

static void decide(struct world *w, unsigned i, struct decision *d)
{
	for (unsigned k = 0; k < w->nodes; k++) { // all pods are looked at as soon as anything is
		struct pods_seen *seen = &w->m[k].facts.seen;
		seen->stay = node_state_stay(&w->m[k]);
		seen->blocker.code = seen->blocked_since ? REASON_PDB_BLOCKED : REASON_NONE;
	}
	struct ledger_entry entries[NODES_MOST];
	struct slot_ledger ledger;
	struct cluster c = cluster_of(w, &ledger, entries);
	auto_slots struct slots s = SLOTS_NONE;
	scheduler_plan(&c, &s);
	// What is recorded of the rollout, and nothing newer: both are written before anybody acts on them.
	s.rollouts[0] = w->rollout;
	struct view v = scheduler_view(&c, &s, i);
	transition(&v, d);
}

static bool check_order(const struct world *w, unsigned i, const struct record *next)
{
	const struct node_state *m = &w->m[i];
	const struct order *go = &next->go;
	bool is_new = node_seq_cmp(go->seq, m->record.go.seq) > 0;
	bool is_change = go->verb == VERB_REPLACE || go->verb == VERB_LOAD || go->verb == VERB_RESTORE;
	if (!is_new || go->verb == VERB_NONE)
		return true;
	if (is_change && go->verb != VERB_LOAD && m->report.holders != 0 &&
	    !target_hash_eq(&go->target_hash, &m->record.go.target_hash))
		return violates("I3: an order to unload under a holder", w, i);
	if (go->verb == VERB_REPLACE && (!m->record.receipt.is_there || !m->facts.is_unschedulable))
		return violates("an order to unload without our cordon", w, i);
	if (go->verb != VERB_STAGE && go->verb != VERB_VALIDATE && go->verb != VERB_RESTORE && w->rollout.is_halted &&
	    target_hash_eq(&go->target_hash, &w->rollout.target) &&
	    !target_hash_eq(&m->report.loaded, &go->target_hash))
		return violates("I8: to the target while halted", w, i);
	bool is_try = go->verb == VERB_REPLACE || go->verb == VERB_LOAD;
	if (is_try && target_hash_eq(&go->target_hash, &sides[NEW]) && w->ghost[i].orders >= pool.attempts)
		return violates("I7: more attempts than allowed", w, i);
	return true;
}

static bool check_decision(const struct world *w, unsigned i, const struct decision *d)
{
	const struct record *was = &w->m[i].record, *next = &d->next;
	const struct ghost *g = &w->ghost[i];
	if (d->evicts && w->slot[i] != SLOT_WORK)
		return violates("I6: an eviction without a slot", w, i);
	if (d->evicts && !was->receipt.is_there)
		return violates("I6: an eviction without a receipt that was read back", w, i);
	if (!d->rule)
		return memcmp(was, next, sizeof(*was)) == 0 || violates("I11: a change without a rule", w, i);
	if (d->cordon == CORDON_OFF && (!was->receipt.is_there || was->receipt.prior || g->owner != 1))
		return violates("I2: uncordoned what was not ours", w, i);
	if (d->cordon == CORDON_OFF && g->is_touched && !g->is_proven)
		return violates("I4: uncordoned with a driver that nothing proved", w, i);
	if (d->cordon == CORDON_ON && w->slot[i] == SLOT_NONE && was->phase == PHASE_QUEUED)
		return violates("I1: cordoned without a slot", w, i);
	const struct node_state *m = &w->m[i];
	bool is_heard = heard(m) && m->report.ack.result == RESULT_DONE && was->go.verb == VERB_STAGE &&
			target_hash_eq(&was->go.target_hash, &was->target);
	bool is_drain = next->phase == PHASE_EVICTING && (was->phase == PHASE_CORDONED || was->phase == PHASE_WAITING);
	if (is_drain && !is_heard)
		return violates("I14: evicted for an agent that nobody heard", w, i);
	bool is_unload = target_hash_is_set(&m->report.loaded) && !target_hash_eq(&m->report.loaded, &was->target);
	if (d->cordon == CORDON_ON && was->phase == PHASE_QUEUED && is_unload && !is_heard)
		return violates("I14: cordoned for an agent that nobody heard", w, i);
	const struct node_phase_info *info = node_phase_info(next->phase);
	if (info->span != SPAN_NONE &&
	    (!next->deadline || next->deadline > NOW + (int64_t)pool.spans[info->span] + 300))
		return violates("I5: no deadline", w, i);
	if (!info->is_disruptive && next->phase != PHASE_FAILED && next->receipt.is_there &&
	    next->phase != PHASE_STAGING && next->phase != PHASE_QUEUED)
		return violates("a lost cordon", w, i);
	if (!info->is_disruptive && next->paused && (next->phase == PHASE_DONE || next->phase == PHASE_IDLE))
		return violates("operands left paused", w, i);
	// But for an agent that never answered while it staged or validated: what it says in the end is waited for.
	bool is_silent = next->reason.code == REASON_AGENT_SILENT &&
			 (next->go.verb == VERB_STAGE || next->go.verb == VERB_VALIDATE);
	if ((next->phase == PHASE_IDLE || next->phase == PHASE_FAILED) && next->go.verb != VERB_NONE && !is_silent)
		return violates("an order is left on a node that is let alone", w, i);
	if (node_seq_cmp(next->seq, was->seq) <= 0)
		return violates("a write that does not count up", w, i);
	return check_order(w, i, next);
}

static bool answered_done(const struct node_state *m)
{
	return heard(m) && m->report.ack.result == RESULT_DONE;
}

static void apply(struct world *w, unsigned i, const struct decision *d)
{
	struct node_state *m = &w->m[i];
	struct ghost *g = &w->ghost[i];
	const struct order *go = &d->next.go;
	bool is_new = node_seq_cmp(go->seq, m->record.go.seq) > 0 && go->verb != VERB_NONE;
	bool is_change = is_new && (go->verb == VERB_REPLACE || go->verb == VERB_LOAD || go->verb == VERB_RESTORE);
	if (is_new && (go->verb == VERB_REPLACE || go->verb == VERB_LOAD) &&
	    target_hash_eq(&go->target_hash, &sides[NEW]))
		g->orders++;
	if (d->next.attempts < m->record.attempts && g->orders && m->record.phase == PHASE_REPLACING &&
	    d->next.phase == PHASE_EVICTING)
		g->orders--; // the agent says that nothing was touched
	if (is_change) {
		g->is_touched = d->next.receipt.is_there;
		g->is_proven = false;
	}
	bool is_proven = m->record.phase == PHASE_VALIDATING && d->next.phase == PHASE_RELEASING;
	if (is_proven || d->next.retry != m->record.retry || d->next.outcome == PHASE_DONE ||
	    d->next.phase == PHASE_DONE ||
	    (m->record.phase == PHASE_LOADING && d->next.phase == PHASE_IDLE && answered_done(m)) ||
	    !target_hash_eq(&d->next.target, &m->record.target))
		g->orders = 0;
	if (g->owner == UNSEEN)
		g->owner = 0;
	if (d->cordon == CORDON_ON) {
		m->facts.is_unschedulable = true;
		g->owner = 1;
	} else if (d->cordon == CORDON_OFF) {
		m->facts.is_unschedulable = false;
		*g = (struct ghost){ .orders = g->orders };
	}
	if (!d->next.receipt.is_there && g->owner == 1 && m->record.receipt.is_there)
		g->owner = m->facts.is_unschedulable ? 2 : 0;
	if (d->next.paused != m->record.paused)
		m->facts.operands = d->next.paused ? 0 : 1;
	m->record = d->next;
	m->record.reason.object[0] = '\0';
}

// What an agent does with an order that it has not answered.
static bool answer(struct world *w, unsigned i, enum act act)
{
	struct report *r = &w->m[i].report;
	const struct order *go = &w->m[i].record.go;
	bool is_change = go->verb == VERB_REPLACE || go->verb == VERB_LOAD || go->verb == VERB_RESTORE;
	if (go->verb == VERB_NONE || (heard(&w->m[i]) && (r->ack.result != RESULT_ACCEPTED || act == ACT_ACCEPT)))
		return false;
	r->ack.seq = go->seq;
	r->ack.verb = go->verb;
	r->ack.failing = FAILING_NONE;
	r->ack.result = act == ACT_ACCEPT ? RESULT_ACCEPTED : act == ACT_DONE ? RESULT_DONE : RESULT_FAILED;
	if (act == ACT_ACCEPT)
		return true;
	if (is_change && go->verb != VERB_LOAD && r->holders && act != ACT_DONE) {
		r->ack.failing = FAILING_BUSY;
		return act == ACT_TRANSIENT;
	}
	if (is_change && r->holders && go->verb != VERB_LOAD)
		return false; // it never unloads under a holder
	if (act != ACT_DONE)
		r->ack.failing = act == ACT_TRANSIENT ? FAILING_TRANSIENT : FAILING_PERMANENT;
	if (act == ACT_BROKEN) {
		r->loaded = TARGET_HASH_NONE;
		w->ghost[i].is_proven = false;
		return is_change;
	}
	if (go->verb == VERB_VALIDATE) {
		r->health.target_hash = r->loaded;
		r->health.result = act == ACT_DONE ? RESULT_DONE : RESULT_FAILED;
		w->ghost[i].is_proven = act == ACT_DONE;
		return act != ACT_DONE || target_hash_eq(&go->target_hash, &r->loaded);
	}
	if (act == ACT_DONE && go->verb == VERB_STAGE) {
		r->store[1] = r->store[0];
		r->store[0] = go->target_hash;
	} else if (act == ACT_DONE) {
		r->loaded = go->target_hash;
		w->ghost[i].is_proven = false;
	}
	return true;
}

// Several nodes answer at once before a drain: what comes of everything else is gone through with one.
static void answer_at_once(struct world *w, unsigned i)
{
	const struct record *r = &w->m[i].record;
	bool is_before = r->phase == PHASE_QUEUED || r->phase == PHASE_CORDONED || r->phase == PHASE_WAITING;
	if (w->nodes > 1 && is_before && r->go.verb == VERB_STAGE)
		answer(w, i, ACT_DONE);
}

static bool people(struct world *w, unsigned i, enum act act)
{
	struct node_state *m = &w->m[i];
	struct record empty = { 0 };
	if (!w->people)
		return false;
	w->people--;
	switch (act) {
	case ACT_HALT_RESUME:
		w->rollout.is_halted = !w->rollout.is_halted;
		w->rollout.halt.code = w->rollout.is_halted ? REASON_POOL_FAILURES : REASON_NONE;
		w->rollout.resumed = NOW;
		return true;
	case ACT_PAUSE:
		w->is_paused = !w->is_paused;
		return true;
	case ACT_DROP_LEASE:
		memset(w->slot, 0, sizeof(w->slot));
		return true;
	case ACT_RETARGET:
		return !w->is_retargeted++;
	case ACT_CORDON: // over ours nobody can see it, nor where ours was gone for a moment (T24)
		if (m->facts.is_unschedulable)
			return false;
		m->facts.is_unschedulable = true;
		w->ghost[i].owner = w->ghost[i].owner == UNSEEN ? 1 : 2;
		return true;
	case ACT_UNCORDON:
		if (!m->facts.is_unschedulable)
			return false;
		m->facts.is_unschedulable = false;
		w->ghost[i].owner = w->ghost[i].owner == 1 ? UNSEEN : 0;
		return true;
	case ACT_DROP_LABEL:
		m->record.has_phase = false;
		m->record.phase = PHASE_IDLE;
		return true;
	case ACT_DROP_RECEIPT:
		m->record.receipt = empty.receipt;
		w->ghost[i].owner = m->facts.is_unschedulable ? 2 : 0;
		return true;
	case ACT_DROP_GO:
		m->record.go = empty.go;
		return true;
	case ACT_DROP_ALL:
		m->record = empty;
		w->ghost[i] = (struct ghost){ .owner = m->facts.is_unschedulable ? 2 : 0 };
		return true;
	case ACT_RETRY:
		w->nonce++;
		m->facts.retry = w->nonce;
		return w->nonce < 4;
	case ACT_SKIP:
		m->facts.is_skipped = !m->facts.is_skipped;
		return true;
	case ACT_READY:
		m->facts.is_ready = !m->facts.is_ready;
		return true;
	default:
		m->record.malformed = 1;
		m->record.phase = PHASE_UNKNOWN;
		return true;
	}
}

static bool environment(struct world *w, unsigned i, enum act act)
{
	struct report *r = &w->m[i].report;
	struct node_facts *f = &w->m[i].facts;
	switch (act) {
	case ACT_HOLD:
		if (r->holders || !target_hash_is_set(&r->loaded))
			return false;
		r->holders = f->seen.pods = 1;
		return true;
	case ACT_LEAVE:
		if (!r->holders)
			return false;
		r->holders = f->seen.pods = 0;
		f->seen.blocked_since = 0;
		return true;
	case ACT_BLOCK:
		if (f->seen.blocked_since || !f->seen.pods || w->m[i].record.phase != PHASE_EVICTING)
			return false;
		f->seen.blocked_since = NOW;
		return true;
	case ACT_REBOOT:
		if (!target_hash_is_set(&r->loaded))
			return false;
		r->loaded = TARGET_HASH_NONE;
		r->health.result = RESULT_NONE;
		r->health.target_hash = TARGET_HASH_NONE;
		r->holders = f->seen.pods = 0;
		f->seen.blocked_since = 0;
		w->ghost[i].is_proven = false;
		return true;
	default: // last-good, without asking anybody; its health is the result of a probe
		if (target_hash_is_set(&r->loaded))
			return false;
		r->loaded = sides[OLD];
		r->health.target_hash = r->loaded;
		r->health.result = RESULT_DONE;
		w->ghost[i].is_proven = true;
		return true;
	}
}

// false: the act is not possible in this world.
static bool act_on(struct world *w, enum act act, unsigned i)
{
	struct decision d;
	switch (act) {
	case ACT_LEDGER:
		return write_ledger(w);
	case ACT_TICK:
		pass_time(w);
		return true;
	case ACT_DECIDE:
		decide(w, i, &d);
		if (!check_decision(w, i, &d) || !d.rule)
			return *violation != '\0';
		apply(w, i, &d);
		answer_at_once(w, i);
		return true;
	case ACT_ACCEPT:
	case ACT_DONE:
	case ACT_TRANSIENT:
	case ACT_PERMANENT:
	case ACT_BROKEN:
		return answer(w, i, act);
	case ACT_HOLD:
	case ACT_LEAVE:
	case ACT_BLOCK:
	case ACT_REBOOT:
	case ACT_BOOT_LOAD:
		return environment(w, i, act);
	default:
		return people(w, i, act);
	}
}
