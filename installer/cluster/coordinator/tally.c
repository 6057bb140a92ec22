// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/tally.h"

const unsigned counters_bounds[COUNTERS_BOUNDS] = { 1, 5, 15, 60, 300, 900, 1800, 3600, 14400 };

void counters_phase_change(struct counters *t, const struct phase_change *moved)
{
	struct counters_phase *p = &t->phases[moved->from];
	unsigned bound = 0;
	if (moved->to == PHASE_RESTORING)
		t->rollbacks[moved->failing]++;
	if (moved->seconds < 0) // nobody knows since when
		return;
	while (bound < COUNTERS_BOUNDS && moved->seconds > counters_bounds[bound])
		bound++;
	p->within[bound]++;
	p->count++;
	p->seconds += (double)moved->seconds;
}

static struct counters_pool find_pool_counters(const struct counters *t, const char *name)
{
	struct counters_pool pool = { 0 };
	for (size_t i = 0; i < POOLS_MOST; i++)
		if (str_eq(t->pools[i].name, name))
			return t->pools[i];
	memcpy(pool.name, name, sizeof(pool.name));
	return pool;
}

void counters_pools(struct counters *t, const struct policy *policy, const struct sum *sums, long now_ms)
{
	struct counters_pool pools[POOLS_MOST] = { 0 };
	double passed = t->last_ms ? (double)(now_ms - t->last_ms) / 1000 : 0;
	for (size_t i = 0; i < policy->pool_count; i++) {
		pools[i] = find_pool_counters(t, policy->pools[i].name);
		pools[i].seconds += passed * pools[i].unavailable;
		pools[i].unavailable = sums[i].unavailable;
	}
	memcpy(t->pools, pools, sizeof(pools));
	t->last_ms = now_ms;
}
