// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/tally.h"

const unsigned tally_bounds[TALLY_BOUNDS] = { 1, 5, 15, 60, 300, 900, 1800, 3600, 14400 };

void tally_moved(struct tally *t, const struct transited *moved)
{
	struct tally_phase *p = &t->phases[moved->from];
	unsigned bound = 0;
	if (moved->to == PHASE_RESTORING)
		t->rollbacks[moved->failing]++;
	if (moved->seconds < 0) // nobody knows since when
		return;
	while (bound < TALLY_BOUNDS && moved->seconds > tally_bounds[bound])
		bound++;
	p->within[bound]++;
	p->count++;
	p->seconds += (double)moved->seconds;
}

static struct tally_pool find(const struct tally *t, const char *name)
{
	struct tally_pool pool = { 0 };
	for (size_t i = 0; i < POOLS_MOST; i++)
		if (str_eq(t->pools[i].name, name))
			return t->pools[i];
	memcpy(pool.name, name, sizeof(pool.name));
	return pool;
}

void tally_pools(struct tally *t, const struct policy *policy, const struct sum *sums, long now_ms)
{
	struct tally_pool pools[POOLS_MOST] = { 0 };
	double passed = t->last_ms ? (double)(now_ms - t->last_ms) / 1000 : 0;
	for (size_t i = 0; i < policy->pool_count; i++) {
		pools[i] = find(t, policy->pools[i].name);
		pools[i].seconds += passed * pools[i].unavailable;
		pools[i].unavailable = sums[i].unavailable;
	}
	memcpy(t->pools, pools, sizeof(pools));
	t->last_ms = now_ms;
}
