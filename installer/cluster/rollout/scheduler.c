// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/rules_internal.h"
#include "cluster/rollout/scheduler_internal.h"

#include <limits.h>
#include <stdio.h>

// The scheduler leaves alone a node that the coordinator of another namespace manages.
static bool is_led_elsewhere(const struct cluster *c, const struct node_state *m)
{
	return c->leader && *m->record.leader && !str_eq(m->record.leader, c->leader) &&
	       !(c->gone && strv_has(c->gone, m->record.leader));
}

static const struct validation_job *find_job(const struct cluster *c, const struct node_state *m)
{
	for (size_t i = 0; i < c->job_count; i++)
		if (str_eq(c->jobs[i].uid, m->uid) && node_seq_cmp(c->jobs[i].order, m->record.go.seq) == 0)
			return &c->jobs[i];
	return NULL;
}

struct view scheduler_view(const struct cluster *c, const struct slots *s, size_t at)
{
	const struct node_plan *node_plan = &s->node_plans[at];
	const struct pool *pool = node_plan->pool < 0 ? NULL : &c->policy->pools[node_plan->pool];
	return (struct view){
		.m = &c->nodes[at],
		.pool = pool,
		.rollout = pool ? &s->rollouts[node_plan->pool] : NULL,
		.job = find_job(c, &c->nodes[at]),
		.slot = node_plan->had,
		.refused = node_plan->refused,
		.is_revoked = node_plan->is_revoked,
		.wave = pool ? policy_wave_name(pool, node_plan->wave) : "",
		.epoch = c->epoch,
		.now = c->now,
		.leader = c->leader,
		.is_led_elsewhere = is_led_elsewhere(c, &c->nodes[at]),
		.led = c->led,
	};
}

static enum reason_code refuse_no_pool(const struct round *r, size_t at)
{
	struct view v = scheduler_view(r->c, r->s, at);
	return rule_stand_down_reason(&v);
}

// It is still cordoned by us and its driver works: its release is no new disruption, whatever is paused or closed.
static bool is_recovery(const struct round *r, size_t at)
{
	struct view v = scheduler_view(r->c, r->s, at);
	return v.m->record.phase == PHASE_QUEUED && v.m->record.receipt.is_there && rule_recovers(&v);
}

static bool has_zero_limit(const struct round *r, size_t at)
{
	const struct pool *pool = round_pool(r, at);
	return !pool->parallel.value || !pool->unavailable.value || !r->c->policy->parallel.value ||
	       !r->c->policy->unavailable.value;
}

static enum reason_code refuse_paused(const struct round *r, size_t at)
{
	bool is_paused = r->c->policy->is_paused || has_zero_limit(r, at);
	return is_paused && !is_recovery(r, at) ? REASON_PAUSED : REASON_NONE;
}

static enum reason_code refuse_node_paused(const struct round *r, size_t at)
{
	return r->c->nodes[at].facts.is_paused && !is_recovery(r, at) ? REASON_NODE_PAUSED : REASON_NONE;
}

static enum reason_code refuse_halted(const struct round *r, size_t at)
{
	struct view v = scheduler_view(r->c, r->s, at);
	return v.rollout->is_halted && rule_is_moving(&v) ? REASON_HALTED : REASON_NONE;
}

static enum reason_code refuse_not_ready(const struct round *r, size_t at)
{
	return r->c->nodes[at].facts.is_ready ? REASON_NONE : REASON_NOT_READY;
}

static enum reason_code foreign_cordon(const struct round *r, size_t at)
{
	const struct node_state *m = &r->c->nodes[at];
	bool is_foreign = m->facts.is_unschedulable && !m->record.receipt.is_there;
	return is_foreign && round_own_pool(r, at)->foreign_cordon == CORDON_IGNORE ? REASON_FOREIGN_CORDON :
										      REASON_NONE;
}

static enum reason_code refuse_gpu_broken(const struct round *r, size_t at)
{
	struct view v = scheduler_view(r->c, r->s, at);
	return rule_is_moving(&v) && rule_is_ill_before(&v) ? REASON_GPU_BROKEN : REASON_NONE;
}

