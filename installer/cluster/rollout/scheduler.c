// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/scheduler_internal.h"

#include <stdio.h>

void scheduler_ledger_done(struct slot_ledger *l)
{
	free(l->items);
	*l = (struct slot_ledger){ 0 };
}

void scheduler_slots_done(struct slots *s)
{
	free(s->node_plans);
	free(s->sums);
	free(s->rollouts);
	scheduler_ledger_done(&s->ledger);
	*s = SLOTS_NONE;
}

static int by_uid(const void *a, const void *b)
{
	const struct ledger_entry *x = a, *y = b;
	return strcmp(x->uid, y->uid);
}

static bool is_node_led_elsewhere(const struct cluster *c, const struct node_state *m)
{
	return c->leader && *m->record.leader && !str_eq(m->record.leader, c->leader) &&
	       !(c->gone && strv_has(c->gone, m->record.leader));
}

static int by_group(const void *a, const void *b, void *round)
{
	const struct round *r = round;
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	uint64_t x = r->c->nodes[i].facts.group, y = r->c->nodes[k].facts.group;
	int x_pool = r->s->node_plans[i].pool, y_pool = r->s->node_plans[k].pool;
	if (x_pool != y_pool)
		return x_pool < y_pool ? -1 : 1;
	return x != y ? (x < y ? -1 : 1) : i < k ? -1 : i > k;
}

static bool is_one_group(const struct round *r, size_t i, size_t k)
{
	return r->s->node_plans[i].pool == r->s->node_plans[k].pool &&
	       r->c->nodes[i].facts.group == r->c->nodes[k].facts.group;
}

// Once a plan, so that nobody looks for mates among thousands of nodes.
static void join_groups(const struct round *r)
{
	struct node_plan *node_plans = r->s->node_plans;
	size_t *order = mem_grow(NULL, r->c->count, sizeof(*order)), count = 0;
	for (size_t i = 0; i < r->c->count; i++) {
		node_plans[i].mate = i;
		if (r->c->nodes[i].facts.group && node_plans[i].pool >= 0)
			order[count++] = i;
	}
	qsort_r(order, count, sizeof(*order), by_group, (void *)(uintptr_t)r);
	for (size_t n = 1; n < count; n++) {
		size_t at = order[n], before = order[n - 1];
		if (!is_one_group(r, at, before))
			continue;
		node_plans[at].mate = node_plans[before].mate;
		node_plans[before].mate = at;
	}
	free(order);
}

static void plan_nodes(const struct round *r)
{
	size_t count = r->c->ledger->count;
	struct ledger_entry *sorted = mem_grow(NULL, count, sizeof(*sorted));
	if (count)
		memcpy(sorted, r->c->ledger->items, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), by_uid);
	for (size_t i = 0; i < r->c->count; i++) {
		struct node_plan *node_plan = &r->s->node_plans[i];
		struct ledger_entry key = { 0 };
		memcpy(key.uid, r->c->nodes[i].uid, sizeof(key.uid));
		const struct ledger_entry *entry = bsearch(&key, sorted, count, sizeof(*sorted), by_uid);
		const struct pool *pool = policy_pool(r->c->policy, &r->c->nodes[i]);
		node_plan->had = entry ? entry->slot : SLOT_NONE;
		const struct pool *home = policy_home(r->c->policy, &r->c->nodes[i]);
		bool is_ours = !is_node_led_elsewhere(r->c, &r->c->nodes[i]); // else it is as if no pool had it
		node_plan->pool = pool && is_ours ? (int)(pool - r->c->policy->pools) : -1;
		node_plan->home = home ? (int)(home - r->c->policy->pools) : -1;
	}
	free(sorted);
}

struct view scheduler_round_view(const struct round *r, size_t at)
{
	const struct pool *pool = round_pool(r, at);
	return (struct view){
		.m = &r->c->nodes[at],
		.pool = pool,
		.rollout = round_rollout(r, at),
		.slot = r->s->node_plans[at].had,
		.refused = r->s->node_plans[at].refused,
		.is_revoked = r->s->node_plans[at].is_revoked,
		.wave = pool ? waves_name(pool, r->s->node_plans[at].wave) : "",
		.epoch = r->c->epoch,
		.now = r->c->now,
		.leader = r->c->leader,
		.is_led_elsewhere = is_node_led_elsewhere(r->c, &r->c->nodes[at]),
	};
}

