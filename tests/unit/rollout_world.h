// SPDX-License-Identifier: Apache-2.0
// A small world for the model check of the rollout: nodes with agents that answer in every way, people who interfere,
// a coordinator that does one thing at a time. A world packs into a few bytes without loss of what decisions can see:
// times as ticks before now, numbers of orders as "heard or not".
#pragma once
#include "cluster/rollout/node_patch.h"
#include "cluster/rollout/scheduler.h"

enum { NODES_MOST = 3, TICK = 60, LONG_AGO = 2, FAR_AHEAD = 6, SIDES = 4 };
#define NOW INT64_C(1800000000)

// What can be in a kernel: nothing, the old driver, the target, a later target.
static const struct target_hash sides[SIDES] = { { 0 }, { 1, 0 }, { 2, 0 }, { 3, 0 } };
enum { NOTHING, OLD, NEW, OTHER };
static const char *const node_names[NODES_MOST] = { "a", "b", "c" };

static unsigned side_of(const struct target_hash *target_hash)
{
	return (unsigned)target_hash->payload;
}

struct ghost {              // what only the checker knows of a node
	uint8_t owner;      // of the cordon: 0 nobody, 1 we, 2 somebody
	uint8_t is_touched; // an order that changes the driver was given under our cordon
	uint8_t is_proven;  // what is in the kernel passed a probe after that
	uint8_t orders;     // of the target since somebody allowed more
};
struct world {
	unsigned nodes;
	struct node_state m[NODES_MOST];
	enum slot slot[NODES_MOST];
	struct rollout rollout;
	struct ghost ghost[NODES_MOST];
	uint8_t people; // how often people and accidents may still interfere
	uint8_t nonce;  // of the last retry
	uint8_t is_paused, is_retargeted;
};

struct packed_node {
	uint8_t phase, flags, aims, aims2, go, ack, receipt, since, deadline, until, attempts, reason, outcome, seen,
		report, health, facts, blocked, ghost, ghost2, drains, ordered;
};
struct packed {
	struct packed_node n[NODES_MOST];
	uint8_t rollout[6];
};

// Ticks from t to now, or from now to t; whatever is further away is all the same.
static uint8_t ago(int64_t t)
{
	if (!t)
		return 0xff;
	int64_t ticks = (NOW - t) / TICK;
	return (uint8_t)((ticks > LONG_AGO ? LONG_AGO : ticks < -FAR_AHEAD ? -FAR_AHEAD : ticks) + FAR_AHEAD);
}
static int64_t then(uint8_t ago)
{
	return ago == 0xff ? 0 : NOW - (int64_t)((int)ago - FAR_AHEAD) * TICK;
}

static bool heard(const struct node_state *m)
{
	return node_seq_cmp(m->report.ack.seq, m->record.go.seq) == 0 && m->report.ack.verb == m->record.go.verb;
}

static struct packed_node pack_node(const struct world *w, unsigned i)
{
	const struct record *r = &w->m[i].record;
	const struct report *a = &w->m[i].report;
	const struct node_facts *f = &w->m[i].facts;
	const struct ghost *g = &w->ghost[i];
	return (struct packed_node){
		.phase = (uint8_t)r->phase,
		.flags = (uint8_t)(r->has_phase | (r->paused != 0) << 1 | (r->autoscaler != 0) << 2 |
				   (*r->pool != 0) << 3 | (r->malformed != 0) << 4 | (r->tries & 7) << 5),
		.aims = (uint8_t)(side_of(&r->target) | side_of(&r->stable) << 2 | side_of(&r->previous) << 4 |
				  side_of(&r->failed) << 6),
		.aims2 = (uint8_t)(side_of(&a->loaded) | side_of(&r->go.target_hash) << 2 | (*r->wave != 0) << 4 |
				   (r->seq.n != 0) << 5),
		.go = (uint8_t)((unsigned)r->go.verb | (r->go.seq.n != 0) << 4),
		.ack = heard(&w->m[i]) ? (uint8_t)((unsigned)a->ack.result | (unsigned)a->ack.failing << 2 | 16) : 0,
		.receipt = (uint8_t)(r->receipt.is_there | r->receipt.prior << 1 | r->receipt.touched << 2 |
				     r->receipt.waited << 3 | (unsigned)r->receipt.again << 4),
		.since = ago(r->since),
		.ordered = ago(r->ordered),
		.deadline = ago(r->deadline),
		.until = ago(r->receipt.until),
		.attempts = (uint8_t)r->attempts,
		.reason = (uint8_t)r->reason.code,
		.outcome = (uint8_t)r->outcome,
		.seen = (uint8_t)r->retry,
		.report = (uint8_t)(a->has_loaded | (unsigned)(a->holders + 2) << 1 | side_of(&a->store[0]) << 4 |
				    side_of(&a->store[1]) << 6),
		.health = (uint8_t)(side_of(&a->health.target_hash) | (unsigned)a->health.result << 2),
		.facts = (uint8_t)(f->is_unschedulable | f->is_ready << 1 | f->is_skipped << 2 | f->is_foreign << 3 |
				   (unsigned)(f->operands != 0) << 4 | (unsigned)(f->seen.pods + 1) << 5),
		.blocked = ago(f->seen.blocked_since),
		.ghost = (uint8_t)(g->owner | (unsigned)g->is_touched << 2 | (unsigned)g->is_proven << 3 |
				   (unsigned)w->slot[i] << 4 | (unsigned)f->retry << 6),
		.ghost2 = g->orders,
		.drains = (uint8_t)((unsigned)r->drains.failed | (unsigned)r->drains.repeated << 3 |
				    side_of(&r->drains.target_hash) << 6),
	};
}