static enum reason_code refuse_wave_closed(const struct round *r, size_t at)
{
	struct view v = scheduler_view(r->c, r->s, at);
	if (!v.rollout || r->s->node_plans[at].wave <= v.rollout->wave || rule_recovers(&v))
		return REASON_NONE;
	enum reason_code shut = r->s->sums[r->s->node_plans[at].pool].shut;
	bool is_later = shut == REASON_WAVE_APPROVAL && r->s->node_plans[at].wave > v.rollout->wave + 1;
	return shut == REASON_NONE || is_later ? REASON_WAVE_CLOSED : shut;
}

static enum reason_code refuse_window_closed(const struct round *r, size_t at)
{
	const struct pool *pool = round_pool(r, at);
	if (is_recovery(r, at) || policy_window_is_open(pool, r->c->now, pool->spans[SPAN_MARGIN]))
		return REASON_NONE;
	return REASON_WINDOW_CLOSED;
}

// Rows that `rollout why` shows.
const struct refusal_row refusals[] = {
	{ "it is in a pool, and not excluded", refuse_no_pool },
	{ "the policy is not paused, and no limit is 0", refuse_paused },
	{ "the node is not paused", refuse_node_paused },
	{ "the rollout is not halted", refuse_halted },
	{ "the node is ready", refuse_not_ready },
	{ "it was not cordoned by others", foreign_cordon },
	{ "none of its GPUs is broken before, or unhealthyBefore is replace", refuse_gpu_broken },
	{ "its wave is open", refuse_wave_closed },
	{ "a maintenance window is open", refuse_window_closed },
	{ 0 },
};

enum reason_code scheduler_refusal(const struct round *r, size_t at)
{
	for (const struct refusal_row *row = refusals; row->text; row++) {
		enum reason_code why = row->test(r, at);
		if (why != REASON_NONE)
			return why;
	}
	return REASON_NONE;
}

// Grants: in order, as far as the limits allow. A unit that is first and does not fit makes the others wait, so small
// ones never starve a large group.

static unsigned drained_in_vain(const struct node_state *m)
{
	return target_hash_eq(&m->record.drains.target_hash, &m->record.target) ? m->record.drains.failed : 0;
}

// Recoveries, nodes that waited for jobs, wave, unsuccessful drains last, retries, the coordinator's own node last,
// earlier failures last, idle nodes first, zone by zone, name.
static int by_admission_order(const void *a, const void *b, void *round)
{
	const struct round *r = round;
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	const struct node_state *x = &r->c->nodes[i], *y = &r->c->nodes[k];
	const struct {
		int64_t x, y;
	} keys[] = {
		{ r->s->node_plans[i].pool, r->s->node_plans[k].pool },
		{ !is_recovery(r, i), !is_recovery(r, k) },
		{ x->record.phase != PHASE_WAITING, y->record.phase != PHASE_WAITING },
		{ r->s->node_plans[i].wave, r->s->node_plans[k].wave },
		{ drained_in_vain(x), drained_in_vain(y) },
		{ x->record.retry == 0, y->record.retry == 0 },
		{ x->facts.is_ours, y->facts.is_ours },
		{ x->record.attempts, y->record.attempts },
		{ x->report.holders != 0, y->report.holders != 0 },
	};
	for (size_t n = 0; n < ARRAY_SIZE(keys); n++)
		if (keys[n].x != keys[n].y)
			return keys[n].x < keys[n].y ? -1 : 1;
	if (r->c->policy->zone && x->facts.zone != y->facts.zone)
		return x->facts.zone < y->facts.zone ? -1 : 1;
	return strcmp(x->name, y->name);
}

// A group is drained as a whole: its next node that is not excluded; first after the last one.
static size_t next_of_unit(const struct round *r, size_t first, size_t at)
{
	do
		at = r->s->node_plans[at].mate;
	while (at != first && r->c->nodes[at].facts.is_skipped);
	return at;
}

