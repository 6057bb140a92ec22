// SPDX-License-Identifier: Apache-2.0
// What `rollout why` and `rollout status` say beside the state: what the deadline will bring, whose the cordon is, how
// the last drain ended, and which row decided. They are read before somebody intervenes, so each has to be true.
#include "cluster/rollout/explain.h"

#include "cluster/rollout/scheduler_internal.h"
#include "tests/unit/test.h"

#define NOW INT64_C(1800000000)
static const struct target_hash old = { 1, 0 }, target = { 2, 0 };

static const char CALLED_OFF[] = "the drain is cancelled, and the node returns to service";
static const struct {
	enum node_phase phase;
	bool waited;
	enum on_wait_timeout on_wait;
	enum on_timeout on_timeout;
	const char *text;
} deadlines[] = {
	{ PHASE_IDLE, false, WAIT_EVICT, TIMEOUT_RELEASE, "" },
	{ PHASE_STAGING, false, WAIT_EVICT, TIMEOUT_RELEASE,
	  "the target is staged again, or the node is held; no workload is disturbed" },
	{ PHASE_QUEUED, false, WAIT_EVICT, TIMEOUT_RELEASE, "" },
	{ PHASE_LOADING, false, WAIT_EVICT, TIMEOUT_RELEASE, "the node is held without a driver" },
	{ PHASE_CORDONED, false, WAIT_EVICT, TIMEOUT_RELEASE, CALLED_OFF },
	{ PHASE_WAITING, false, WAIT_EVICT, TIMEOUT_RELEASE, "the wait is over: the jobs are evicted, too" },
	{ PHASE_WAITING, false, WAIT_RELEASE, TIMEOUT_RELEASE, CALLED_OFF },
	{ PHASE_WAITING, true, WAIT_EVICT, TIMEOUT_RELEASE, CALLED_OFF }, // and it is over once only
	{ PHASE_EVICTING, false, WAIT_EVICT, TIMEOUT_RELEASE,
	  "the drain is cancelled, the node returns to service, and it is tried again later" },
	{ PHASE_EVICTING, false, WAIT_EVICT, TIMEOUT_HOLD,
	  "the node fails and stays cordoned, with the driver that it has" },
	{ PHASE_REPLACING, false, WAIT_EVICT, TIMEOUT_RELEASE, "the previous driver is restored" },
	{ PHASE_VALIDATING, false, WAIT_EVICT, TIMEOUT_RELEASE, "the previous driver is restored" },
	{ PHASE_RESTORING, false, WAIT_EVICT, TIMEOUT_RELEASE, "the node fails and stays cordoned" },
	{ PHASE_DONE, false, WAIT_EVICT, TIMEOUT_RELEASE, "" },
	{ PHASE_UNKNOWN, false, WAIT_EVICT, TIMEOUT_RELEASE, "" },
};

static void texts_of_deadlines(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(deadlines); i++) {
		struct node_state m;
		struct pool pool = { .on_timeout = deadlines[i].on_timeout, .on_wait_timeout = deadlines[i].on_wait };
		node_state_init(&m, "n", "u");
		m.record.phase = deadlines[i].phase;
		m.record.receipt.waited = deadlines[i].waited;
		expect(str_eq(explain_deadline(&(struct view){ .m = &m, .pool = &pool }), deadlines[i].text),
		       node_phase_info(deadlines[i].phase)->name);
		expect(str_eq(explain_deadline(&(struct view){ .m = &m }), ""),
		       node_phase_info(deadlines[i].phase)->name);
	}
}

