// SPDX-License-Identifier: Apache-2.0
// Who gets a slot: limits, waves, order, groups, breaker, each scenario of upgrade-design 3 that needs no more than
// that.
#include "tests/unit/rollout_line.h"

static void t50_in_flight_counts_before_grants(void **state)
{
	(void)state;
	expect_slots("evicting+ours+slot queued queued queued", "SS--");
	expect_slots("evicting+ours replacing+ours queued", "SS-"); // the ledger is gone (T60): rebuilt before anything
	expect_slots("queued+slot queued+slot queued", "SS-");
	assert_int_equal(slots.granted, 0);
	pools[0].parallel.value = 1; // T80: lowered below what is in flight: nothing is cancelled, nothing new begins
	expect_slots("evicting+ours+slot replacing+ours+slot queued", "SS-");
}

// Its pool was renamed while it was under way: it takes room of the pool that its labels name, and of the cluster.
static void in_flight_counts_wherever_its_pool_went(void **state)
{
	(void)state;
	static const struct {
		unsigned cluster;
		uint64_t terms; // of the pool; the node that is under way has none of them
		size_t granted;
	} rows[] = { { LIMIT_NONE, 0, 1 }, { LIMIT_NONE, 1, 2 }, { 2, 1, 1 } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		policy.parallel.value = rows[i].cluster;
		pools[0].terms = rows[i].terms;
		plan("evicting+ours+slot queued queued queued");
		memcpy(nodes[0].record.pool, "gone", 5);
		for (size_t n = 1; n < count; n++)
			nodes[n].facts.terms = 1;
		plan_again();
		assert_int_equal(slots.node_plans[0].pool, -1);
		assert_int_equal(slots.granted, rows[i].granted);
	}
}

static void t70_a_deleted_node_frees_its_slot(void **state)
{
	(void)state;
	plan("queued+slot");
	struct ledger_entry gone[] = { { .uid = "uid-gone", .slot = SLOT_WORK }, entries[0] };
	struct slot_ledger both = { gone, 2 };
	cluster.ledger = &both;
	plan_again();
	assert_int_equal(slots.freed, 1);
	assert_int_equal(slots.ledger.count, 1);
	assert_string_equal(slots.ledger.items[0].uid, "uid-0");
	expect_slots("done+slot failed+ours+slot queued", "--S"); // failed counts in U, not in the slots
}

static void t31_others_cordon_meanwhile(void **state) // R-E2
{
	(void)state;
	expect_slots("evicting+ours+slot idle+cordon queued", "S--");
	expect_refused("evicting+ours+slot idle+cordon queued", 2, REASON_LIMIT_UNAVAILABLE);
	expect_slots("queued idle+down", "S-"); // T72: others go on, it counts
	expect_slots("idle+down+skip idle+down+skip queued", "---");
}

static void t32_budget_used_by_others(void **state)
{
	(void)state;
	expect_refused("idle+cordon idle+down queued done", 2, REASON_BUDGET_OTHERS);
	assert_int_equal(slots.sums[0].blocked.code, REASON_BUDGET_OTHERS);
	assert_string_equal(slots.sums[0].blocked.object, "n0 n1");
	assert_false(slots.rollouts[0].is_halted);
}

static void t80_zero_is_pause(void **state)
{
	(void)state;
	pools[0].parallel.value = 0;
	expect_refused("queued queued", 0, REASON_PAUSED);
	setup(NULL);
	pools[0].unavailable = (struct limit){ 1, true };
	expect_slots("queued", "S"); // rounds to 0: at least 1
	setup(NULL);
	policy.parallel.value = 1;
	expect_slots("queued queued", "S-"); // the whole cluster's limit
}

static void t20_foreign_cordon(void **state) // R-E2
{
	(void)state;
	expect_refused("queued+cordon queued", 0, REASON_FOREIGN_CORDON);
	pools[0].foreign_cordon = CORDON_USE_FIRST;
	pools[0].unavailable.value = 1;
	expect_slots("queued+cordon queued", "S-"); // it costs no availability
}

static void order(void **state)
{
	(void)state;
	pools[0].parallel.value = pools[0].unavailable.value = 1;
	expect_slots("queued+me queued queued", "-S-"); // T78: the coordinator's own node last
	expect_slots("queued+busy queued", "-S");       // idle first
	expect_slots("queued queued+retry", "-S");
	expect_slots("queued+down queued", "--"); // the one that is down uses the budget
}