struct cost {
	unsigned work, waiting, unavailable;
	bool is_group, is_incomplete;
};
static struct cost cost_of(const struct round *r, size_t first)
{
	struct cost cost = { 0 };
	size_t i = first;
	do {
		const struct node_state *m = &r->c->nodes[i];
		struct view v = scheduler_view(r->c, r->s, i);
		struct target_hash goal = transition_goal(&v);
		cost.is_group = cost.is_group || i != first;
		if (i != first && (rule_is_loaded(&v, &goal) || r->s->node_plans[i].has != SLOT_NONE))
			continue;
		if (i != first && (m->record.phase != PHASE_QUEUED || scheduler_refusal(r, i) != REASON_NONE))
			cost.is_incomplete = true;
		bool waits = round_own_pool(r, i)->wait_for && m->record.phase == PHASE_QUEUED;
		cost.work += !waits;
		cost.waiting += waits;
		cost.unavailable +=
			!m->facts.is_unschedulable && m->facts.is_ready && r->s->node_plans[i].has == SLOT_NONE;
	} while ((i = next_of_unit(r, first, i)) != first);
	return cost;
}

static unsigned slots_left(unsigned limit, unsigned used)
{
	return limit > used ? limit - used : 0;
}

static bool is_unit_too_big(const struct sum *sum, const struct cost *cost, unsigned waiting_limit)
{
	return cost->is_group && (cost->work > sum->parallel_limit || cost->unavailable > sum->unavailable_limit ||
				  cost->waiting > waiting_limit);
}

// A group larger than the limit itself.
static enum reason_code unit_fits_alone(const struct pool *pool, const struct sum *sum)
{
	if (pool->overflow == OVERFLOW_HOLD)
		return REASON_GROUP_TOO_BIG;
	return sum->used || sum->waiting ? REASON_LIMIT_PARALLEL : REASON_NONE;
}

static enum reason_code unit_fits_pool(const struct pool *pool, const struct sum *sum, const struct cost *cost)
{
	if (is_unit_too_big(sum, cost, pool->waiting ? pool->waiting : UINT_MAX)) // 0 is a pause
		return unit_fits_alone(pool, sum);
	if (cost->work > slots_left(sum->parallel_limit, sum->used))
		return REASON_LIMIT_PARALLEL;
	if (cost->waiting > slots_left(pool->waiting, sum->waiting))
		return REASON_LIMIT_WAITING;
	if (cost->unavailable > slots_left(sum->unavailable_limit, sum->unavailable))
		return sum->others >= sum->unavailable_limit ? REASON_BUDGET_OTHERS : REASON_LIMIT_UNAVAILABLE;
	return REASON_NONE;
}

static enum reason_code unit_fits(const struct round *r, size_t at, const struct cost *cost)
{
	const struct policy *policy = r->c->policy;
	const struct pool *pool = round_own_pool(r, at);
	struct sum all = r->s->strays;
	for (size_t p = 0; p < policy->pool_count; p++) {
		all.total += r->s->sums[p].total;
		all.used += r->s->sums[p].used;
		all.waiting += r->s->sums[p].waiting;
		all.unavailable += r->s->sums[p].unavailable;
	}
	all.parallel_limit = policy_limit(&policy->parallel, all.total);
	all.unavailable_limit = policy_limit(&policy->unavailable, all.total);
	if (cost->is_incomplete)
		return REASON_GROUP_INCOMPLETE;
	if (all.used + all.waiting + cost->work + cost->waiting > LEDGER_MOST)
		return REASON_LIMIT_PARALLEL;
	if (is_unit_too_big(&all, cost, UINT_MAX)) {
		enum reason_code why = unit_fits_alone(pool, &all);
		if (why != REASON_NONE)
			return why;
	} else if (cost->work > slots_left(all.parallel_limit, all.used)) {
		return REASON_LIMIT_PARALLEL;
	} else if (cost->unavailable > slots_left(all.unavailable_limit, all.unavailable)) {
		return REASON_LIMIT_UNAVAILABLE;
	}
	return unit_fits_pool(pool, &r->s->sums[r->s->node_plans[at].pool], cost);
}

// Kept while slots are granted: a search among all nodes for each grant would be quadratic.
static void note_zone(const struct round *r, size_t at)
{
	struct sum *sum = &r->s->sums[r->s->node_plans[at].pool];
	uint64_t zone = r->c->nodes[at].facts.zone;
	if (sum->zones == ZONES_NONE) {
		sum->zones = ZONES_ONE;
		sum->zone = zone;
	} else if (sum->zone != zone) {
		sum->zones = ZONES_MORE;
	}
}

