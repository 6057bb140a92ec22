// SPDX-License-Identifier: Apache-2.0
// Grants. Who may have a slot at all is a table of refusals, which `rollout why` shows row by row; who gets one is a
// matter of order and room. Whoever comes first and does not fit makes the others wait: small ones never starve a
// large group.
#include "cluster/rollout/scheduler_admit.h"

#include "cluster/rollout/rules.h"

#include <limits.h>

static int compare(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

static unsigned drained_in_vain(const struct member *m)
{
	return aim_eq(&m->record.drains.aim, &m->record.target) ? m->record.drains.failed : 0;
}

// who is released, wave, drained in vain last, asked for again, idle first, zone by zone, earlier failures last, the
// coordinator's own node last, name
static int by_turn(const void *a, const void *b, void *round)
{
	const struct round *r = round;
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	const struct member *x = &r->c->members[i], *y = &r->c->members[k];
	const struct {
		int64_t x, y;
	} keys_[] = {
		{ r->s->seats[i].pool, r->s->seats[k].pool },
		{ !is_recovery(r, i), !is_recovery(r, k) },
		{ x->record.phase != PHASE_WAITING, y->record.phase != PHASE_WAITING },
		{ r->s->seats[i].wave, r->s->seats[k].wave },
		{ drained_in_vain(x), drained_in_vain(y) },
		{ x->record.retry == 0, y->record.retry == 0 },
		{ x->facts.is_ours, y->facts.is_ours },
		{ x->record.attempts, y->record.attempts },
		{ x->report.holders != 0, y->report.holders != 0 },
	};
	for (size_t n = 0; n < ARRAY_SIZE(keys_); n++)
		if (keys_[n].x != keys_[n].y)
			return compare(keys_[n].x, keys_[n].y);
	if (r->c->policy->zone && x->facts.zone != y->facts.zone)
		return x->facts.zone < y->facts.zone ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool is_candidate(const struct round *r, size_t at)
{
	const struct member *m = &r->c->members[at];
	const struct seat *seat = &r->s->seats[at];
	if (seat->pool < 0)
		return false;
	if (m->record.phase == PHASE_WAITING) // from the wait to the work
		return seat->has == SLOT_WAIT && (member_seen(m)->jobs == 0 || m->record.receipt.waited);
	return m->record.phase == PHASE_QUEUED && seat->has == SLOT_NONE;
}

// A group goes as one. The next of those of it that may have to move; first, when there are no more.
static size_t next_of_unit(const struct round *r, size_t first, size_t at)
{
	do
		at = r->s->seats[at].mate;
	while (at != first && r->c->members[at].facts.is_skipped);
	return at;
}

struct cost {
	unsigned work, waiting, unavailable;
	bool is_group, is_incomplete;
};
static bool is_there(const struct round *r, size_t at)
{
	struct view v = round_view(r, at);
	struct aim goal = transition_goal(&v);
	return is_at(&v, &goal) || r->s->seats[at].has != SLOT_NONE;
}
static struct cost cost_of(const struct round *r, size_t first)
{
	struct cost cost = { 0 };
	size_t i = first;
	do {
		const struct member *m = &r->c->members[i];
		cost.is_group = cost.is_group || i != first;
		if (i != first && is_there(r, i))
			continue;
		if (i != first && (m->record.phase != PHASE_QUEUED || refusal(r, i) != REASON_NONE))
			cost.is_incomplete = true;
		bool waits = round_own_pool(r, i)->wait_for && m->record.phase == PHASE_QUEUED;
		cost.work += !waits;
		cost.waiting += waits;
		cost.unavailable += !m->facts.is_unschedulable && m->facts.is_ready && r->s->seats[i].has == SLOT_NONE;
	} while ((i = next_of_unit(r, first, i)) != first);
	return cost;
}

static unsigned room(unsigned limit, unsigned used)
{
	return limit > used ? limit - used : 0;
}

static void totals(const struct round *r, struct sum *ret)
{
	*ret = r->s->strays;
	for (size_t p = 0; p < r->c->policy->pool_count; p++) {
		ret->total += r->s->sums[p].total;
		ret->used += r->s->sums[p].used;
		ret->waiting += r->s->sums[p].waiting;
		ret->unavailable += r->s->sums[p].unavailable;
	}
	ret->parallel_limit = limit_of(&r->c->policy->parallel, ret->total);
	ret->unavailable_limit = limit_of(&r->c->policy->unavailable, ret->total);
}

static bool is_big(const struct sum *sum, const struct cost *cost, unsigned waiting_limit)
{
	return cost->is_group && (cost->work > sum->parallel_limit || cost->unavailable > sum->unavailable_limit ||
				  cost->waiting > waiting_limit);
}

// A group that no room would be enough for.
static enum reason_code fits_alone(const struct pool *pool, const struct sum *sum)
{
	if (pool->overflow == OVERFLOW_HOLD)
		return REASON_GROUP_TOO_BIG;
	return sum->used || sum->waiting ? REASON_LIMIT_PARALLEL : REASON_NONE;
}

static enum reason_code fits_pool(const struct pool *pool, const struct sum *sum, const struct cost *cost)
{
	if (is_big(sum, cost, pool->waiting ? pool->waiting : UINT_MAX)) // 0 is a pause
		return fits_alone(pool, sum);
	if (cost->work > room(sum->parallel_limit, sum->used))
		return REASON_LIMIT_PARALLEL;
	if (cost->waiting > room(pool->waiting, sum->waiting))
		return REASON_LIMIT_WAITING;
	if (cost->unavailable > room(sum->unavailable_limit, sum->unavailable))
		return sum->others >= sum->unavailable_limit ? REASON_BUDGET_OTHERS : REASON_LIMIT_UNAVAILABLE;
	return REASON_NONE;
}

static enum reason_code fits_cluster(const struct pool *pool, const struct sum *all, const struct cost *cost)
{
	if (is_big(all, cost, UINT_MAX))
		return fits_alone(pool, all);
	if (cost->work > room(all->parallel_limit, all->used))
		return REASON_LIMIT_PARALLEL;
	return cost->unavailable > room(all->unavailable_limit, all->unavailable) ? REASON_LIMIT_UNAVAILABLE :
										    REASON_NONE;
}

static enum reason_code fits(const struct round *r, size_t at, const struct cost *cost)
{
	struct sum all;
	totals(r, &all);
	const struct pool *pool = round_own_pool(r, at);
	if (cost->is_incomplete)
		return REASON_GROUP_INCOMPLETE;
	if (all.used + all.waiting + cost->work + cost->waiting > LEDGER_MOST)
		return REASON_LIMIT_PARALLEL;
	enum reason_code why = fits_cluster(pool, &all, cost);
	return why != REASON_NONE ? why : fits_pool(pool, &r->s->sums[r->s->seats[at].pool], cost);
}

static bool is_other_zone(const struct round *r, size_t at)
{
	for (size_t i = 0; i < r->c->count; i++)
		if (r->s->seats[i].pool == r->s->seats[at].pool && r->s->seats[i].has != SLOT_NONE &&
		    r->c->members[i].facts.zone != r->c->members[at].facts.zone)
			return round_own_pool(r, at)->is_by_zone;
	return false;
}

static void grant(const struct round *r, size_t first, const struct cost *cost)
{
	struct sum *sum = &r->s->sums[r->s->seats[first].pool];
	size_t i = first;
	do {
		struct seat *seat = &r->s->seats[i];
		const struct member *m = &r->c->members[i];
		if (i != first && (seat->has != SLOT_NONE || m->record.phase != PHASE_QUEUED))
			continue;
		bool waits = round_own_pool(r, i)->wait_for && m->record.phase == PHASE_QUEUED;
		sum->waiting -= seat->has == SLOT_WAIT;
		seat->has = waits ? SLOT_WAIT : SLOT_WORK;
		seat->refused = REASON_NONE;
	} while ((i = next_of_unit(r, first, i)) != first);
	sum->used += cost->work;
	sum->waiting += cost->waiting;
	sum->unavailable += cost->unavailable;
}

// Those who are left out say who keeps the budget (T32).
static void tell_blocked(const struct round *r, int pool, enum reason_code why)
{
	struct reason *blocked = &r->s->sums[pool].blocked;
	size_t len = 0;
	*blocked = (struct reason){ .code = why };
	for (size_t i = 0; i < r->c->count && why == REASON_BUDGET_OTHERS; i++) {
		const struct facts *f = &r->c->members[i].facts;
		const char *name = r->c->members[i].name;
		if (r->s->seats[i].pool != pool || r->s->seats[i].has != SLOT_NONE ||
		    (f->is_ready && !f->is_unschedulable) || len + strlen(name) + 2 > OBJECT_TEXT)
			continue;
		if (len)
			blocked->object[len++] = ' ';
		memcpy(blocked->object + len, name, strlen(name));
		len += strlen(name);
	}
}

// On its way back to service it is alone, whatever its group and its zone; a limit of 0 is a pause, and for others.
static void release_one(const struct round *r, size_t at)
{
	struct seat *seat = &r->s->seats[at];
	const struct cost one = { .work = 1 };
	seat->refused = has_zero_limit(r, at) ? REASON_NONE : fits(r, at, &one);
	if (seat->refused != REASON_NONE)
		return;
	seat->has = SLOT_WORK;
	r->s->sums[seat->pool].used++;
}

static void admit_one(const struct round *r, size_t at, int *full_pool, enum reason_code *full)
{
	struct seat *seat = &r->s->seats[at];
	if (r->c->members[at].record.phase == PHASE_QUEUED && seat->has != SLOT_NONE)
		return; // with its group
	seat->refused = r->c->members[at].record.phase == PHASE_QUEUED ? refusal(r, at) : REASON_NONE;
	if (seat->refused != REASON_NONE)
		return;
	if (*full_pool == seat->pool) {
		seat->refused = *full;
		return;
	}
	if (is_recovery(r, at)) {
		release_one(r, at);
	} else {
		struct cost cost = cost_of(r, at);
		seat->refused = is_other_zone(r, at) ? REASON_OTHER_ZONE : fits(r, at, &cost);
		if (seat->refused == REASON_NONE)
			grant(r, at, &cost);
	}
	if (seat->refused == REASON_NONE)
		return;
	bool is_own_fault = seat->refused == REASON_GROUP_INCOMPLETE || seat->refused == REASON_GROUP_TOO_BIG ||
			    seat->refused == REASON_OTHER_ZONE;
	if (is_own_fault)
		return;
	*full_pool = seat->pool;
	*full = seat->refused;
	tell_blocked(r, seat->pool, seat->refused);
}

void admit(const struct round *r)
{
	size_t *turn = mem_grow(NULL, r->c->count, sizeof(*turn)), count = 0;
	int full_pool = -1;
	enum reason_code full = REASON_NONE;
	for (size_t i = 0; i < r->c->count; i++) {
		if (is_candidate(r, i))
			turn[count++] = i;
	}
	qsort_r(turn, count, sizeof(*turn), by_turn, (void *)(uintptr_t)r);
	for (size_t i = 0; i < count; i++)
		admit_one(r, turn[i], &full_pool, &full);
	free(turn);
}

// Staging disturbs nobody, so neither waves nor windows stop it: only halts, pauses and its own number.
void admit_staging(const struct round *r)
{
	size_t *turn = mem_grow(NULL, r->c->count, sizeof(*turn)), count = 0;
	for (size_t i = 0; i < r->c->count; i++) {
		enum phase phase = r->c->members[i].record.phase;
		struct view v = round_view(r, i);
		r->s->staging += phase == PHASE_STAGING;
		if (r->s->seats[i].pool >= 0 && (1U << phase) & RESTING && transition_rests(&v) == REASON_NONE)
			turn[count++] = i;
	}
	qsort_r(turn, count, sizeof(*turn), by_turn, (void *)(uintptr_t)r);
	for (size_t i = 0; i < count; i++) {
		bool is_full = r->s->staging >= r->c->policy->staging;
		enum reason_code why = refuse_paused(r, turn[i]);
		r->s->seats[turn[i]].refused = why != REASON_NONE ? why : is_full ? REASON_STAGING_FULL : REASON_NONE;
		r->s->staging += r->s->seats[turn[i]].refused == REASON_NONE;
	}
	free(turn);
}
