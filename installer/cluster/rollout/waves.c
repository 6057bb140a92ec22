// SPDX-License-Identifier: Apache-2.0
// Which wave a node belongs to: what was decided once, its label, the wave's selector, or a hash of its uid. Nothing is
// stored for those who wait, and a node that joins moves no other from one part to another. A group is of one wave, the
// first that any of its nodes is of, since it goes as one.
#include "cluster/rollout/scheduler_internal.h"
#include "cluster/rollout/transition_internal.h"

#include <stdio.h>

static unsigned find_wave(const struct pool *pool, const char *name)
{
	unsigned w = 0;
	while (w < pool->wave_count && !str_eq(pool->waves[w].name, name))
		w++;
	return w;
}

// FNV-1a, stirred: neighbours in a list of uids must not be neighbours here.
static uint64_t node_weight(const char *uid, const char *salt)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	const char *parts[] = { uid, "/", salt };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (const char *p = parts[i]; *p; p++)
			hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	hash ^= hash >> 33;
	hash *= UINT64_C(0xff51afd7ed558ccd);
	return hash ^ hash >> 33;
}

enum { OPEN = ~0U };

static unsigned settled_wave(const struct round *r, size_t at)
{
	const struct pool *pool = round_own_pool(r, at);
	const struct node_state *m = &r->c->nodes[at];
	if (*m->record.wave && target_hash_eq(&m->record.target, &round_own_rollout(r, at)->target)) {
		if (str_eq(m->record.wave, "rest"))
			return (unsigned)pool->wave_count;
		if (find_wave(pool, m->record.wave) < pool->wave_count)
			return find_wave(pool, m->record.wave);
	}
	if (*m->facts.wave && find_wave(pool, m->facts.wave) < pool->wave_count)
		return find_wave(pool, m->facts.wave);
	for (unsigned w = 0; w < pool->wave_count; w++)
		if (pool->waves[w].terms && (m->facts.terms & pool->waves[w].terms) == pool->waves[w].terms)
			return w;
	return OPEN;
}

// One of a group is as good as the other.
static void name_unit(const struct node_state *m, char ret[UID_TEXT])
{
	if (m->facts.group)
		snprintf(ret, UID_TEXT, "%016jx", (uintmax_t)m->facts.group);
	else
		memcpy(ret, m->uid, UID_TEXT);
}

static unsigned first_wave(const struct round *r, size_t at)
{
	unsigned first = OPEN;
	size_t i = at;
	do
		if (!r->c->nodes[i].facts.is_skipped && r->s->node_plans[i].wave < first)
			first = r->s->node_plans[i].wave;
	while ((i = r->s->node_plans[i].mate) != at);
	return first;
}

// How many nodes it took.
static unsigned put_group(const struct round *r, size_t at, unsigned wave)
{
	unsigned count = 0;
	size_t i = at;
	do {
		if (r->c->nodes[i].facts.is_skipped)
			continue;
		r->s->node_plans[i].wave = wave;
		count++;
	} while ((i = r->s->node_plans[i].mate) != at);
	return count;
}

static void join_waves(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++) {
		bool is_last = r->s->node_plans[i].mate < i; // of its group, so that each is looked at once
		unsigned first = is_last ? first_wave(r, i) : (unsigned)OPEN;
		if (first != (unsigned)OPEN)
			put_group(r, i, first);
	}
}