static bool is_other_zone(const struct round *r, size_t at)
{
	const struct sum *sum = &r->s->sums[r->s->node_plans[at].pool];
	bool is_other =
		sum->zones == ZONES_MORE || (sum->zones == ZONES_ONE && sum->zone != r->c->nodes[at].facts.zone);
	return is_other && round_own_pool(r, at)->is_by_zone;
}

static void grant_unit(const struct round *r, size_t first, const struct cost *cost)
{
	struct sum *sum = &r->s->sums[r->s->node_plans[first].pool];
	size_t i = first;
	do {
		struct node_plan *node_plan = &r->s->node_plans[i];
		const struct node_state *m = &r->c->nodes[i];
		if (i != first && (node_plan->has != SLOT_NONE || m->record.phase != PHASE_QUEUED))
			continue;
		bool waits = round_own_pool(r, i)->wait_for && m->record.phase == PHASE_QUEUED;
		sum->waiting -= node_plan->has == SLOT_WAIT;
		node_plan->has = waits ? SLOT_WAIT : SLOT_WORK;
		node_plan->refused = REASON_NONE;
		note_zone(r, i);
	} while ((i = next_of_unit(r, first, i)) != first);
	sum->used += cost->work;
	sum->waiting += cost->waiting;
	sum->unavailable += cost->unavailable;
}

// The nodes that are refused tell which other nodes use up the budget (T32).
static void set_blocked_reason(const struct round *r, int pool, enum reason_code why)
{
	struct reason *blocked = &r->s->sums[pool].blocked;
	size_t len = 0;
	*blocked = (struct reason){ .code = why };
	for (size_t i = 0; i < r->c->count && why == REASON_BUDGET_OTHERS; i++) {
		const struct node_facts *f = &r->c->nodes[i].facts;
		const char *name = r->c->nodes[i].name;
		if (r->s->node_plans[i].pool != pool || r->s->node_plans[i].has != SLOT_NONE ||
		    (f->is_ready && !f->is_unschedulable) || len + strlen(name) + 2 > OBJECT_TEXT)
			continue;
		if (len)
			blocked->object[len++] = ' ';
		memcpy(blocked->object + len, name, strlen(name));
		len += strlen(name);
	}
}

// A recovery is alone, whatever its group and its zone; a limit of 0 is a pause for other nodes.
static void release_one(const struct round *r, size_t at)
{
	struct node_plan *node_plan = &r->s->node_plans[at];
	const struct cost one = { .work = 1 };
	node_plan->refused = has_zero_limit(r, at) ? REASON_NONE : unit_fits(r, at, &one);
	if (node_plan->refused != REASON_NONE)
		return;
	node_plan->has = SLOT_WORK;
	note_zone(r, at);
	r->s->sums[node_plan->pool].used++;
}

static void admit_one(const struct round *r, size_t at, int *full_pool, enum reason_code *full)
{
	struct node_plan *node_plan = &r->s->node_plans[at];
	if (r->c->nodes[at].record.phase == PHASE_QUEUED && node_plan->has != SLOT_NONE)
		return; // with its group
	node_plan->refused = r->c->nodes[at].record.phase == PHASE_QUEUED ? scheduler_refusal(r, at) : REASON_NONE;
	if (node_plan->refused != REASON_NONE)
		return;
	if (*full_pool == node_plan->pool) {
		node_plan->refused = *full;
		return;
	}
	if (is_recovery(r, at)) {
		release_one(r, at);
	} else if (is_other_zone(r, at)) {
		node_plan->refused = REASON_OTHER_ZONE;
	} else if (node_plan->unfit != REASON_NONE) {
		node_plan->refused = node_plan->unfit;
	} else {
		struct cost cost = cost_of(r, at);
		node_plan->refused = unit_fits(r, at, &cost);
		if (node_plan->refused == REASON_NONE)
			grant_unit(r, at, &cost);
	}
	if (node_plan->refused == REASON_NONE)
		return;
	bool is_unfit = node_plan->refused == REASON_GROUP_INCOMPLETE || node_plan->refused == REASON_GROUP_TOO_BIG;
	for (size_t i = at; is_unfit && node_plan->unfit == REASON_NONE;) {
		i = r->s->node_plans[i].mate;
		r->s->node_plans[i].unfit = node_plan->refused;
	}
	if (is_unfit || node_plan->refused == REASON_OTHER_ZONE)
		return;
	*full_pool = node_plan->pool;
	*full = node_plan->refused;
	set_blocked_reason(r, node_plan->pool, node_plan->refused);
}

