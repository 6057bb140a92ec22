// SPDX-License-Identifier: Apache-2.0
// One decision a row: a node as it is found, and what has to become of it. The names begin with the scenarios of
// upgrade-design 3 (tests/cluster/scenarios.md). Rows stand in .def files, in the words below.
#pragma once
#include "cluster/rollout/rules_internal.h"
#include "cluster/rollout/transition.h"
#include "tests/unit/test.h"

#define NOW INT64_C(1800000000)
enum { NOTHING, OLD, NEW, OTHER };
static const struct target_hash sides[] = { { 0 }, { 1, 0 }, { 2, 0 }, { 3, 0 } };

struct row {
	const char *name;
	enum node_phase phase;
	bool unlabelled;
	int loaded, target, goal, failed, previous, stable, health; // sides; target and goal: NEW unless said
	bool unstaged, foreign_module, mute;
	bool receipt, prior, touched, waited, cordoned; // receipt: and the cordon, unless is_open
	bool is_open;
	unsigned again, attempts, tries;
	enum verb go;
	enum result answer;
	bool is_older, is_newer; // the answer: to an order before this one, or after it
	enum failing failing;
	int ago, ordered; // seconds since the state began, and since the order was repeated
	bool late, deadlineless;
	enum slot slot;
	int holders, pods;
	int blocked;     // seconds
	unsigned window; // minutes that it is open yet; 0 = there is none
	enum reason_code was, refused;
	bool retry, skip, not_ready, no_pool, halted, aborted, revoked, keep, foreign, node_paused, is_paused_operands;
	enum on_timeout on_timeout;
	enum on_halt on_halt;
	// what has to follow
	enum node_phase next;    // unless nothing is written
	enum reason_code reason; // of the record, or of what is waited for
	enum verb order;
	enum cordon cordon;
	bool nothing;   // no write at all
	int now_failed; // side
	bool evicts;
	bool takes_back; // the order; without it only where the node is done
	bool gives_back; // paused operands and receipt
	// of a row of check_said()
	void (*more)(struct view *v); // what is found besides; NULL = nothing
	const char *said;             // what has to follow
};

// clang-format off
// A .def file: circumstances that rows name by AND(), then TABLE(name), rows and END; TEST(name, check_...) runs them.
#define MORE(name, ...) static void name(struct view *v) { (void)v; __VA_ARGS__; }
#define TABLE(name) static const struct row name##_rows[] = {
#define ROW(name_, ...) { .name = name_, __VA_ARGS__ },
#define END };
#define TEST(name, check_) static void name(void **state) { (void)state; check_(name##_rows, ARRAY_SIZE(name##_rows)); }

