// SPDX-License-Identifier: Apache-2.0
// Where a rollout begins, and when it is halted. Failures are read from the nodes each time and counted nowhere, so
// that no restart forgets one; a `resume` forgives those before it.
#include "cluster/rollout/scheduler_internal.h"

#include <stdio.h>

static bool is_rollout_under_way(const struct round *r, size_t pool, struct target_hash *ret_stable)
{
	bool is_found = false;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct record *record = &r->c->nodes[i].record;
		if (r->s->node_plans[i].pool != (int)pool)
			continue;
		is_found = is_found || target_hash_is_set(&record->target) ||
			   node_phase_info(record->phase)->is_disruptive;
		if (target_hash_is_set(&record->stable))
			*ret_stable = record->stable;
	}
	return is_found;
}

void halt_begin_rollouts(const struct round *r)
{
	for (size_t p = 0; p < r->c->policy->pool_count; p++) {
		const struct target_hash *target = &r->c->policy->pools[p].target.target_hash;
		struct rollout *rollout = &r->s->rollouts[p];
		if (target_hash_eq(&rollout->target, target))
			continue;
		struct rollout next = { .target = *target, .stable = rollout->stable };
		if (target_hash_is_set(&next.stable) &&
		    target_hash_eq(&next.stable, target)) // the way back: all nodes had it
			next.wave = (unsigned)r->c->policy->pools[p].wave_count;
		if (!target_hash_is_set(&rollout->target) && is_rollout_under_way(r, p, &next.stable)) {
			next.is_halted = true;
			next.halt.code = r->c->has_status ? REASON_POOL_NEW : REASON_STATUS_LOST;
			next.halted_since = r->c->now;
		}
		for (size_t i = 0; i < r->c->count; i++)
			next.frozen += r->s->node_plans[i].pool == (int)p && !r->c->nodes[i].facts.is_skipped;
		*rollout = next;
	}
}

static bool is_node_failed(const struct round *r, size_t at)
{
	const struct node_state *m = &r->c->nodes[at];
	const struct rollout *rollout = round_own_rollout(r, at);
	const struct target_hash *target = &rollout->target;
	if (m->record.since <= rollout->resumed)
		return false;
	if (target_hash_eq(&m->record.failed, target) ||
	    (m->record.phase == PHASE_FAILED && target_hash_eq(&m->record.target, target)))
		return true;
	// Of the wave that soaks: one that was well and is not any more.
	bool is_ill =
		(m->report.health.result == RESULT_FAILED && target_hash_eq(&m->report.health.target_hash, target)) ||
		!m->facts.is_ready;
	return m->record.phase == PHASE_DONE && target_hash_eq(&m->record.target, target) && rollout->soak_since &&
	       is_ill && r->s->node_plans[at].wave == rollout->wave;
}

// How many of the last ones that came to an end failed.
static unsigned count_failed_in_a_row(const struct round *r, size_t pool)
{
	int64_t last_good = 0;
	unsigned row = 0;
	const struct target_hash *target = &r->s->rollouts[pool].target;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct record *record = &r->c->nodes[i].record;
		bool is_good = record->phase == PHASE_DONE && target_hash_eq(&record->target, target) &&
			       !r->s->node_plans[i].is_failed && r->s->node_plans[i].pool == (int)pool;
		last_good = is_good && record->since > last_good ? record->since : last_good;
	}
	for (size_t i = 0; i < r->c->count; i++)
		row += r->s->node_plans[i].pool == (int)pool && r->s->node_plans[i].is_failed &&
		       r->c->nodes[i].record.since > last_good;
	return row;
}

static void name_failed(const struct round *r, size_t pool, struct reason *ret)
{
	size_t len = 0;
	for (size_t i = 0; i < r->c->count && len < OBJECT_TEXT - 1; i++)
		if (r->s->node_plans[i].pool == (int)pool && r->s->node_plans[i].is_failed)
			len += (size_t)snprintf(ret->object + len, OBJECT_TEXT - len, "%s%s", len ? " " : "",
						r->c->nodes[i].name);
}

static enum reason_code judge_pool(const struct round *r, size_t pool_at)
{
	const struct pool *pool = &r->c->policy->pools[pool_at];
	const struct sum *sum = &r->s->sums[pool_at];
	unsigned wave = r->s->rollouts[pool_at].wave, of_wave = 0;
	for (size_t i = 0; i < r->c->count; i++)
		of_wave += r->s->node_plans[i].pool == (int)pool_at && r->s->node_plans[i].is_failed &&
			   r->s->node_plans[i].wave == wave;
	if (wave < pool->wave_count && of_wave > pool->waves[wave].failures)
		return REASON_WAVE_FAILURES;
	if (sum->failed && sum->failed * 100 >= pool->breaker_percent * sum->total)
		return REASON_POOL_FAILURES;
	return count_failed_in_a_row(r, pool_at) >= pool->breaker_row ? REASON_FAILURES_IN_A_ROW : REASON_NONE;
}

void halt_count_failures(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++) {
		struct node_plan *node_plan = &r->s->node_plans[i];
		const struct record *record = &r->c->nodes[i].record;
		if (node_plan->pool < 0)
			continue;
		node_plan->is_failed = is_node_failed(r, i);
		r->s->sums[node_plan->pool].failed += node_plan->is_failed;
		r->s->sums[node_plan->pool].done +=
			record->phase == PHASE_DONE &&
			target_hash_eq(&record->target, &r->s->rollouts[node_plan->pool].target);
	}
	for (size_t p = 0; p < r->c->policy->pool_count; p++) {
		struct rollout *rollout = &r->s->rollouts[p];
		enum reason_code why = rollout->is_halted ? REASON_NONE : judge_pool(r, p);
		if (why == REASON_NONE)
			continue;
		rollout->is_halted = true;
		rollout->halt = (struct reason){ .code = why };
		rollout->halted_since = r->c->now;
		name_failed(r, p, &rollout->halt);
	}
}