static void groups_go_as_one(void **state)
{
	(void)state;
	expect_slots("queued+ga queued+ga queued", "SS-");
	expect_refused("queued+ga idle+ga queued", 0, REASON_GROUP_INCOMPLETE);
	expect_slots("queued+ga idle+ga queued", "--S");
	expect_slots("queued+ga queued+ga queued+ga", "SSS"); // larger than the limits: alone
	expect_slots("queued+ga queued+ga queued+ga evicting+ours+slot", "---S");
	pools[0].overflow = OVERFLOW_HOLD;
	expect_refused("queued+ga queued+ga queued+ga queued", 0, REASON_GROUP_TOO_BIG);
	expect_slots("queued+ga queued+ga queued+ga queued", "---S");
}

static void zones_one_by_one(void **state)
{
	(void)state;
	policy.zone = (char *)(uintptr_t) "zone";
	pools[0].is_by_zone = true;
	expect_slots("queued+z2 queued+z1 queued+z2", "-S-");
	expect_slots("queued+z2+slot queued+z1 queued+z2", "S-S");
}

static void t06_deadlock(void **state)
{
	(void)state;
	plan("evicting+ours+slot+blocked evicting+ours+slot+blocked");
	assert_false(slots.node_plans[0].is_revoked);
	assert_true(slots.node_plans[1].is_revoked); // the youngest
	plan("evicting+ours+slot+blocked evicting+ours+slot");
	assert_false(slots.node_plans[0].is_revoked || slots.node_plans[1].is_revoked);
	plan("evicting+ours+slot+blocked queued");
	assert_false(slots.node_plans[0].is_revoked);
}

static void t03_breaker_says_who(void **state)
{
	(void)state;
	plan("done done done rolledback+failed queued done done done done done");
	assert_false(slots.rollouts[0].is_halted);
	pools[0].breaker_percent = 10;
	expect_refused("done done done rolledback+failed queued done done done done done", 4, REASON_HALTED);
	assert_int_equal(slots.rollouts[0].halt.code, REASON_POOL_FAILURES);
	assert_string_equal(slots.rollouts[0].halt.object, "n3");
	rollouts[0].resumed = NOW - 1; // they are forgiven
	expect_slots("done done done rolledback+failed queued done done done done done", "----S-----");
	rollouts[0].resumed = 0;
	pools[0].breaker_percent = 100;
	plan("done rolledback+failed rolledback+failed failed+ours+failed queued queued");
	assert_int_equal(slots.rollouts[0].halt.code, REASON_FAILURES_IN_A_ROW);
	plan("rolledback+failed rolledback+failed rolledback+failed done queued queued");
	assert_false(slots.rollouts[0].is_halted);
}

static void waves_open_one_after_the_other(void **state)
{
	(void)state;
	waves[0] = (struct wave){ .name = "canary", .count = 1, .soak = 600, .failures = 0, .done = 1 };
	waves[1] = (struct wave){ .name = "half", .percent = 50, .is_manual = true, .failures = LIMIT_NONE };
	pools[0].wave_count = 2;
	plan("queued queued queued queued");
	size_t canary = 0;
	while (slots.node_plans[canary].wave)
		canary++;
	assert_int_equal(slots.granted, 1);
	assert_int_equal(slots.node_plans[canary].has, SLOT_WORK);
	for (size_t i = 0; i < 4; i++)
		assert_true(i == canary || slots.node_plans[i].refused == REASON_WAVE_CLOSED);
	nodes[canary].record.phase = PHASE_DONE;
	nodes[canary].report.loaded = target;
	memcpy(nodes[canary].record.wave, "canary", 7);
	plan_again();
	assert_true(slots.rollouts[0].soak_since == NOW && slots.rollouts[0].wave == 0 && !slots.granted);
	rollouts[0].soak_since = NOW - 600; // the soak is over, the next wave waits for somebody
	plan_again();
	assert_int_equal(slots.rollouts[0].wave, 0);
	assert_int_equal(slots.sums[0].blocked.code, REASON_WAVE_APPROVAL);
	assert_string_equal(slots.sums[0].blocked.object, "half");
	for (size_t i = 0; i < 4; i++) {
		unsigned wave = slots.node_plans[i].wave;
		assert_true(i == canary ||
			    slots.node_plans[i].refused == (wave == 1 ? REASON_WAVE_APPROVAL : REASON_WAVE_CLOSED));
	}
	rollouts[0].approved = 1;
	plan_again();
	assert_int_equal(slots.rollouts[0].wave, 1);
	// One that was well and is ill while the wave soaks is a failure of it.
	nodes[canary].report.health.target_hash = target;
	nodes[canary].report.health.result = RESULT_FAILED;
	plan_again();
	assert_true(slots.rollouts[0].is_halted && slots.rollouts[0].halt.code == REASON_WAVE_FAILURES);
}

