// SPDX-License-Identifier: Apache-2.0
// What a coordinator counts for its metrics (upgrade-design 5.11).
#include "cluster/coordinator/metrics.h"
#include "tests/unit/test.h"

static void move(struct counters *t, enum node_phase from, enum node_phase to, int64_t seconds, enum failing failing)
{
	static const struct reason none;
	metrics_count_phase(t,
			    &(struct phase_change){ "n", "rule", from, to, { 1, 1 }, &none, seconds, failing, false });
}

static void states(void **state)
{
	(void)state;
	static const struct {
		int64_t seconds;
		unsigned bound;
	} rows[] = { { 0, 0 }, { 1, 0 }, { 2, 1 }, { 60, 3 }, { 61, 4 }, { 14400, 8 }, { 14401, 9 } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct counters t = { 0 };
		move(&t, PHASE_EVICTING, PHASE_REPLACING, rows[i].seconds, FAILING_NONE);
		assert_int_equal(t.phases[PHASE_EVICTING].within[rows[i].bound], 1);
		assert_int_equal(t.phases[PHASE_EVICTING].count, 1);
		assert_int_equal(t.phases[PHASE_REPLACING].count, 0);
	}
	struct counters t = { 0 };
	move(&t, PHASE_IDLE, PHASE_STAGING, -1, FAILING_NONE); // a node that never had a state
	assert_int_equal(t.phases[PHASE_IDLE].count, 0);
	move(&t, PHASE_STAGING, PHASE_QUEUED, 30, FAILING_NONE);
	move(&t, PHASE_STAGING, PHASE_QUEUED, 12, FAILING_NONE);
	assert_true(t.phases[PHASE_STAGING].seconds > 41.9 && t.phases[PHASE_STAGING].seconds < 42.1);
}

static void rollbacks(void **state)
{
	(void)state;
	struct counters t = { 0 };
	move(&t, PHASE_REPLACING, PHASE_RESTORING, 5, FAILING_PERMANENT);
	move(&t, PHASE_VALIDATING, PHASE_RESTORING, 600, FAILING_NONE);
	move(&t, PHASE_REPLACING, PHASE_EVICTING, 5, FAILING_BUSY);
	assert_int_equal(t.rollbacks[FAILING_PERMANENT], 1);
	assert_int_equal(t.rollbacks[FAILING_NONE], 1);
	assert_int_equal(t.rollbacks[FAILING_BUSY], 0);
}

static double seconds_of(const struct counters *t, const char *pool)
{
	for (size_t i = 0; i < POOLS_MOST; i++)
		if (str_eq(t->pools[i].name, pool))
			return t->pools[i].seconds;
	return -1;
}

static void unavailable_nodes(void **state)
{
	(void)state;
	struct pool a = { .name = "a" }, b = { .name = "b" };
	struct pool both[] = { a, b }, turned[] = { b, a };
	struct policy policy = { .pools = both, .pool_count = 2 };
	struct counters t = { 0 };
	struct sum sums[] = { { .unavailable = 2 }, { .unavailable = 0 } };
	metrics_count_pools(&t, &policy, sums, 1000); // nothing is known of before
	sums[0].unavailable = 1;
	metrics_count_pools(&t, &policy, sums, 4000);
	policy.pools = turned; // another order, and nobody's seconds are mixed up
	struct sum others[] = { { .unavailable = 0 }, { .unavailable = 1 } };
	metrics_count_pools(&t, &policy, others, 5000);
	assert_true(seconds_of(&t, "a") > 6.9 && seconds_of(&t, "a") < 7.1);
	assert_true(seconds_of(&t, "b") > -0.1 && seconds_of(&t, "b") < 0.1);
	policy.pool_count = 1;
	metrics_count_pools(&t, &policy, others, 6000);
	assert_true(seconds_of(&t, "a") < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(states), cmocka_unit_test(rollbacks),
					    cmocka_unit_test(unavailable_nodes) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