// What is said is what happens: each text beside what the rules do when the time is over.
static void the_texts_match_the_rules(void **state)
{
	(void)state;
	static const struct {
		enum on_wait_timeout on_wait;
		bool waited;
		enum node_phase phase;
		enum on_timeout on_timeout;
		enum node_phase next;
		const char *words;
	} rows[] = {
		{ WAIT_EVICT, false, PHASE_WAITING, TIMEOUT_RELEASE, PHASE_WAITING, "evicted, too" },
		{ WAIT_EVICT, true, PHASE_WAITING, TIMEOUT_RELEASE, PHASE_RELEASING, "returns to service" },
		{ WAIT_RELEASE, false, PHASE_WAITING, TIMEOUT_RELEASE, PHASE_RELEASING, "returns to service" },
		{ WAIT_EVICT, false, PHASE_EVICTING, TIMEOUT_RELEASE, PHASE_RELEASING, "returns to service" },
		{ WAIT_EVICT, false, PHASE_EVICTING, TIMEOUT_HOLD, PHASE_FAILED, "fails and stays cordoned" },
		{ WAIT_EVICT, false, PHASE_REPLACING, TIMEOUT_RELEASE, PHASE_RESTORING, "is restored" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_state m;
		struct decision d;
		struct pool pool = { .name = "gpu",
				     .attempts = 2,
				     .drain_attempts = 5,
				     .wait_for = (char *)(uintptr_t) "job=batch",
				     .on_timeout = rows[i].on_timeout,
				     .on_wait_timeout = rows[i].on_wait };
		struct rollout rollout = { .target = target, .stable = old };
		memcpy(pool.spans, span_defaults, sizeof(pool.spans));
		node_state_init(&m, "n", "u");
		m.record = (struct record){ .phase = rows[i].phase,
					    .has_phase = true,
					    .seq = { 1, 10 },
					    .target = target,
					    .previous = old,
					    .since = NOW - 7200,
					    .deadline = NOW - 1,
					    .receipt = { .is_there = true,
							 .waited = rows[i].waited,
							 .touched = rows[i].phase == PHASE_REPLACING,
							 .until = NOW + 3600 } };
		m.report = (struct report){ .has_loaded = true, .loaded = old, .store = { target }, .holders = 1 };
		if (rows[i].phase == PHASE_REPLACING) {
			m.record.go = (struct order){ { 1, 9 }, VERB_REPLACE, target };
			m.report.ack.seq = m.record.go.seq;
			m.report.ack.verb = VERB_REPLACE;
			m.report.ack.result = RESULT_ACCEPTED;
		}
		m.facts = (struct node_facts){ .is_ready = true, .is_unschedulable = true };
		m.facts.seen = (struct pods_seen){ .stay = node_state_stay(&m),
						   .pods = 1,
						   .jobs = rows[i].phase == PHASE_WAITING };
		struct view v = { .m = &m,
				  .pool = &pool,
				  .rollout = &rollout,
				  .slot = rows[i].phase == PHASE_WAITING ? SLOT_WAIT : SLOT_WORK,
				  .wave = "rest",
				  .epoch = 1,
				  .now = NOW };
		transition(&v, &d);
		auto_str char *row = str_fmt("row %zu: %s by '%s': %s", i, node_phase_info(d.next.phase)->name,
					     d.rule ? d.rule->text : "", explain_deadline(&v));
		expect(d.next.phase == rows[i].next && strstr(explain_deadline(&v), rows[i].words), row);
	}
}

static void owner_of_the_cordon(void **state)
{
	(void)state;
	static const struct {
		bool is_cordoned, has_receipt, prior;
		const char *whose;
	} rows[] = {
		{ false, false, false, "none" },
		{ false, true, false, "none" }, // somebody took it away
		{ true, true, false, "ours" },
		{ true, true, true, "somebody else's" }, // and it stays when we are through
		{ true, false, false, "somebody else's" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_state m = { .facts.is_unschedulable = rows[i].is_cordoned,
					.record.receipt = { .is_there = rows[i].has_receipt, .prior = rows[i].prior } };
		assert_string_equal(explain_cordon(&m), rows[i].whose);
	}
}

static void how_the_last_drain_ended(void **state)
{
	(void)state;
	static const struct {
		enum node_phase phase;
		enum reason_code was;
		bool has_receipt;
		enum reason_code last;
	} rows[] = {
		{ PHASE_IDLE, REASON_DRAIN_TIMEOUT, false, REASON_DRAIN_TIMEOUT },
		{ PHASE_STAGING, REASON_PDB_DEADLOCK, false, REASON_PDB_DEADLOCK },
		{ PHASE_QUEUED, REASON_HOLDER_PROTECTED, false, REASON_HOLDER_PROTECTED },
		{ PHASE_QUEUED, REASON_STAGE_FAILED, false, REASON_STAGE_FAILED },
		{ PHASE_STAGING, REASON_STAGE_FAILED, false, REASON_NONE }, // that is of the staging, and no drain's
		{ PHASE_QUEUED, REASON_DRAIN_TIMEOUT, true, REASON_NONE },  // it is not over
		{ PHASE_EVICTING, REASON_PDB_BLOCKED, false, REASON_NONE },
		{ PHASE_DONE, REASON_DRAIN_TIMEOUT, false, REASON_NONE },
		{ PHASE_HELD, REASON_DRAIN_GIVEN_UP, false, REASON_NONE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_state m = { .record = { .phase = rows[i].phase,
						    .reason = { rows[i].was, "web-0" },
						    .receipt.is_there = rows[i].has_receipt } };
		struct reason last = explain_last_drain(&m);
		auto_str char *row = str_fmt("row %zu: %s", i, node_reason_info(last.code)->code);
		expect(last.code == rows[i].last, row);
		expect(str_eq(last.object, rows[i].last == REASON_NONE ? "" : "web-0"), row);
	}
}

// The rules in their order, up to the one that is taken: what stands behind it was not asked.
static void rules_are_shown_up_to_the_one_that_applies(void **state)
{
	(void)state;
	struct node_state m;
	struct pool pool = { .name = "gpu", .attempts = 2, .drain_attempts = 5 };
	struct rollout rollout = { .target = target, .stable = old };
	memcpy(pool.spans, span_defaults, sizeof(pool.spans));
	for (enum node_phase phase = 0; phase < PHASE_COUNT; phase++)
		for (int slot = SLOT_NONE; slot <= SLOT_WORK; slot++) {
			struct explain_row rows[EXPLAIN_MOST];
			struct decision d;
			const char *name = node_phase_info(phase)->name;
			node_state_init(&m, "n", "u");
			m.record.phase = phase;
			m.record.has_phase = true;
			m.record.target = target;
			m.report = (struct report){ .has_loaded = true, .loaded = old, .store = { target } };
			m.facts.is_ready = true;
			struct view v = { .m = &m,
					  .pool = &pool,
					  .rollout = &rollout,
					  .slot = (enum slot)slot,
					  .wave = "rest",
					  .now = NOW };
			size_t count = explain_rules(&v, rows);
			transition(&v, &d);
			const struct rule *r = NULL;
			for (size_t i = 0; i < count; i++) {
				r = transition_next_rule(r, phase);
				expect(r && str_eq(rows[i].text, r->text), name);
				expect(rows[i].holds == (i + 1 == count && r->when(&v)), name);
				expect(rows[i].reason == REASON_NONE && (d.rule != r || rows[i].holds), name);
			}
			// One without a step leaves the node alone.
			expect(rows[count - 1].holds || transition_next_rule(r, phase) == NULL, name);
			expect(!d.rule || d.rule == r, name);
		}
}

// What a slot asks for: each row with its own answer, also behind the first that refuses.
static void rows_of_a_slot_are_answered_one_by_one(void **state)
{
	(void)state;
	struct node_state m[2];
	struct pool pool = { .name = "gpu",
			     .terms = 1,
			     .parallel = { 1, false },
			     .unavailable = { 1, false },
			     .attempts = 2,
			     .breaker_percent = 50,
			     .breaker_row = 3,
			     .target.target_hash = target };
	struct policy policy = { .parallel = { LIMIT_NONE, false },
				 .unavailable = { LIMIT_NONE, false },
				 .is_paused = true,
				 .pools = &pool,
				 .pool_count = 1 };
	struct rollout rollout = { .target = target, .stable = old };
	struct slot_ledger none = { 0 };
	memcpy(pool.spans, span_defaults, sizeof(pool.spans));
	for (int i = 0; i < 2; i++) {
		node_state_init(&m[i], i ? "b" : "a", i ? "ub" : "ua");
		m[i].record.phase = PHASE_QUEUED;
		m[i].record.has_phase = true;
		m[i].record.target = target;
		m[i].report = (struct report){ .has_loaded = true, .loaded = old, .store = { target } };
		assert_true(gpu_report_parse("7/8 535.1 X 0000:3b:00.0=gone", &m[i].report.gpus));
		m[i].facts.is_unschedulable = true;
		m[i].facts.terms = i == 0;
	}
	struct cluster c = {
		.policy = &policy, .rollouts = &rollout, .nodes = m, .count = 2, .ledger = &none, .epoch = 1, .now = NOW
	};
	auto_slots struct slots slots = SLOTS_NONE;
	scheduler_plan(&c, &slots);
	static const enum reason_code want[] = { REASON_NONE,       REASON_PAUSED,    REASON_NONE,
						 REASON_NONE,       REASON_NOT_READY, REASON_FOREIGN_CORDON,
						 REASON_GPU_BROKEN, REASON_NONE,      REASON_NONE };
	struct explain_row rows[EXPLAIN_MOST];
	size_t count = explain_slot(&c, &slots, 0, rows);
	assert_int_equal(count, ARRAY_SIZE(want));
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(rows[i].text, refusals[i].text);
		expect(rows[i].reason == want[i] && rows[i].holds == (want[i] == REASON_NONE), rows[i].text);
	}
	// Without a pool there is one answer to all of them.
	count = explain_slot(&c, &slots, 1, rows);
	assert_int_equal(count, ARRAY_SIZE(want));
	for (size_t i = 0; i < count; i++)
		expect(!rows[i].holds && rows[i].reason == REASON_POLICY_GONE, rows[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_of_deadlines),
		cmocka_unit_test(the_texts_match_the_rules),
		cmocka_unit_test(owner_of_the_cordon),
		cmocka_unit_test(how_the_last_drain_ended),
		cmocka_unit_test(rules_are_shown_up_to_the_one_that_applies),
		cmocka_unit_test(rows_of_a_slot_are_answered_one_by_one),
	};
	return cmocka_run_group_tests_name("why", tests, NULL, NULL);
}