static void admit_slots(const struct round *r)
{
	size_t *turn = mem_grow(NULL, r->c->count, sizeof(*turn)), count = 0;
	int full_pool = -1;
	enum reason_code full = REASON_NONE;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct node_state *m = &r->c->nodes[i];
		enum slot has = r->s->node_plans[i].has;
		bool is_done_waiting = has == SLOT_WAIT && m->record.phase == PHASE_WAITING &&
				       (node_state_pods(m)->jobs == 0 || m->record.receipt.waited);
		bool is_queued = has == SLOT_NONE && m->record.phase == PHASE_QUEUED;
		if (r->s->node_plans[i].pool >= 0 && (is_done_waiting || is_queued))
			turn[count++] = i;
	}
	qsort_r(turn, count, sizeof(*turn), by_admission_order, (void *)(uintptr_t)r);
	for (size_t i = 0; i < count; i++)
		admit_one(r, turn[i], &full_pool, &full);
	free(turn);
}

// Staging disturbs no workload: neither waves nor windows stop it, only halts, pauses and its own limit.
static void admit_staging(const struct round *r)
{
	size_t *turn = mem_grow(NULL, r->c->count, sizeof(*turn)), count = 0;
	for (size_t i = 0; i < r->c->count; i++) {
		enum node_phase phase = r->c->nodes[i].record.phase;
		struct view v = scheduler_view(r->c, r->s, i);
		r->s->staging += phase == PHASE_STAGING;
		if (r->s->node_plans[i].pool >= 0 && (1U << phase) & RESTING && transition_rests(&v) == REASON_NONE)
			turn[count++] = i;
	}
	qsort_r(turn, count, sizeof(*turn), by_admission_order, (void *)(uintptr_t)r);
	for (size_t i = 0; i < count; i++) {
		bool is_full = r->s->staging >= r->c->policy->staging;
		enum reason_code why = refuse_paused(r, turn[i]);
		r->s->node_plans[turn[i]].refused = why != REASON_NONE ? why :
						    is_full            ? REASON_STAGING_FULL :
									 REASON_NONE;
		r->s->staging += r->s->node_plans[turn[i]].refused == REASON_NONE;
	}
	free(turn);
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

// Once a plan, to avoid a search for each node among thousands.
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
		if (node_plans[at].pool != node_plans[before].pool ||
		    r->c->nodes[at].facts.group != r->c->nodes[before].facts.group)
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
		bool is_ours = !is_led_elsewhere(r->c, &r->c->nodes[i]); // else it counts as without a pool
		node_plan->pool = pool && is_ours ? (int)(pool - r->c->policy->pools) : -1;
		node_plan->home = home ? (int)(home - r->c->policy->pools) : -1;
	}
	free(sorted);
}

// A group is drained as a whole: no node is cordoned before the pods of all its nodes were listed and all its agents
// heard, and none if one of them must not or cannot be drained. That is decided once the first one is cordoned.
static enum reason_code group_refusal(const struct round *r, size_t at)
{
	enum reason_code why = REASON_NONE;
	for (size_t i = r->s->node_plans[at].mate; i != at; i = r->s->node_plans[i].mate) {
		const struct node_state *mate = &r->c->nodes[i];
		bool is_queued = mate->record.phase == PHASE_QUEUED && r->s->node_plans[i].had != SLOT_NONE;
		if (node_phase_info(mate->record.phase)->is_disruptive)
			return REASON_NONE;
		enum reason_code held = mate->record.phase == PHASE_HELD ? mate->record.reason.code : REASON_NONE;
		struct view v = scheduler_view(r->c, r->s, i);
		bool is_out = held == REASON_HOLDER_PROTECTED || held == REASON_AGENT_SILENT ||
			      mate->record.phase == PHASE_STAGING;
		if (is_out)
			why = REASON_GROUP_INCOMPLETE;
		else if (is_queued && why == REASON_NONE &&
			 (node_state_pods(mate)->pods < 0 ||
			  node_state_pods(mate)->blocker.code == REASON_HOLDER_PROTECTED))
			why = REASON_PODS_UNKNOWN;
		else if (is_queued && why == REASON_NONE && rule_unloads(&v) && !rule_is_heard(&v))
			why = REASON_AGENT_ASKED;
	}
	return why;
}

