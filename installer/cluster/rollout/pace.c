// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/pace.h"

int64_t pace_seconds_left(const struct cluster *c, const struct slots *s, size_t pool)
{
	const struct sum *sum = &s->sums[pool];
	const struct rollout *r = &s->rollouts[pool];
	int64_t first = 0, last = 0;
	unsigned done = 0;
	for (size_t i = 0; i < c->count; i++) {
		const struct record *record = &c->nodes[i].record;
		if (s->node_plans[i].pool != (int)pool || record->phase != PHASE_DONE || record->since <= 0 ||
		    !target_hash_eq(&record->target, &r->target))
			continue;
		first = !done || record->since < first ? record->since : first;
		last = record->since > last ? record->since : last;
		done++;
	}
	bool is_going_on = !r->is_halted && !r->is_aborted && sum->blocked.code == REASON_NONE;
	if (done < 2 || !is_going_on || sum->done + sum->failed >= sum->total)
		return -1;
	int64_t left = (last - first) * (int64_t)(sum->total - sum->done - sum->failed) / (done - 1);
	int64_t waited = c->now > last ? c->now - last : 0;
	return left > waited ? left - waited : 0;
}