struct view scheduler_view(const struct cluster *c, const struct slots *s, size_t at)
{
	struct slots copy = *s;
	return scheduler_round_view(&(struct round){ c, &copy }, at);
}

// A group goes as one: nobody of it is cordoned before the pods of all of them were looked at, and nobody where one of
// them must not be drained. Once one is under way that is settled.
static enum reason_code group_refusal(const struct round *r, size_t at)
{
	enum reason_code why = REASON_NONE;
	for (size_t i = r->s->node_plans[at].mate; i != at; i = r->s->node_plans[i].mate) {
		const struct node_state *mate = &r->c->nodes[i];
		bool is_queued = mate->record.phase == PHASE_QUEUED && r->s->node_plans[i].had != SLOT_NONE;
		if (node_phase_info(mate->record.phase)->is_disruptive)
			return REASON_NONE;
		if (mate->record.phase == PHASE_HELD && mate->record.reason.code == REASON_HOLDER_PROTECTED)
			why = REASON_GROUP_INCOMPLETE;
		else if (is_queued && why == REASON_NONE &&
			 (node_state_pods(mate)->pods < 0 ||
			  node_state_pods(mate)->blocker.code == REASON_HOLDER_PROTECTED))
			why = REASON_PODS_UNKNOWN;
	}
	return why;
}

// Its slot is kept while it waits for its group to be looked at.
static void keep_queued(const struct round *r, size_t at)
{
	struct node_plan *node_plan = &r->s->node_plans[at];
	node_plan->refused = scheduler_refusal(r, at);
	if (node_plan->refused == REASON_NONE && !r->c->nodes[at].record.receipt.is_there)
		node_plan->refused = group_refusal(r, at);
	node_plan->has = node_plan->refused == REASON_NONE || node_plan->refused == REASON_PODS_UNKNOWN ?
				 node_plan->had :
				 SLOT_NONE;
}

// What stands in the ledger and what the nodes say are put together before anything is granted (T50, T60): who is
// disruptive counts, with or without an entry; who rests gives the entry back.
static void keep_or_free_slots(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++) {
		struct node_plan *node_plan = &r->s->node_plans[i];
		enum node_phase phase = r->c->nodes[i].record.phase;
		const struct node_state *m = &r->c->nodes[i];
		bool is_waiting = phase == PHASE_WAITING; // and one more job may come when the slot for work is there
		bool has_job = is_waiting && !m->record.receipt.waited && node_state_pods(m)->jobs > 0;
		if (is_node_led_elsewhere(r->c, &r->c->nodes[i]))
			continue;
		if (phase == PHASE_UNKNOWN)
			node_plan->has = node_plan->had;
		else if (node_phase_info(phase)->is_disruptive)
			node_plan->has = node_plan->had != SLOT_NONE && !has_job ? node_plan->had :
					 is_waiting                              ? SLOT_WAIT :
										   SLOT_WORK;
		else if (phase == PHASE_QUEUED && node_plan->had != SLOT_NONE)
			keep_queued(r, i);
		else if (!r->c->nodes[i].record.has_phase && node_plan->had != SLOT_NONE)
			node_plan->has = node_plan->had; // its keys were deleted: it is rebuilt first (T62)
	}
}

// Its pool was renamed or removed while it was under way: it is as unavailable as before.
static void add_stray(const struct round *r, size_t at)
{
	const struct node_plan *node_plan = &r->s->node_plans[at];
	struct sum *sum = node_plan->home < 0 ? &r->s->strays : &r->s->sums[node_plan->home];
	sum->used += node_plan->has == SLOT_WORK;
	sum->waiting += node_plan->has == SLOT_WAIT;
	sum->unavailable += node_plan->has != SLOT_NONE;
}