// What is found. A word pastes what it is given, since CORDONED alone is one, too.
#define AT(phase_) .phase = PHASE_##phase_
#define UNLABELLED .unlabelled = true
#define LOADED(side) .loaded = side
#define TARGET(side) .target = side
#define GOAL(side) .goal = side
#define HAS_FAILED(side) .failed = side
#define PREVIOUS(side) .previous = side
#define STABLE(side) .stable = side
#define HEALTHY(side) .health = side
#define UNSTAGED .unstaged = true
#define FOREIGN_MODULE .foreign_module = true
#define MUTE .mute = true
#define RECEIPT .receipt = true
#define OURS RECEIPT, SLOT(WORK), PREVIOUS(OLD)
#define PRIOR .prior = true // it was cordoned before us
#define TOUCHED .touched = true
#define WAITED .waited = true
#define CORDONED .cordoned = true
#define OPEN .is_open = true // somebody uncordoned it
#define AGAIN(times) .again = times
#define ATTEMPTS(times) .attempts = times
#define TRIES(times) .tries = times
#define GO(verb_) .go = VERB_##verb_
#define ANSWER(result_) .answer = RESULT_##result_
#define FAILS(failing_) ANSWER(FAILED), .failing = FAILING_##failing_
#define ASKED GO(STAGE)
#define HEARD ASKED, ANSWER(DONE) // a moment ago
#define CHANGING(phase_, verb_) .phase = PHASE_##phase_, OURS, TOUCHED, ATTEMPTS(1), .go = VERB_##verb_
#define NEWER .is_newer = true // is the answer than the order
#define AGO(seconds) .ago = seconds
#define ORDERED(seconds) .ordered = seconds
#define LATE .late = true
#define NO_DEADLINE .deadlineless = true
#define SLOT(slot_) .slot = SLOT_##slot_
#define HOLDERS(count) .holders = count
#define PODS(count) .pods = count
#define BLOCKED(seconds) .blocked = seconds
#define WINDOW(minutes) .window = minutes
#define WAS(reason_) .was = REASON_##reason_
#define REFUSED(reason_) .refused = REASON_##reason_
#define RETRY .retry = true
#define SKIP .skip = true
#define NOT_READY .not_ready = true
#define NO_POOL .no_pool = true
#define HALTED .halted = true
#define ABORTED .aborted = true
#define REVOKED .revoked = true
#define KEEP .keep = true // its cordon
#define FOREIGN .foreign = true
#define PAUSED .node_paused = true
#define OPERANDS_PAUSED .is_paused_operands = true
#define ON_TIMEOUT(timeout_) .on_timeout = TIMEOUT_##timeout_
#define ON_HALT(halt_) .on_halt = HALT_##halt_
// What has to follow: another state, or no write at all and what is waited for.
#define TO(phase_) .next = PHASE_##phase_
#define FOR(reason_) .reason = REASON_##reason_
#define STAYS(reason_) .nothing = true, .reason = REASON_##reason_
#define ORDERS(verb_) .order = VERB_##verb_
#define CORDON(cordon_) .cordon = CORDON_##cordon_
#define NOW_FAILED(side) .now_failed = side
#define EVICTS .evicts = true
#define TAKES_BACK .takes_back = true
#define GIVES_BACK .gives_back = true
// clang-format on

static struct pool pool;
static struct rollout rollout;
static struct node_state m;

static void describe(const struct row *w)
{
	struct record *r = &m.record;
	node_state_init(&m, "n", "u");
	r->phase = w->phase;
	r->has_phase = !w->unlabelled;
	r->seq = (struct seq){ 1, 10 };
	if (!w->unlabelled || w->receipt || w->slot)
		r->target = sides[w->target ? w->target : NEW];
	r->failed = sides[w->failed];
	r->previous = sides[w->previous];
	r->attempts = (uint16_t)w->attempts;
	r->tries = (uint16_t)w->tries;
	r->since = NOW - w->ago;
	r->ordered = w->ordered ? NOW - w->ordered : 0;
	r->reason.code = w->was;
	r->paused = w->is_paused_operands;
	if (node_phase_info(w->phase)->span != SPAN_NONE && !w->deadlineless)
		r->deadline = w->late ? NOW : NOW + 60;
	if (w->receipt)
		r->receipt = (struct receipt){ .is_there = true,
					       .prior = w->prior,
					       .touched = w->touched,
					       .waited = w->waited,
					       .again = (uint8_t)w->again,
					       .until = NOW + 1800 };
	bool is_back = w->phase == PHASE_RESTORING || w->go == VERB_RESTORE;
	if (w->go)
		r->go = (struct order){ { 1, 9 }, w->go, is_back ? r->previous : r->target };
	if (w->answer) {
		m.report.ack.seq = w->is_older ? (struct seq){ 1, 8 } : w->is_newer ? (struct seq){ 1, 10 } : r->go.seq;
		m.report.ack.verb = w->go;
	}
	m.report.ack.result = w->answer;
	m.report.ack.failing = w->failing;
	m.report.has_loaded = !w->mute;
	m.report.is_foreign = w->foreign_module;
	m.report.loaded = sides[w->loaded];
	m.report.store[0] = w->unstaged ? TARGET_HASH_NONE : sides[NEW];
	m.report.holders = w->holders;
	m.report.health.target_hash = sides[w->health];
	m.report.health.result = w->health ? RESULT_DONE : RESULT_NONE;
	m.facts = (struct node_facts){ .is_unschedulable = w->cordoned || (w->receipt && !w->is_open),
				       .is_ready = !w->not_ready,
				       .is_skipped = w->skip,
				       .is_paused = w->node_paused,
				       .keeps_cordon = w->keep,
				       .is_foreign = w->foreign,
				       .retry = w->retry,
				       .seen = { .stay = node_state_stay(&m),
						 .pods = w->pods,
						 .blocked_since = w->blocked ? NOW - w->blocked : 0,
						 .blocker.code = w->blocked ? REASON_PDB_BLOCKED : REASON_NONE } };
}