static enum reason_code telling(const struct record *r)
{
	switch (r->reason.code) {
	case REASON_NONE:
	case REASON_FOREIGN_CONTROLLER:
	case REASON_RECEIPT_MISSING:
	case REASON_JOBS:
	case REASON_WAIT_OVER:
	case REASON_PDB_BLOCKED:
		return r->reason.code;
	case REASON_AGENT_SILENT:
		return r->phase == PHASE_HELD || r->phase == PHASE_FAILED ? r->reason.code : REASON_DRIFT;
	default:
		return REASON_DRIFT;
	}
}

// What no decision looks at in this state is the same in all worlds: worlds that differ only there are one.
static void normalise(struct world *w, unsigned i)
{
	struct record *r = &w->m[i].record;
	struct report *a = &w->m[i].report;
	bool is_held = r->phase == PHASE_HELD || r->phase == PHASE_QUEUED || r->phase == PHASE_CORDONED ||
		       r->phase == PHASE_EVICTING || r->phase == PHASE_FAILED || r->phase == PHASE_DONE ||
		       r->phase == PHASE_UNKNOWN;
	bool is_changing = r->phase >= PHASE_REPLACING && r->phase <= PHASE_RESTORING;
	r->reason.code = telling(r);
	if (is_held && !w->rollout.resumed && r->since && w->nodes == 1)
		r->since = NOW - TICK;
	// In the queue only an order that is not answered grows old. An answer does, too: in WAITING, of one node.
	bool is_open = r->go.verb != VERB_NONE && (!heard(&w->m[i]) || a->ack.result != RESULT_DONE);
	if (r->phase == PHASE_QUEUED && !is_open) {
		r->since = r->receipt.is_there || !r->since ? r->since : NOW - TICK;
		r->ordered = r->tries = 0;
	}
	if (r->ordered <= r->since)
		r->ordered = 0;
	if (!r->receipt.is_there)
		r->receipt = (struct receipt){ 0 };
	if (!r->receipt.is_there && !is_changing)
		r->previous = TARGET_HASH_NONE;
	if (r->phase != PHASE_EVICTING)
		w->m[i].facts.seen.blocked_since = 0;
	if (a->health.result == RESULT_NONE || !target_hash_eq(&a->health.target_hash, &a->loaded)) {
		a->health.target_hash = TARGET_HASH_NONE;
		a->health.result = RESULT_NONE;
	}
	if (a->store[0].payload < a->store[1].payload) {
		struct target_hash first = a->store[0];
		a->store[0] = a->store[1];
		a->store[1] = first;
	}
	if (target_hash_eq(&a->store[0], &a->store[1]))
		a->store[1] = TARGET_HASH_NONE;
	if (!w->ghost[i].is_touched)
		w->ghost[i].is_proven = 0;
	if (w->ghost[i].owner != 1)
		w->ghost[i].is_touched = w->ghost[i].is_proven = 0;
	memset(r->wave, 0, sizeof(r->wave));
	memset(r->pool, 0, sizeof(r->pool));
	r->seq.n = 10;
}

static struct packed pack(struct world *w)
{
	for (unsigned i = 0; i < w->nodes; i++)
		normalise(w, i);
	const struct rollout *r = &w->rollout;
	struct packed p = { .rollout = { (uint8_t)(side_of(&r->target) | side_of(&r->stable) << 2 |
						   (unsigned)r->is_halted << 4 | (unsigned)r->is_aborted << 5 |
						   (unsigned)w->is_paused << 6 | (unsigned)w->is_retargeted << 7),
					 (uint8_t)r->halt.code, (uint8_t)r->wave, ago(r->soak_since), ago(r->resumed),
					 (uint8_t)(w->people | w->nonce << 4) } };
	for (unsigned i = 0; i < w->nodes; i++)
		p.n[i] = pack_node(w, i);
	return p;
}