// The ledger and the nodes' states are reconciled before anything is granted (T50, T60): a node in a disruptive state
// counts, with or without an entry; a node at rest gives its entry back.
static void keep_or_free_slots(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++) {
		struct node_plan *node_plan = &r->s->node_plans[i];
		enum node_phase phase = r->c->nodes[i].record.phase;
		const struct node_state *m = &r->c->nodes[i];
		bool is_waiting = phase == PHASE_WAITING; // another job may start after the work slot was granted
		bool has_job = is_waiting && !m->record.receipt.waited && node_state_pods(m)->jobs > 0;
		if (is_led_elsewhere(r->c, &r->c->nodes[i]))
			continue;
		if (phase == PHASE_UNKNOWN) {
			node_plan->has = node_plan->had;
		} else if (node_phase_info(phase)->is_disruptive) {
			node_plan->has = node_plan->had != SLOT_NONE && !has_job ? node_plan->had :
					 is_waiting                              ? SLOT_WAIT :
										   SLOT_WORK;
		} else if (phase == PHASE_QUEUED && node_plan->had != SLOT_NONE) {
			node_plan->refused = scheduler_refusal(r, i);
			if (node_plan->refused == REASON_NONE && !m->record.receipt.is_there)
				node_plan->refused = group_refusal(r, i);
			if (node_plan->refused == REASON_NONE || node_plan->refused == REASON_PODS_UNKNOWN ||
			    node_plan->refused == REASON_AGENT_ASKED)
				node_plan->has = node_plan->had; // also while its group is looked at
		} else if (!m->record.has_phase && node_plan->had != SLOT_NONE) {
			node_plan->has = node_plan->had; // its keys were deleted: it is rebuilt first (T62)
		}
	}
}

static void sum_pools(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++) {
		const struct node_state *m = &r->c->nodes[i];
		const struct node_plan *node_plan = &r->s->node_plans[i];
		struct sum *sum = node_plan->pool >= 0 ? &r->s->sums[node_plan->pool] :
				  node_plan->home >= 0 ? &r->s->sums[node_plan->home] :
							 &r->s->strays;
		bool is_ours = node_plan->has != SLOT_NONE;
		bool is_away = !m->facts.is_ready || m->facts.is_unschedulable || m->record.phase == PHASE_UNKNOWN;
		sum->used += node_plan->has == SLOT_WORK;
		sum->waiting += node_plan->has == SLOT_WAIT;
		// Without a pool, which was renamed or removed, only what is in progress counts.
		sum->unavailable += is_ours || (is_away && node_plan->pool >= 0);
		sum->others += is_away && !is_ours && node_plan->pool >= 0;
		if (is_ours && node_plan->pool >= 0)
			note_zone(r, i);
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

// Two nodes may each have a pod that the other one's disruption budget waits for (T06).
static void revoke_one(const struct round *r)
{
	size_t youngest = r->c->count, evicting = 0;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct node_state *m = &r->c->nodes[i];
		const struct pool *pool = round_pool(r, i);
		if (m->record.phase != PHASE_EVICTING || is_led_elsewhere(r->c, m))
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

// Whatever else is in the way: nothing that people do about that helps before they end the pause.
static void note_pause(const struct round *r)
{
	for (size_t p = 0; p < r->c->policy->pool_count && r->c->policy->is_paused; p++)
		r->s->sums[p].blocked = (struct reason){ .code = REASON_PAUSED };
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
	r->s->freed = r->c->ledger->count - kept; // including entries of nodes that are gone (T70)
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
	waves_plan(&r);
	keep_or_free_slots(&r);
	sum_pools(&r);
	admit_slots(&r);
	admit_staging(&r);
	revoke_one(&r);
	note_pause(&r);
	write_ledger(&r);
}