struct weighted_node {
	uint64_t hash;
	size_t at;
};
static int by_hash(const void *a, const void *b)
{
	const struct weighted_node *x = a, *y = b;
	return x->hash != y->hash ? (x->hash > y->hash ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

static struct weighted_node weigh_node(const struct round *r, size_t at, const char *salt)
{
	char unit[UID_TEXT];
	name_unit(&r->c->nodes[at], unit);
	return (struct weighted_node){ node_weight(unit, salt), at };
}

// The nodes with the greatest hashes, as many as the wave has room for, with their groups.
static void assign_wave_count(const struct round *r, int pool_at, unsigned wave)
{
	const struct pool *pool = &r->c->policy->pools[pool_at];
	unsigned left = pool->waves[wave].count;
	size_t count = 0;
	for (size_t i = 0; i < r->c->count; i++)
		left -= r->s->node_plans[i].pool == pool_at && r->s->node_plans[i].wave == wave && left > 0;
	if (!left)
		return;
	struct weighted_node *lots = mem_grow(NULL, r->c->count, sizeof(*lots));
	for (size_t i = 0; i < r->c->count; i++)
		if (r->s->node_plans[i].pool == pool_at && r->s->node_plans[i].wave == (unsigned)OPEN &&
		    !r->c->nodes[i].facts.is_skipped)
			lots[count++] = weigh_node(r, i, pool->waves[wave].name);
	qsort(lots, count, sizeof(*lots), by_hash);
	for (size_t i = 0, taken = 0; i < count && taken < left; i++)
		taken += r->s->node_plans[lots[i].at].wave == (unsigned)OPEN ? put_group(r, lots[i].at, wave) : 0;
	free(lots);
}

static unsigned by_percent(const struct pool *pool, const struct node_state *m)
{
	char unit[UID_TEXT];
	name_unit(m, unit);
	unsigned share = (unsigned)(node_weight(unit, pool->name) % 100), sum = 0;
	for (unsigned w = 0; w < pool->wave_count; w++) {
		sum += pool->waves[w].percent;
		if (pool->waves[w].percent && share < sum)
			return w;
	}
	return (unsigned)pool->wave_count;
}

void waves_assign(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++)
		if (r->s->node_plans[i].pool >= 0)
			r->s->node_plans[i].wave = settled_wave(r, i);
	join_waves(r);
	for (size_t p = 0; p < r->c->policy->pool_count; p++)
		for (unsigned w = 0; w < r->c->policy->pools[p].wave_count; w++)
			if (r->c->policy->pools[p].waves[w].count)
				assign_wave_count(r, (int)p, w);
	for (size_t i = 0; i < r->c->count; i++)
		if (r->s->node_plans[i].pool >= 0 && r->s->node_plans[i].wave == (unsigned)OPEN)
			r->s->node_plans[i].wave = by_percent(round_own_pool(r, i), &r->c->nodes[i]);
}

// Nothing more is to be expected of it in this rollout, well or not: it blocks no other node (T72, T73).
static bool is_node_settled(const struct round *r, size_t at)
{
	const struct node_state *m = &r->c->nodes[at];
	struct view v = scheduler_round_view(r, at);
	if (node_phase_info(m->record.phase)->is_disruptive && m->record.phase != PHASE_UNKNOWN)
		return false;
	switch (m->record.phase) {
	case PHASE_STAGING:
	case PHASE_LOADING:
		return false;
	case PHASE_QUEUED:
		return !m->facts.is_ready || m->facts.is_paused || scheduler_refusal(r, at) == REASON_FOREIGN_CORDON;
	case PHASE_IDLE:
	case PHASE_DONE:
	case PHASE_ROLLEDBACK:
		switch (transition_rests(&v)) {
		case REASON_UP_TO_DATE:
		case REASON_FAILED_TARGET:
		case REASON_ATTEMPTS_SPENT:
		case REASON_NO_REPORT:
		case REASON_NOT_READY:
		case REASON_NODE_PAUSED:
			return true;
		default:
			return rule_stand_down_reason(&v) != REASON_NONE;
		}
	default:
		return true;
	}
}

// Whose group waits for one of whom nothing is to be expected waits for nothing.
static bool is_unit_settled(const struct round *r, size_t at)
{
	if (is_node_settled(r, at) || r->c->nodes[at].record.phase != PHASE_QUEUED)
		return is_node_settled(r, at);
	for (size_t i = r->s->node_plans[at].mate; i != at; i = r->s->node_plans[i].mate) {
		struct view v = scheduler_round_view(r, i);
		struct target_hash goal = transition_goal(&v);
		if (!v.m->facts.is_skipped && !rule_is_loaded(&v, &goal) && is_node_settled(r, i))
			return true;
	}
	return false;
}

// Complete, but the target is untested: no node, none that answered, none that could be drained.
static void set_untested(const struct pool *pool, unsigned wave, struct sum *sum)
{
	sum->is_untested = true;
	sum->blocked.code = REASON_WAVE_UNTESTED;
	snprintf(sum->blocked.object, sizeof(sum->blocked.object), "%s", policy_wave_name(pool, wave));
}

static void advance_pool(const struct pool *pool, struct rollout *rollout, struct sum *sum, int64_t now)
{
	unsigned w = rollout->wave;
	if (!sum->is_wave_complete || rollout->is_halted) {
		rollout->soak_since = 0;
		return;
	}
	if (w >= pool->wave_count) { // the last one
		rollout->stable = sum->proven ? rollout->target : rollout->stable;
		return;
	}
	if (sum->proven < pool->waves[w].done && rollout->approved < w + 1) {
		set_untested(pool, w, sum);
		rollout->soak_since = 0;
		return;
	}
	rollout->soak_since = rollout->soak_since ? rollout->soak_since : now;
	bool is_manual = w + 1 < pool->wave_count && pool->waves[w + 1].is_manual;
	if (now < rollout->soak_since + (int64_t)pool->waves[w].soak || (is_manual && rollout->approved < w + 1))
		return;
	rollout->wave = w + 1;
	rollout->soak_since = 0;
}

void waves_advance(const struct round *r)
{
	for (size_t p = 0; p < r->c->policy->pool_count; p++)
		r->s->sums[p].is_wave_complete = true;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct node_plan *node_plan = &r->s->node_plans[i];
		const struct record *record = &r->c->nodes[i].record;
		if (node_plan->pool < 0 || node_plan->wave > r->s->rollouts[node_plan->pool].wave)
			continue;
		struct sum *sum = &r->s->sums[node_plan->pool];
		sum->is_wave_complete = sum->is_wave_complete && is_unit_settled(r, i);
		sum->proven += record->phase == PHASE_DONE && !node_plan->is_failed &&
			       target_hash_eq(&record->target, &r->s->rollouts[node_plan->pool].target);
	}
	for (size_t p = 0; p < r->c->policy->pool_count; p++)
		advance_pool(&r->c->policy->pools[p], &r->s->rollouts[p], &r->s->sums[p], r->c->now);
}