// A canary whose agent never spoke, that somebody else cordoned, or that no node is: nothing says that the target
// works.
static void a_wave_without_a_proof_stays_closed(void **state)
{
	(void)state;
	static const char *const lines[] = { "held queued queued", "queued+cordon queued queued",
					     "queued queued queued" };
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		waves[0] = (struct wave){ .name = "canary", .terms = 1, .failures = LIMIT_NONE, .done = 1 };
		pools[0].wave_count = 1;
		rollouts[0] = (struct rollout){ .target = target, .stable = old };
		plan(lines[i]);
		nodes[0].facts.terms = i < 2;
		plan_again();
		expect(slots.rollouts[0].wave == 0 && !slots.granted, lines[i]);
		expect(slots.node_plans[2].refused == REASON_WAVE_UNTESTED, lines[i]);
		expect(slots.sums[0].blocked.code == REASON_WAVE_UNTESTED, lines[i]);
		assert_string_equal(slots.sums[0].blocked.object, "canary");
		rollouts[0].approved = 1;
		plan_again();
		expect(slots.rollouts[0].wave == 1, lines[i]);
	}
}

static void t75_waves_do_not_shift_when_nodes_join(void **state)
{
	(void)state;
	unsigned before[8];
	waves[0] = (struct wave){ .name = "part", .percent = 40, .failures = LIMIT_NONE };
	pools[0].wave_count = 1;
	plan("queued queued queued queued queued queued queued queued");
	unsigned first = 0;
	for (size_t i = 0; i < 8; i++) {
		before[i] = slots.node_plans[i].wave;
		first += before[i] == 0;
	}
	assert_true(first > 0 && first < 8);
	plan("queued queued queued queued queued queued queued queued queued queued queued queued queued");
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(slots.node_plans[i].wave, before[i]);
	rollouts[0].frozen = 4; // budgets of the set that was there when it began
	pools[0].parallel = (struct limit){ 50, true };
	plan("queued queued queued queued queued queued queued queued");
	assert_int_equal(slots.sums[0].parallel_limit, 2);
}

// The draw is by hash, not by the order in which the API server lists nodes: a uid has the same luck in each place.
static void a_counted_wave_is_drawn_by_uid(void **state)
{
	(void)state;
	waves[0] = (struct wave){ .name = "canary", .count = 3, .failures = LIMIT_NONE };
	pools[0].wave_count = 1;
	plan("queued queued queued queued queued queued queued queued queued queued queued queued");
	bool is_drawn[12], is_first_three = true;
	for (size_t i = 0; i < 12; i++) {
		is_drawn[i] = slots.node_plans[i].wave == 0;
		is_first_three = is_first_three && is_drawn[i] == (i < 3);
	}
	assert_false(is_first_three);
	struct node_state reversed[12];
	for (size_t i = 0; i < 12; i++)
		reversed[i] = nodes[11 - i];
	cluster.nodes = reversed;
	plan_again();
	for (size_t i = 0; i < 12; i++)
		assert_int_equal(slots.node_plans[11 - i].wave == 0, is_drawn[i]);
}

static void stable_follows_the_last_wave(void **state)
{
	(void)state;
	plan("done done rolledback+failed done");
	assert_true(slots.rollouts[0].is_halted || target_hash_eq(&slots.rollouts[0].stable, &target));
	plan("done done done held");
	assert_true(target_hash_eq(&slots.rollouts[0].stable, &target)); // done and held: complete (T73)
	plan("done done done queued");
	assert_true(target_hash_eq(&slots.rollouts[0].stable, &old));
}