static void unpack_node(const struct packed_node *p, struct world *w, unsigned i)
{
	struct node_state *m = &w->m[i];
	char uid[] = { 'u', (char)('0' + i), '\0' };
	node_state_init(m, node_names[i], uid);
	m->record = (struct record){
		.phase = p->phase,
		.has_phase = p->flags & 1,
		.paused = p->flags >> 1 & 1,
		.autoscaler = p->flags & 4 ? 3 : 0,
		.malformed = p->flags >> 4 & 1,
		.tries = p->flags >> 5,
		.seq = { 1, p->aims2 & 32 ? 10 : 0 },
		.target = sides[p->aims & 3],
		.stable = sides[p->aims >> 2 & 3],
		.previous = sides[p->aims >> 4 & 3],
		.failed = sides[p->aims >> 6],
		.go = { { 1, p->go & 16 ? 5 : 0 }, p->go & 15, sides[p->aims2 >> 2 & 3] },
		.receipt = { p->receipt & 1, p->receipt >> 1 & 1, p->receipt >> 2 & 1, p->receipt >> 3 & 1,
			     p->receipt >> 4, then(p->until) },
		.since = then(p->since),
		.ordered = then(p->ordered),
		.deadline = then(p->deadline),
		.attempts = p->attempts,
		.reason.code = p->reason,
		.outcome = p->outcome,
		.retry = p->seen,
	};
	m->record.drains.failed = p->drains & 7;
	m->record.drains.repeated = p->drains >> 3 & 7;
	m->record.drains.target_hash = sides[p->drains >> 6];
	if (p->flags & 8)
		strncpy(m->record.pool, "gpu", 4);
	if (p->aims2 & 16)
		strncpy(m->record.wave, "rest", 5);
	m->report.has_loaded = p->report & 1;
	m->report.holders = (p->report >> 1 & 7) - 2;
	m->report.store[0] = sides[p->report >> 4 & 3];
	m->report.store[1] = sides[p->report >> 6];
	m->report.loaded = sides[p->aims2 & 3];
	m->report.health.target_hash = sides[p->health & 3];
	m->report.health.result = p->health >> 2;
	if (p->ack) {
		m->report.ack.seq = m->record.go.seq;
		m->report.ack.verb = m->record.go.verb;
		m->report.ack.result = p->ack & 3;
		m->report.ack.failing = p->ack >> 2 & 3;
	}
	m->facts.is_unschedulable = p->facts & 1;
	m->facts.is_ready = p->facts >> 1 & 1;
	m->facts.is_skipped = p->facts >> 2 & 1;
	m->facts.is_foreign = p->facts >> 3 & 1;
	m->facts.operands = p->facts >> 4 & 1;
	m->facts.seen = (struct pods_seen){ .pods = (p->facts >> 5) - 1, .blocked_since = then(p->blocked) };
	m->facts.retry = p->ghost >> 6;
	w->slot[i] = p->ghost >> 4 & 3;
	w->ghost[i] = (struct ghost){ p->ghost & 3, p->ghost >> 2 & 1, p->ghost >> 3 & 1, p->ghost2 };
}

static void unpack(const struct packed *p, unsigned nodes, struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->nodes = nodes;
	w->rollout = (struct rollout){
		.target = sides[p->rollout[0] & 3],
		.stable = sides[p->rollout[0] >> 2 & 3],
		.is_halted = p->rollout[0] >> 4 & 1,
		.is_aborted = p->rollout[0] >> 5 & 1,
		.halt.code = p->rollout[1],
		.wave = p->rollout[2],
		.soak_since = then(p->rollout[3]),
		.resumed = then(p->rollout[4]),
	};
	w->is_paused = p->rollout[0] >> 6 & 1;
	w->is_retargeted = p->rollout[0] >> 7;
	w->people = p->rollout[5] & 15;
	w->nonce = p->rollout[5] >> 4;
	for (unsigned i = 0; i < nodes; i++)
		unpack_node(&p->n[i], w, i);
}

// A tick: all times move away from now.
static void pass_time(struct world *w)
{
	for (unsigned i = 0; i < w->nodes; i++) {
		struct record *r = &w->m[i].record;
		int64_t *const times[] = { &r->since, &r->ordered, &r->deadline, &r->receipt.until,
					   &w->m[i].facts.seen.blocked_since };
		for (size_t t = 0; t < ARRAY_SIZE(times); t++)
			if (*times[t] && *times[t] > NOW - LONG_AGO * TICK)
				*times[t] -= TICK;
	}
	int64_t *const times[] = { &w->rollout.soak_since, &w->rollout.resumed };
	for (size_t t = 0; t < ARRAY_SIZE(times); t++)
		if (*times[t] && *times[t] > NOW - LONG_AGO * TICK)
			*times[t] -= TICK;
}