static struct view view_of(const struct row *w)
{
	static struct window open;
	pool = (struct pool){
		.name = "gpu", .attempts = 2, .drain_attempts = 5, .on_timeout = w->on_timeout, .on_halt = w->on_halt
	};
	memcpy(pool.spans, span_defaults, sizeof(pool.spans));
	open = (struct window){ 0x7f, 7 * 60, 8 * 60 + w->window }; // NOW is 8 o'clock
	pool.windows = &open;
	pool.window_count = w->window > 0;
	rollout = (struct rollout){ .target = sides[w->goal ? w->goal : NEW],
				    .stable = sides[w->stable],
				    .is_halted = w->halted,
				    .is_aborted = w->aborted };
	describe(w);
	return (struct view){ .m = &m,
			      .pool = w->no_pool ? NULL : &pool,
			      .rollout = w->no_pool ? NULL : &rollout,
			      .slot = w->slot,
			      .refused = w->refused,
			      .is_revoked = w->revoked,
			      .wave = "rest",
			      .epoch = 1,
			      .now = NOW };
}

static inline void check(const struct row *w)
{
	struct decision d;
	struct view v = view_of(w);
	transition(&v, &d);
	bool is_new = node_seq_cmp(d.next.go.seq, m.record.go.seq) > 0;
	enum reason_code why = d.rule ? d.next.reason.code : d.waits.code;
	enum verb order = is_new ? d.next.go.verb : VERB_NONE;
	if (d.next.phase != (w->nothing ? w->phase : w->next) || why != w->reason || order != w->order ||
	    d.cordon != w->cordon || (d.rule == NULL) != w->nothing || d.evicts != w->evicts)
		fail_msg("%s: %s, %s, order %s, cordon %d, evicts %d, by rule '%s'", w->name,
			 node_phase_info(d.next.phase)->name, node_reason_info(why)->code, verb_names[order],
			 (int)d.cordon, d.evicts, d.rule ? d.rule->text : "none");
	if (w->gives_back)
		expect(m.record.paused && !d.next.paused && !d.next.receipt.is_there, w->name);
	if (w->now_failed)
		expect(target_hash_eq(&d.next.failed, &sides[w->now_failed]), w->name);
	expect(!d.rule || node_seq_cmp(d.next.seq, m.record.seq) > 0, w->name);
	expect(node_phase_info(d.next.phase)->span == SPAN_NONE || d.next.deadline > 0, w->name);
	bool is_over = d.next.phase == PHASE_IDLE || d.next.phase == PHASE_FAILED;
	is_over |= w->takes_back;
	// An agent that comes back finds no order but to validate, whose answer is what is waited for.
	expect(!d.rule || !is_over || d.next.go.verb == VERB_NONE ||
		       (w->reason == REASON_AGENT_SILENT && d.next.go.verb == VERB_VALIDATE),
	       w->name);
	expect(d.next.phase == PHASE_STAGING || d.next.phase == PHASE_QUEUED ||
		       node_phase_info(d.next.phase)->is_disruptive || d.next.phase == PHASE_FAILED ||
		       (!d.next.paused && !d.next.receipt.is_there),
	       w->name);
}

static inline void check_steps(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check(&rows[i]);
}