static void t60_a_lost_status_begins_halted(void **state)
{
	(void)state;
	rollouts[0] = (struct rollout){ 0 };
	plan("evicting+ours queued");
	assert_true(slots.rollouts[0].is_halted && slots.rollouts[0].halt.code == REASON_STATUS_LOST);
	assert_int_equal(slots.node_plans[1].refused, REASON_HALTED);
	cluster.has_status = true; // of other pools something is recorded: this one was renamed or split
	plan_again();
	assert_int_equal(slots.rollouts[0].halt.code, REASON_POOL_NEW);
	rollouts[0] = (struct rollout){ 0 };
	plan("idle idle");
	assert_false(slots.rollouts[0].is_halted);
	assert_int_equal(slots.rollouts[0].frozen, 2);
}

static void waiting_has_its_own_cap(void **state)
{
	(void)state;
	pools[0].wait_for = (char *)(uintptr_t) "job=batch";
	expect_slots("queued queued", "W-");
	expect_refused("queued queued", 1, REASON_LIMIT_WAITING);
	expect_slots("waiting+ours+wait evicting+ours+slot", "SS"); // no job is left: from the wait to the work
	pools[0].parallel.value = 1;
	expect_slots("waiting+ours+wait evicting+ours+slot", "WS");
}

static void jobs_are_waited_for_until_the_wait_is_over(void **state)
{
	(void)state;
	pools[0].wait_for = (char *)(uintptr_t) "job=batch";
	pools[0].waiting = pools[0].parallel.value = 3;
	expect_slots("waiting+ours+wait+jobs", "W");
	expect_slots("waiting+ours+wait waiting+ours+wait+unseen", "SW"); // at the other nobody has looked yet
	expect_slots("waiting+ours+wait+jobs+over", "S");
	expect_slots("waiting+ours+wait+unseen+over", "S");
	expect_slots("waiting+ours+slot waiting+ours+slot+unseen waiting+ours+slot+jobs+over waiting+ours+slot+jobs",
		     "SSSW");
	expect_slots("waiting+ours+wait+jobs waiting+ours+wait waiting+ours+wait+unseen", "WSW");
}

// Its way back to service is no disruption: it waits for no window, no pause and no room.
static void a_node_that_is_well_again_is_released(void **state)
{
	(void)state;
	struct window never = { .days = 0, .from = 0, .to = 60 };
	expect_slots("queued+ours+well", "S");
	policy.is_paused = true;
	expect_slots("queued+ours+well queued", "S-");
	policy.is_paused = false;
	pools[0].windows = &never;
	pools[0].window_count = 1;
	expect_slots("queued+ours+well queued+ours queued+well", "S--");
	pools[0].window_count = 0;
	pools[0].parallel.value = 0;
	expect_slots("queued+ours+well queued", "S-");
	pools[0].parallel.value = 1;
	expect_slots("replacing+ours+slot queued+ours+well queued", "S--"); // limits are limits
	expect_slots("queued queued+ours+well", "-S");                      // and others wait for it
	pools[0].parallel.value = 2;
	plan("queued+ours+well");
	nodes[0].facts.is_paused = true;
	plan_again();
	assert_int_equal(slots.node_plans[0].has, SLOT_WORK);
}

static void staging_has_its_own_number(void **state)
{
	(void)state;
	plan("staging idle idle idle");
	assert_int_equal(slots.node_plans[1].refused, REASON_NONE);
	assert_int_equal(slots.node_plans[2].refused, REASON_STAGING_FULL);
	policy.is_paused = true;
	plan("idle");
	assert_int_equal(slots.node_plans[0].refused, REASON_PAUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(t50_in_flight_counts_before_grants),
		T(in_flight_counts_wherever_its_pool_went),
		T(t70_a_deleted_node_frees_its_slot),
		T(t31_others_cordon_meanwhile),
		T(t32_budget_used_by_others),
		T(t80_zero_is_pause),
		T(t20_foreign_cordon),
		T(order),
		T(groups_go_as_one),
		T(zones_one_by_one),
		T(t06_deadlock),
		T(t03_breaker_says_who),
		T(waves_open_one_after_the_other),
		T(a_wave_without_a_proof_stays_closed),
		T(t75_waves_do_not_shift_when_nodes_join),
		T(a_counted_wave_is_drawn_by_uid),
		T(stable_follows_the_last_wave),
		T(t60_a_lost_status_begins_halted),
		T(waiting_has_its_own_cap),
		T(jobs_are_waited_for_until_the_wait_is_over),
		T(a_node_that_is_well_again_is_released),
		T(staging_has_its_own_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
