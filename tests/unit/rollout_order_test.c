// SPDX-License-Identifier: Apache-2.0
// Who comes first, what a group costs, and what is said to those who get nothing. Scenarios: rollout_slots_test.
#include "cluster/rollout/scheduler_internal.h"
#include "tests/unit/rollout_line.h"

// One slot: the first of two lines' nodes has what counts for less, the second what counts for more.
static void admission_order(void **state)
{
	(void)state;
	static const struct {
		const char *why, *line, *want;
		bool has_zones;
	} rows[] = {
		{ "by name, if nothing else differs", "queued queued", "S-", false },
		{ "a recovery, before all others", "queued+retry queued+ours+well+vain+busy+me", "-S", false },
		{ "a node that waited for jobs, before a retry", "queued+retry waiting+ours+wait+vain", "-S", false },
		{ "an earlier wave, even after failed drains", "queued queued+A+vain", "-S", false },
		{ "no failed drains, before a retry", "queued+retry+vain queued", "-S", false },
		{ "a retry, before the coordinator's own node last", "queued queued+retry+me", "-S", false },
		{ "own node last, even after one that failed once", "queued+me queued+tried+busy", "-S", false },
		{ "no failures, even if it is busy", "queued+tried queued+busy", "-S", false },
		{ "idle first, whatever its zone", "queued+busy+z1 queued+z2", "-S", true },
		{ "zone by zone, whatever its name", "queued+z2 queued+z1", "-S", true },
		{ "zones without zoneLabel", "queued+z2 queued+z1", "S-", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		setup(NULL);
		waves[0] = (struct wave){ .name = "canary", .terms = 1, .failures = LIMIT_NONE };
		pools[0].wave_count = 1;
		rollouts[0].wave = 1;
		pools[0].parallel.value = 1;
		pools[0].unavailable.value = 9;
		policy.zone = rows[i].has_zones ? (char *)(uintptr_t) "zone" : NULL;
		plan(rows[i].line);
		expect_letters(rows[i].why, rows[i].want);
	}
}

// A drain in vain for another target says nothing about this one.
static void drains_of_another_target_do_not_count(void **state)
{
	(void)state;
	pools[0].parallel.value = 1;
	plan("queued+vain queued");
	nodes[0].record.drains.target_hash = old;
	plan_again();
	expect_letters("drained in vain for another target", "S-");
}

static void whoever_is_left_out_hears_which_limit(void **state)
{
	(void)state;
	static const struct {
		unsigned parallel, unavailable, all_parallel, all_unavailable;
		const char *line, *want;
		enum reason_code why; // of the last node
	} rows[] = {
		{ 9, 9, 9, 9, "queued queued", "SS", REASON_NONE },
		{ 2, 9, 9, 9, "queued queued queued", "SS-", REASON_LIMIT_PARALLEL },
		{ 9, 2, 9, 9, "queued queued queued", "SS-", REASON_LIMIT_UNAVAILABLE },
		{ 9, 9, 2, 9, "queued queued queued", "SS-", REASON_LIMIT_PARALLEL },
		{ 9, 9, 9, 2, "queued queued queued", "SS-", REASON_LIMIT_UNAVAILABLE },
		{ 9, 2, 9, 9, "idle+down queued queued", "-S-", REASON_LIMIT_UNAVAILABLE },
		{ 9, 2, 9, 9, "idle+down idle+cordon queued", "---", REASON_BUDGET_OTHERS },
		{ 9, 2, 9, 9, "idle+down idle+down idle+down queued", "----", REASON_BUDGET_OTHERS },
		{ 9, 1, 9, 9, "evicting+ours+slot queued", "S-", REASON_LIMIT_UNAVAILABLE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		setup(NULL);
		pools[0].parallel.value = rows[i].parallel;
		pools[0].unavailable.value = rows[i].unavailable;
		policy.parallel.value = rows[i].all_parallel;
		policy.unavailable.value = rows[i].all_unavailable;
		plan(rows[i].line);
		auto_str char *row = str_fmt("row %zu: %s", i, rows[i].line);
		expect_letters(row, rows[i].want);
		expect(slots.node_plans[count - 1].refused == rows[i].why, row);
		expect(slots.sums[0].blocked.code == rows[i].why, row);
	}
}

// Who keeps the budget: down or cordoned, of this pool, and not in our hands; as many names as there is room for.
static void those_who_keep_the_budget_are_named(void **state)
{
	(void)state;
	pools[0].terms = 1;
	pools[1].terms = 2;
	policy.pool_count = 2;
	pools[1].parallel.value = 0;
	expect_refused("evicting+ours+slot+A idle+down+A idle+A idle+cordon+A idle+down+B queued+A", 5,
		       REASON_BUDGET_OTHERS);
	assert_string_equal(slots.sums[0].blocked.object, "n1 n3");
	auto_str char *line = str_dup("queued+A");
	for (int i = 0; i < 60; i++)
		str_add(&line, " idle+down+A");
	pools[0].unavailable.value = 60;
	expect_refused(line, 0, REASON_BUDGET_OTHERS);
	const char *object = slots.sums[0].blocked.object;
	assert_true(str_starts(object, "n1 n2 n3 ") && strlen(object) < OBJECT_TEXT && strlen(object) > 80);
	assert_true(object[strlen(object) - 1] != ' ');
}

// A pool that has no room keeps no other one waiting, and the cluster's room is for all of them.
static void pools_do_not_wait_for_each_other(void **state)
{
	(void)state;
	static const struct {
		unsigned all;
		const char *line, *want;
	} rows[] = {
		{ LIMIT_NONE, "evicting+ours+slot+A evicting+ours+slot+A queued+A queued+B queued+B", "SS-SS" },
		{ 3, "evicting+ours+slot+A evicting+ours+slot+A queued+A queued+B queued+B", "SS-S-" },
		{ 2, "evicting+ours+slot+A queued+A queued+B", "SS-" },
	};
	pools[0].terms = 1;
	pools[1].terms = 2;
	policy.pool_count = 2;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		policy.parallel.value = rows[i].all;
		expect_slots(rows[i].line, rows[i].want);
	}
}

static void groups_and_what_they_cost(void **state)
{
	(void)state;
	static const struct {
		unsigned parallel, unavailable;
		const char *line, *want;
	} rows[] = {
		{ 2, 2, "queued+ga queued+ga", "SS" },
		{ 3, 3, "queued+ga queued+ga queued+gb queued+gb", "SS--" }, // b does not fit, and not half of it
		{ 3, 3, "queued+ga queued+ga queued+gb queued+gb queued", "SS---" }, // and no small one overtakes it
		{ 4, 4, "queued+ga queued+ga queued+gb queued+gb", "SSSS" },
		{ 1, 9, "queued+ga queued+ga+skip", "S-" }, // one of them never moves, and costs nothing
		{ 1, 9, "queued+ga done+ga+well", "S-" },   // one of them is there
		{ 2, 9, "queued+ga+slot queued+ga", "SS" }, // one of them has begun: the other one follows
		{ 1, 9, "queued+ga+slot queued+ga", "S-" },
		{ 9, 9, "queued+ga staging+ga", "--" }, // one of them is not ready to go
		{ 9, 9, "queued+ga queued+ga+down", "--" },
		{ 9, 9, "queued+ga queued+ga+paused", "--" },
		{ 9, 2, "queued+ga queued+ga queued", "SS-" },
		{ 9, 9, "queued+ga queued+ga queued+gb queued", "SSSS" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		setup(NULL);
		pools[0].parallel.value = rows[i].parallel;
		pools[0].unavailable.value = rows[i].unavailable;
		auto_str char *row = str_fmt("row %zu: %s", i, rows[i].line);
		plan(rows[i].line);
		expect_letters(row, rows[i].want);
	}
}

// One that somebody else cordoned costs no availability, and neither does one that is in our hands already.
static void a_group_costs_what_it_takes_away(void **state)
{
	(void)state;
	pools[0].foreign_cordon = CORDON_USE_FIRST;
	pools[0].parallel.value = 9;
	pools[0].unavailable.value = 2;
	expect_slots("queued+ga+cordon queued+ga", "SS");
	expect_slots("queued+ga+cordon queued+ga queued", "SS-");
	pools[0].overflow = OVERFLOW_HOLD;
	expect_refused("queued+ga+cordon queued+ga queued+ga", 0, REASON_LIMIT_UNAVAILABLE); // later, then
	expect_refused("queued+ga queued+ga queued+ga", 0, REASON_GROUP_TOO_BIG);
	pools[0].unavailable.value = 3;
	expect_slots("queued+ga+cordon queued+ga queued+ga", "SSS");
}

// Of a group that no room is enough for: alone, when nobody else is under way.
static void a_group_that_is_too_big_goes_alone(void **state)
{
	(void)state;
	expect_slots("queued+ga queued+ga queued+ga", "SSS");
	expect_refused("evicting+ours+slot queued+ga queued+ga queued+ga queued", 1, REASON_LIMIT_PARALLEL);
	expect_letters("and it is waited for", "S----");
	pools[0].wait_for = (char *)(uintptr_t) "job=batch";
	pools[0].waiting = 2;
	expect_slots("queued+ga queued+ga queued+ga", "WWW");
	expect_refused("waiting+ours+wait+jobs queued+ga queued+ga queued+ga", 1, REASON_LIMIT_PARALLEL);
	pools[0].waiting = 0; // a pause is no limit that a group is too big for
	expect_refused("queued+ga queued+ga", 0, REASON_LIMIT_WAITING);
	pools[0].overflow = OVERFLOW_HOLD;
	pools[0].waiting = 2;
	expect_refused("queued+ga queued+ga queued+ga", 0, REASON_GROUP_TOO_BIG);
	expect_slots("queued+ga queued+ga", "WW");
	pools[0].parallel.value = 0; // one alone is no group, and is never too big
	expect_refused("waiting+ours+wait", 0, REASON_LIMIT_PARALLEL);
}

// Groups are those of one pool: a label that is used in two of them joins nobody.
static void a_group_ends_with_its_pool(void **state)
{
	(void)state;
	pools[0].terms = 1;
	pools[1].terms = 2;
	policy.pool_count = 2;
	expect_slots("queued+ga+A queued+ga+B held+ga+B queued+ga+A", "S--S");
	assert_int_equal(slots.node_plans[1].refused, REASON_GROUP_INCOMPLETE);
	assert_true(slots.node_plans[0].mate == 3 && slots.node_plans[3].mate == 0);
	assert_true(slots.node_plans[1].mate == 2 && slots.node_plans[2].mate == 1);
	plan("queued+gc+A queued+ga+A queued+gb+A queued+ga+A queued+gc+A queued+A queued+ga+A");
	static const size_t mates[] = { 4, 3, 2, 6, 0, 5, 1 };
	for (size_t i = 0; i < count; i++)
		assert_int_equal(slots.node_plans[i].mate, mates[i]);
}

static void one_zone_at_a_time(void **state)
{
	(void)state;
	policy.zone = (char *)(uintptr_t) "zone";
	pools[0].parallel.value = pools[0].unavailable.value = 9;
	pools[0].is_by_zone = true;
	pools[0].terms = 1;
	pools[1].terms = 2;
	policy.pool_count = 2;
	expect_slots("queued+z1+A queued+z1+A queued+z2+A", "SS-");
	assert_int_equal(slots.node_plans[2].refused, REASON_OTHER_ZONE);
	expect_slots("evicting+ours+slot+z2+B queued+z1+A", "SS"); // another pool's zone is no matter of this one
	pools[0].is_by_zone = false;
	expect_slots("queued+z1+A queued+z1+A queued+z2+A", "SSS");
}

// The ledger is an annotation, which has an end: as many as it can name.
static void the_ledger_is_full(void **state)
{
	(void)state;
	auto_str char *line = str_dup("queued");
	pools[0].parallel.value = pools[0].unavailable.value = 5000;
	for (int i = 0; i < LEDGER_MOST; i++)
		str_add(&line, " queued");
	plan(line);
	assert_int_equal(slots.granted, LEDGER_MOST);
	assert_int_equal(slots.ledger.count, LEDGER_MOST);
	assert_int_equal(slots.sums[0].blocked.code, REASON_LIMIT_PARALLEL);
}

// Staging has a number of its own for the whole cluster; who asked for it again comes first.
static void as_many_as_allowed_are_staged(void **state)
{
	(void)state;
	static const struct {
		const char *line, *want; // S: may stage; F: as many do; P: paused; -: it is not asked
		unsigned staging;
	} rows[] = {
		{ "idle idle idle", "SSF", 2 },
		{ "idle idle idle+retry", "SFS", 2 },
		{ "staging idle idle", "-SF", 2 },
		{ "staging staging idle", "--F", 2 },
		{ "staging staging staging idle", "---F", 3 },
		{ "idle+paused idle+skip idle+down idle+failed idle+well done idle", "------S", 1 },
		{ "idle+A idle+B idle+B", "SPP", 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *got = str_dup("");
		setup(NULL);
		pools[0].terms = i + 1 == ARRAY_SIZE(rows) ? 1 : 0;
		pools[1].terms = 2;
		pools[1].parallel.value = 0;
		policy.pool_count = 2;
		plan(rows[i].line);
		for (size_t n = 0; n < count; n++) {
			struct view v = scheduler_view(&cluster, &slots, n);
			enum reason_code why = slots.node_plans[n].refused;
			bool is_asked = nodes[n].record.phase != PHASE_STAGING && transition_rests(&v) == REASON_NONE;
			str_add(&got, "%s",
				!is_asked                  ? "-" :
				why == REASON_NONE         ? "S" :
				why == REASON_STAGING_FULL ? "F" :
				why == REASON_PAUSED       ? "P" :
							     "?");
		}
		if (!str_eq(got, rows[i].want) || slots.staging != rows[i].staging)
			fail_msg("%s: %s and %u", rows[i].line, got, slots.staging);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(admission_order),
		T(drains_of_another_target_do_not_count),
		T(whoever_is_left_out_hears_which_limit),
		T(those_who_keep_the_budget_are_named),
		T(pools_do_not_wait_for_each_other),
		T(groups_and_what_they_cost),
		T(a_group_costs_what_it_takes_away),
		T(a_group_that_is_too_big_goes_alone),
		T(a_group_ends_with_its_pool),
		T(one_zone_at_a_time),
		T(the_ledger_is_full),
		T(as_many_as_allowed_are_staged),
	};
	return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
