// SPDX-License-Identifier: Apache-2.0
// The waves of a pool with their nodes, so that one in which nothing would be tested is seen before it is waited for.
#include "cmd/cluster/rollout.h"

#include <stdio.h>

struct wave_sum {
	unsigned nodes, done;
	bool is_open, is_short; // with those before it fewer nodes than have to be done before the next one opens
};

static void sum_wave(const struct cluster *c, const struct slots *s, size_t pool_at, struct wave_sum *ret)
{
	const struct pool *pool = &c->policy->pools[pool_at];
	unsigned before = 0;
	for (size_t i = 0; i < c->count; i++) {
		const struct node_plan *node_plan = &s->node_plans[i];
		const struct record *record = &c->nodes[i].record;
		if (node_plan->pool != (int)pool_at || c->nodes[i].facts.is_skipped)
			continue;
		ret[node_plan->wave].nodes++;
		ret[node_plan->wave].done += record->phase == PHASE_DONE && !node_plan->is_failed &&
					     target_hash_eq(&record->target, &s->rollouts[pool_at].target);
	}
	for (unsigned w = 0; w <= pool->wave_count; w++) {
		before += ret[w].nodes;
		ret[w].is_open = w <= s->rollouts[pool_at].wave;
		ret[w].is_short = w < pool->wave_count && before < pool->waves[w].done;
	}
}

json_t *rollout_waves_json(const struct cluster *c, const struct slots *s, size_t pool_at)
{
	const struct pool *pool = &c->policy->pools[pool_at];
	struct wave_sum sums[WAVES_MOST + 1] = { 0 };
	json_t *list = json_array();
	sum_wave(c, s, pool_at, sums);
	for (unsigned w = 0; w <= pool->wave_count; w++)
		json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:b, s:b}", "wave", policy_wave_name(pool, w),
						      "nodes", (int)sums[w].nodes, "done", (int)sums[w].done, "open",
						      sums[w].is_open, "tooFewNodes", sums[w].is_short));
	return list;
}

void rollout_show_waves(const struct cluster *c, const struct slots *s, size_t pool_at)
{
	const struct pool *pool = &c->policy->pools[pool_at];
	struct wave_sum sums[WAVES_MOST + 1] = { 0 };
	if (!pool->wave_count)
		return;
	sum_wave(c, s, pool_at, sums);
	for (unsigned w = 0; w <= pool->wave_count; w++)
		printf("  wave %s: %u nodes, %u done, %s\n", policy_wave_name(pool, w), sums[w].nodes, sums[w].done,
		       sums[w].is_open ? "open" : "closed");
	for (unsigned w = 0; w < pool->wave_count; w++)
		if (sums[w].is_short)
			printf("  warning: pool %s: with wave %s %s nodes are begun, and %u have to be done before the "
			       "next wave opens (minDone): it waits for `kmodsmith rollout approve %s %s`\n",
			       pool->name, pool->waves[w].name, sums[w].nodes ? "too few" : "no", pool->waves[w].done,
			       pool->name, policy_wave_name(pool, w + 1));
}
