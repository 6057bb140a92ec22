// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/scheduler_internal.h"

#include <stdio.h>

void ledger_done(struct ledger *l)
{
	free(l->items);
	*l = (struct ledger){ 0 };
}

void slots_done(struct slots *s)
{
	free(s->seats);
	free(s->sums);
	free(s->rollouts);
	ledger_done(&s->ledger);
	*s = SLOTS_NONE;
}

static int by_uid(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	return strcmp(x->uid, y->uid);
}

static bool is_led_elsewhere(const struct cluster *c, const struct member *m)
{
	return c->leader && *m->record.leader && !str_eq(m->record.leader, c->leader) &&
	       !(c->gone && strv_has(c->gone, m->record.leader));
}

static int by_group(const void *a, const void *b, void *round)
{
	const struct round *r = round;
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	uint64_t x = r->c->members[i].facts.group, y = r->c->members[k].facts.group;
	int x_pool = r->s->seats[i].pool, y_pool = r->s->seats[k].pool;
	if (x_pool != y_pool)
		return x_pool < y_pool ? -1 : 1;
	return x != y ? (x < y ? -1 : 1) : i < k ? -1 : i > k;
}

static bool is_one_group(const struct round *r, size_t i, size_t k)
{
	return r->s->seats[i].pool == r->s->seats[k].pool &&
	       r->c->members[i].facts.group == r->c->members[k].facts.group;
}

// Once a plan, so that nobody looks for mates among thousands of nodes.
static void join_groups(const struct round *r)
{
	struct seat *seats = r->s->seats;
	size_t *order = mem_grow(NULL, r->c->count, sizeof(*order)), count = 0;
	for (size_t i = 0; i < r->c->count; i++) {
		seats[i].mate = i;
		if (r->c->members[i].facts.group && seats[i].pool >= 0)
			order[count++] = i;
	}
	qsort_r(order, count, sizeof(*order), by_group, (void *)(uintptr_t)r);
	for (size_t n = 1; n < count; n++) {
		size_t at = order[n], before = order[n - 1];
		if (!is_one_group(r, at, before))
			continue;
		seats[at].mate = seats[before].mate;
		seats[before].mate = at;
	}
	free(order);
}

static void seat_all(const struct round *r)
{
	size_t count = r->c->ledger->count;
	struct entry *sorted = mem_grow(NULL, count, sizeof(*sorted));
	if (count)
		memcpy(sorted, r->c->ledger->items, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), by_uid);
	for (size_t i = 0; i < r->c->count; i++) {
		struct seat *seat = &r->s->seats[i];
		struct entry key = { 0 };
		memcpy(key.uid, r->c->members[i].uid, sizeof(key.uid));
		const struct entry *entry = bsearch(&key, sorted, count, sizeof(*sorted), by_uid);
		const struct pool *pool = policy_pool(r->c->policy, &r->c->members[i]);
		seat->had = entry ? entry->slot : SLOT_NONE;
		const struct pool *home = policy_home(r->c->policy, &r->c->members[i]);
		bool is_ours = !is_led_elsewhere(r->c, &r->c->members[i]); // else it is as if no pool had it
		seat->pool = pool && is_ours ? (int)(pool - r->c->policy->pools) : -1;
		seat->home = home ? (int)(home - r->c->policy->pools) : -1;
	}
	free(sorted);
}

struct view round_view(const struct round *r, size_t at)
{
	const struct pool *pool = round_pool(r, at);
	return (struct view){
		.m = &r->c->members[at],
		.pool = pool,
		.rollout = round_rollout(r, at),
		.slot = r->s->seats[at].had,
		.refused = r->s->seats[at].refused,
		.is_revoked = r->s->seats[at].is_revoked,
		.wave = pool ? slots_wave_name(pool, r->s->seats[at].wave) : "",
		.epoch = r->c->epoch,
		.now = r->c->now,
		.leader = r->c->leader,
		.is_led_elsewhere = is_led_elsewhere(r->c, &r->c->members[at]),
	};
}

struct view slots_view(const struct cluster *c, const struct slots *s, size_t at)
{
	struct slots copy = *s;
	return round_view(&(struct round){ c, &copy }, at);
}

// A group goes as one: nobody of it is cordoned before the pods of all of them were looked at, and nobody where one of
// them must not be drained. Once one is under way that is settled.
static enum reason_code group_waits(const struct round *r, size_t at)
{
	enum reason_code why = REASON_NONE;
	for (size_t i = r->s->seats[at].mate; i != at; i = r->s->seats[i].mate) {
		const struct member *mate = &r->c->members[i];
		bool is_queued = mate->record.phase == PHASE_QUEUED && r->s->seats[i].had != SLOT_NONE;
		if (phase_info(mate->record.phase)->is_disruptive)
			return REASON_NONE;
		if (mate->record.phase == PHASE_HELD && mate->record.reason.code == REASON_HOLDER_PROTECTED)
			why = REASON_GROUP_INCOMPLETE;
		else if (is_queued && why == REASON_NONE &&
			 (member_seen(mate)->pods < 0 || member_seen(mate)->blocker.code == REASON_HOLDER_PROTECTED))
			why = REASON_PODS_UNKNOWN;
	}
	return why;
}

// Its slot is kept while it waits for its group to be looked at.
static void keep_queued(const struct round *r, size_t at)
{
	struct seat *seat = &r->s->seats[at];
	seat->refused = refusal(r, at);
	if (seat->refused == REASON_NONE && !r->c->members[at].record.receipt.is_there)
		seat->refused = group_waits(r, at);
	seat->has = seat->refused == REASON_NONE || seat->refused == REASON_PODS_UNKNOWN ? seat->had : SLOT_NONE;
}

