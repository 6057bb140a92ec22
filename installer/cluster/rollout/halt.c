// SPDX-License-Identifier: Apache-2.0
// Where a roll-out begins, and when it is halted. Failures are read from the nodes each time and counted nowhere, so
// that no restart forgets one; a `resume` forgives those before it.
#include "cluster/rollout/scheduler_internal.h"

#include <stdio.h>

static bool is_under_way(const struct round *r, size_t pool, struct aim *ret_stable)
{
	bool is_found = false;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct record *record = &r->c->members[i].record;
		if (r->s->seats[i].pool != (int)pool)
			continue;
		is_found = is_found || aim_is(&record->target) || phase_info(record->phase)->is_disruptive;
		if (aim_is(&record->stable))
			*ret_stable = record->stable;
	}
	return is_found;
}

void rollouts_begin(const struct round *r)
{
	for (size_t p = 0; p < r->c->policy->pool_count; p++) {
		const struct aim *target = &r->c->policy->pools[p].target.aim;
		struct rollout *rollout = &r->s->rollouts[p];
		if (aim_eq(&rollout->target, target))
			continue;
		struct rollout next = { .target = *target, .stable = rollout->stable };
		if (aim_is(&next.stable) && aim_eq(&next.stable, target)) // the way back: all nodes had it
			next.wave = (unsigned)r->c->policy->pools[p].wave_count;
		if (!aim_is(&rollout->target) && is_under_way(r, p, &next.stable)) {
			next.is_halted = true;
			next.halt.code = r->c->has_status ? REASON_POOL_NEW : REASON_STATUS_LOST;
			next.halted_since = r->c->now;
		}
		for (size_t i = 0; i < r->c->count; i++)
			next.frozen += r->s->seats[i].pool == (int)p && !r->c->members[i].facts.is_skipped;
		*rollout = next;
	}
}

static bool is_failed(const struct round *r, size_t at)
{
	const struct member *m = &r->c->members[at];
	const struct rollout *rollout = round_own_rollout(r, at);
	const struct aim *target = &rollout->target;
	if (m->record.since <= rollout->resumed)
		return false;
	if (aim_eq(&m->record.failed, target) || (m->record.phase == PHASE_FAILED && aim_eq(&m->record.target, target)))
		return true;
	// Of the wave that soaks: one that was well and is not any more.
	bool is_ill = (m->report.health.result == RESULT_FAILED && aim_eq(&m->report.health.aim, target)) ||
		      !m->facts.is_ready;
	return m->record.phase == PHASE_DONE && aim_eq(&m->record.target, target) && rollout->soak_since && is_ill &&
	       r->s->seats[at].wave == rollout->wave;
}

// How many of the last ones that came to an end failed.
static unsigned in_a_row(const struct round *r, size_t pool)
{
	int64_t last_good = 0;
	unsigned row = 0;
	const struct aim *target = &r->s->rollouts[pool].target;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct record *record = &r->c->members[i].record;
		bool is_good = record->phase == PHASE_DONE && aim_eq(&record->target, target) &&
			       !r->s->seats[i].is_failed && r->s->seats[i].pool == (int)pool;
		last_good = is_good && record->since > last_good ? record->since : last_good;
	}
	for (size_t i = 0; i < r->c->count; i++)
		row += r->s->seats[i].pool == (int)pool && r->s->seats[i].is_failed &&
		       r->c->members[i].record.since > last_good;
	return row;
}

static void name_failed(const struct round *r, size_t pool, struct reason *ret)
{
	size_t len = 0;
	for (size_t i = 0; i < r->c->count && len < OBJECT_TEXT - 1; i++)
		if (r->s->seats[i].pool == (int)pool && r->s->seats[i].is_failed)
			len += (size_t)snprintf(ret->object + len, OBJECT_TEXT - len, "%s%s", len ? " " : "",
						r->c->members[i].name);
}

static enum reason_code judge(const struct round *r, size_t pool_at)
{
	const struct pool *pool = &r->c->policy->pools[pool_at];
	const struct sum *sum = &r->s->sums[pool_at];
	unsigned wave = r->s->rollouts[pool_at].wave, of_wave = 0;
	for (size_t i = 0; i < r->c->count; i++)
		of_wave +=
			r->s->seats[i].pool == (int)pool_at && r->s->seats[i].is_failed && r->s->seats[i].wave == wave;
	if (wave < pool->wave_count && of_wave > pool->waves[wave].failures)
		return REASON_WAVE_FAILURES;
	if (sum->failed && sum->failed * 100 >= pool->breaker_percent * sum->total)
		return REASON_POOL_FAILURES;
	return in_a_row(r, pool_at) >= pool->breaker_row ? REASON_FAILURES_IN_A_ROW : REASON_NONE;
}

void failures_count(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++) {
		struct seat *seat = &r->s->seats[i];
		const struct record *record = &r->c->members[i].record;
		if (seat->pool < 0)
			continue;
		seat->is_failed = is_failed(r, i);
		r->s->sums[seat->pool].failed += seat->is_failed;
		r->s->sums[seat->pool].done +=
			record->phase == PHASE_DONE && aim_eq(&record->target, &r->s->rollouts[seat->pool].target);
	}
	for (size_t p = 0; p < r->c->policy->pool_count; p++) {
		struct rollout *rollout = &r->s->rollouts[p];
		enum reason_code why = rollout->is_halted ? REASON_NONE : judge(r, p);
		if (why == REASON_NONE)
			continue;
		rollout->is_halted = true;
		rollout->halt = (struct reason){ .code = why };
		rollout->halted_since = r->c->now;
		name_failed(r, p, &rollout->halt);
	}
}