static void sum_pools(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++) {
		const struct node_state *m = &r->c->nodes[i];
		const struct node_plan *node_plan = &r->s->node_plans[i];
		if (node_plan->pool < 0) {
			add_stray(r, i);
			continue;
		}
		struct sum *sum = &r->s->sums[node_plan->pool];
		bool is_ours = node_plan->has != SLOT_NONE;
		bool is_away = !m->facts.is_ready || m->facts.is_unschedulable || m->record.phase == PHASE_UNKNOWN;
		sum->total += !m->facts.is_skipped;
		sum->used += node_plan->has == SLOT_WORK;
		sum->waiting += node_plan->has == SLOT_WAIT;
		sum->unavailable += is_away || is_ours;
		sum->others += is_away && !is_ours;
	}
	for (size_t p = 0; p < r->c->policy->pool_count; p++) {
		const struct pool *pool = &r->c->policy->pools[p];
		struct sum *sum = &r->s->sums[p];
		unsigned frozen = r->s->rollouts[p].frozen;
		sum->total = frozen && frozen < sum->total ? frozen : sum->total;
		sum->parallel_limit = policy_limit(&pool->parallel, sum->total);
		sum->unavailable_limit = policy_limit(&pool->unavailable, sum->total);
	}
}

// Two nodes may each hold a pod that the other's budget waits for (T06).
static void revoke_one(const struct round *r)
{
	size_t youngest = r->c->count, evicting = 0;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct node_state *m = &r->c->nodes[i];
		const struct pool *pool = round_pool(r, i);
		if (m->record.phase != PHASE_EVICTING || is_node_led_elsewhere(r->c, m))
			continue;
		evicting++;
		int64_t blocked_since = node_state_pods(m)->blocked_since;
		if (!blocked_since || r->c->now < blocked_since + (int64_t)policy_span(pool, SPAN_DEADLOCK))
			return;
		if (youngest == r->c->count || m->record.since > r->c->nodes[youngest].record.since ||
		    (m->record.since == r->c->nodes[youngest].record.since &&
		     strcmp(m->name, r->c->nodes[youngest].name) > 0))
			youngest = i;
	}
	if (evicting >= 2)
		r->s->node_plans[youngest].is_revoked = true;
}

static void write_ledger(const struct round *r)
{
	struct slot_ledger *l = &r->s->ledger;
	size_t kept = 0;
	l->items = mem_grow(NULL, r->c->count, sizeof(*l->items));
	for (size_t i = 0; i < r->c->count; i++) {
		const struct node_plan *node_plan = &r->s->node_plans[i];
		r->s->granted += node_plan->has > node_plan->had;
		kept += node_plan->has != SLOT_NONE && node_plan->had != SLOT_NONE;
		if (node_plan->has == SLOT_NONE)
			continue;
		l->items[l->count] = (struct ledger_entry){ .slot = node_plan->has };
		memcpy(l->items[l->count++].uid, r->c->nodes[i].uid, UID_TEXT);
	}
	r->s->freed = r->c->ledger->count - kept; // entries of nodes that are gone are among them (T70)
}

void scheduler_plan(const struct cluster *c, struct slots *ret)
{
	size_t pools = c->policy->pool_count;
	*ret = (struct slots){ .node_plans = mem_alloc(c->count * sizeof(*ret->node_plans)),
			       .sums = mem_alloc(pools * sizeof(*ret->sums)),
			       .rollouts = mem_alloc(pools * sizeof(*ret->rollouts)) };
	struct round r = { c, ret };
	memcpy(ret->rollouts, c->rollouts, pools * sizeof(*ret->rollouts));
	plan_nodes(&r);
	join_groups(&r);
	halt_begin_rollouts(&r);
	waves_assign(&r);
	for (size_t p = 0; p < pools; p++)
		for (size_t i = 0; i < c->count; i++)
			ret->sums[p].total += ret->node_plans[i].pool == (int)p && !c->nodes[i].facts.is_skipped;
	halt_count_failures(&r);
	for (size_t p = 0; p < pools; p++)
		ret->sums[p].total = 0;
	waves_advance(&r);
	keep_or_free_slots(&r);
	sum_pools(&r);
	scheduler_admit(&r);
	scheduler_admit_staging(&r);
	revoke_one(&r);
	write_ledger(&r);
}