// What stands in the ledger and what the nodes say are put together before anything is granted (T50, T60): who is
// disruptive counts, with or without an entry; who rests gives the entry back.
static void keep_or_free(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++) {
		struct seat *seat = &r->s->seats[i];
		enum phase phase = r->c->members[i].record.phase;
		const struct member *m = &r->c->members[i];
		bool is_waiting = phase == PHASE_WAITING; // and one more job may come when the slot for work is there
		bool has_job = is_waiting && !m->record.receipt.waited && member_seen(m)->jobs > 0;
		if (is_led_elsewhere(r->c, &r->c->members[i]))
			continue;
		if (phase == PHASE_UNKNOWN)
			seat->has = seat->had;
		else if (phase_info(phase)->is_disruptive)
			seat->has = seat->had != SLOT_NONE && !has_job ? seat->had : is_waiting ? SLOT_WAIT : SLOT_WORK;
		else if (phase == PHASE_QUEUED && seat->had != SLOT_NONE)
			keep_queued(r, i);
		else if (!r->c->members[i].record.has_phase && seat->had != SLOT_NONE)
			seat->has = seat->had; // its keys were deleted: it is rebuilt first (T62)
	}
}

// Its pool was renamed or removed while it was under way: it is as unavailable as before.
static void add_stray(const struct round *r, size_t at)
{
	const struct seat *seat = &r->s->seats[at];
	struct sum *sum = seat->home < 0 ? &r->s->strays : &r->s->sums[seat->home];
	sum->used += seat->has == SLOT_WORK;
	sum->waiting += seat->has == SLOT_WAIT;
	sum->unavailable += seat->has != SLOT_NONE;
}

static void sum_up(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++) {
		const struct member *m = &r->c->members[i];
		const struct seat *seat = &r->s->seats[i];
		if (seat->pool < 0) {
			add_stray(r, i);
			continue;
		}
		struct sum *sum = &r->s->sums[seat->pool];
		bool is_ours = seat->has != SLOT_NONE;
		bool is_away = !m->facts.is_ready || m->facts.is_unschedulable || m->record.phase == PHASE_UNKNOWN;
		sum->total += !m->facts.is_skipped;
		sum->used += seat->has == SLOT_WORK;
		sum->waiting += seat->has == SLOT_WAIT;
		sum->unavailable += is_away || is_ours;
		sum->others += is_away && !is_ours;
	}
	for (size_t p = 0; p < r->c->policy->pool_count; p++) {
		const struct pool *pool = &r->c->policy->pools[p];
		struct sum *sum = &r->s->sums[p];
		unsigned frozen = r->s->rollouts[p].frozen;
		sum->total = frozen && frozen < sum->total ? frozen : sum->total;
		sum->parallel_limit = limit_of(&pool->parallel, sum->total);
		sum->unavailable_limit = limit_of(&pool->unavailable, sum->total);
	}
}

// Two nodes may each hold a pod that the other's budget waits for (T06).
static void revoke_one(const struct round *r)
{
	size_t youngest = r->c->count, evicting = 0;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct member *m = &r->c->members[i];
		const struct pool *pool = round_pool(r, i);
		if (m->record.phase != PHASE_EVICTING || is_led_elsewhere(r->c, m))
			continue;
		evicting++;
		int64_t blocked_since = member_seen(m)->blocked_since;
		if (!blocked_since || r->c->now < blocked_since + (int64_t)span_of(pool, SPAN_DEADLOCK))
			return;
		if (youngest == r->c->count || m->record.since > r->c->members[youngest].record.since ||
		    (m->record.since == r->c->members[youngest].record.since &&
		     strcmp(m->name, r->c->members[youngest].name) > 0))
			youngest = i;
	}
	if (evicting >= 2)
		r->s->seats[youngest].is_revoked = true;
}

static void write_ledger(const struct round *r)
{
	struct ledger *l = &r->s->ledger;
	size_t kept = 0;
	l->items = mem_grow(NULL, r->c->count, sizeof(*l->items));
	for (size_t i = 0; i < r->c->count; i++) {
		const struct seat *seat = &r->s->seats[i];
		r->s->granted += seat->has > seat->had;
		kept += seat->has != SLOT_NONE && seat->had != SLOT_NONE;
		if (seat->has == SLOT_NONE)
			continue;
		l->items[l->count] = (struct entry){ .slot = seat->has };
		memcpy(l->items[l->count++].uid, r->c->members[i].uid, UID_TEXT);
	}
	r->s->freed = r->c->ledger->count - kept; // entries of nodes that are gone are among them (T70)
}

void slots_plan(const struct cluster *c, struct slots *ret)
{
	size_t pools = c->policy->pool_count;
	*ret = (struct slots){ .seats = mem_alloc(c->count * sizeof(*ret->seats)),
			       .sums = mem_alloc(pools * sizeof(*ret->sums)),
			       .rollouts = mem_alloc(pools * sizeof(*ret->rollouts)) };
	struct round r = { c, ret };
	memcpy(ret->rollouts, c->rollouts, pools * sizeof(*ret->rollouts));
	seat_all(&r);
	join_groups(&r);
	rollouts_begin(&r);
	waves_assign(&r);
	for (size_t p = 0; p < pools; p++)
		for (size_t i = 0; i < c->count; i++)
			ret->sums[p].total += ret->seats[i].pool == (int)p && !c->members[i].facts.is_skipped;
	failures_count(&r);
	for (size_t p = 0; p < pools; p++)
		ret->sums[p].total = 0;
	waves_advance(&r);
	keep_or_free(&r);
	sum_up(&r);
	admit(&r);
	admit_staging(&r);
	revoke_one(&r);
	write_ledger(&r);
}
