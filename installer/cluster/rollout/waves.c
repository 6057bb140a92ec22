// SPDX-License-Identifier: Apache-2.0
// Where the rollout of each pool is: it begins, waves open one after the other, and failures halt it.
//
// The wave of a node is the recorded one, its label, the wave's selector, or a hash of its uid. Nothing is stored for
// nodes that wait, and a new node moves no other one to another wave. A group is in one wave, the first of its nodes',
// since it is drained as a whole. Failures are read from the nodes each time and counted nowhere, so that no restart
// forgets one; a `resume` forgives those before it.
#include "cluster/rollout/rules_internal.h"
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

static void begin_rollouts(const struct round *r)
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

// The worst that the GPUs of a node have had since the target was loaded: one that is done, in the open wave, if that
// has a name.
static const struct gpu_fault *gpu_fault_of(const struct round *r, size_t at, enum gpu_blame least)
{
	const struct node_state *m = &r->c->nodes[at];
	if (r->s->node_plans[at].pool < 0)
		return NULL;
	const struct rollout *rollout = round_own_rollout(r, at);
	bool is_there = m->record.phase == PHASE_DONE && target_hash_eq(&m->record.target, &rollout->target) &&
			target_hash_eq(&m->report.loaded, &rollout->target) && m->record.since > rollout->resumed &&
			r->s->node_plans[at].wave == rollout->wave && rollout->wave < round_own_pool(r, at)->wave_count;
	return is_there ? gpu_report_worst(&m->report.gpus, least) : NULL;
}

// What happens to hardware anyway does not happen to a second node of this model in this wave.
static bool is_fault_repeated(const struct round *r, size_t at, const struct gpu_fault *fault)
{
	const struct node_plan *own = &r->s->node_plans[at];
	for (size_t i = 0; i < r->c->count; i++) {
		const struct gpu_fault *other = gpu_fault_of(r, i, GPU_BLAMES_HARDWARE);
		if (i != at && other && r->s->node_plans[i].pool == own->pool && gpu_fault_is_same(other, fault) &&
		    str_eq(r->c->nodes[i].report.gpus.model, r->c->nodes[at].report.gpus.model))
			return true;
	}
	return false;
}

static bool do_gpus_blame_target(const struct round *r, size_t at)
{
	const struct gpu_fault *fault = gpu_fault_of(r, at, GPU_BLAMES_HARDWARE);
	return fault && (gpu_fault_blame(fault) == GPU_BLAMES_DRIVER || is_fault_repeated(r, at, fault));
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
	if (do_gpus_blame_target(r, at))
		return true;
	// During the soak of its wave: a node that was healthy and is not any more.
	bool is_unhealthy =
		(m->report.health.result == RESULT_FAILED && target_hash_eq(&m->report.health.target_hash, target)) ||
		!m->facts.is_ready;
	return m->record.phase == PHASE_DONE && target_hash_eq(&m->record.target, target) && rollout->soak_since &&
	       is_unhealthy && r->s->node_plans[at].wave == rollout->wave;
}

// Its agent went back for GPUs that did not work with the target, and with what it had before they do.
static bool did_gpus_fail(const struct node_state *m)
{
	const char *code = m->record.reason.object;
	return *m->report.gpus.model && !gpu_report_broken(&m->report.gpus) &&
	       !target_hash_eq(&m->report.loaded, &m->record.failed) &&
	       (str_eq(code, err_info(E_GPU_START)->name) || str_eq(code, err_info(E_GPU_FAULT)->name));
}

// A model that the target does not fit fails on one node after the other, and those of other models in between hide it.
static bool is_model_hopeless(const struct round *r, size_t at)
{
	const struct node_plan *own = &r->s->node_plans[at];
	const char *model = r->c->nodes[at].report.gpus.model;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct record *record = &r->c->nodes[i].record;
		if (r->s->node_plans[i].pool == own->pool && record->phase == PHASE_DONE &&
		    !r->s->node_plans[i].is_failed &&
		    target_hash_eq(&record->target, &round_own_rollout(r, at)->target) &&
		    str_eq(r->c->nodes[i].report.gpus.model, model))
			return false;
	}
	return true;
}

// How many nodes failed since the last success.
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

static enum reason_code judge_pool(const struct round *r, size_t pool_at)
{
	const struct pool *pool = &r->c->policy->pools[pool_at];
	const struct sum *sum = &r->s->sums[pool_at];
	unsigned wave = r->s->rollouts[pool_at].wave, of_wave = 0, hardware = 0;
	for (size_t i = 0; i < r->c->count; i++) {
		const struct node_plan *node_plan = &r->s->node_plans[i];
		if (node_plan->pool != (int)pool_at)
			continue;
		of_wave += node_plan->is_failed && node_plan->wave == wave;
		hardware += gpu_fault_of(r, i, GPU_BLAMES_HARDWARE) != NULL;
		if (node_plan->is_failed && did_gpus_fail(&r->c->nodes[i]) && is_model_hopeless(r, i))
			return REASON_GPU_MODEL;
	}
	if (wave < pool->wave_count && of_wave > pool->waves[wave].failures)
		return REASON_WAVE_FAILURES;
	if (sum->failed && sum->failed * 100 >= pool->breaker_percent * sum->total)
		return REASON_POOL_FAILURES;
	if (count_failed_in_a_row(r, pool_at) >= pool->breaker_row)
		return REASON_FAILURES_IN_A_ROW;
	return pool->hardware_errors && hardware >= pool->hardware_errors ? REASON_HARDWARE_ERRORS : REASON_NONE;
}

// "n05 n07 (0000:3b:00.0 Xid 119, NVIDIA-H100-80GB-HBM3)": the nodes, and of which GPU and model it is.
static void name_nodes(const struct round *r, size_t pool, struct reason *halt)
{
	size_t len = 0;
	for (size_t i = 0; i < r->c->count && len < OBJECT_TEXT - 1; i++) {
		const struct node_state *m = &r->c->nodes[i];
		const struct gpu_fault *fault = gpu_fault_of(r, i, GPU_BLAMES_HARDWARE);
		char why[GPU_FAULT_TEXT];
		bool is_named = halt->code == REASON_HARDWARE_ERRORS ? fault != NULL : r->s->node_plans[i].is_failed;
		if (r->s->node_plans[i].pool != (int)pool || !is_named)
			continue;
		gpu_report_object(&m->report.gpus, fault, why);
		if (!fault && did_gpus_fail(m))
			snprintf(why, sizeof(why), "%.*s, %s", WORD_TEXT, m->record.reason.object,
				 m->report.gpus.model);
		len += (size_t)snprintf(halt->object + len, OBJECT_TEXT - len, "%s%s%s%s%s", len ? " " : "", m->name,
					*why ? " (" : "", why, *why ? ")" : "");
	}
}

static void count_failures(const struct round *r)
{
	for (size_t i = 0; i < r->c->count; i++) {
		struct node_plan *node_plan = &r->s->node_plans[i];
		const struct record *record = &r->c->nodes[i].record;
		if (node_plan->pool < 0)
			continue;
		node_plan->is_failed = is_node_failed(r, i);
		r->s->sums[node_plan->pool].total += !r->c->nodes[i].facts.is_skipped;
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
		name_nodes(r, p, &rollout->halt);
	}
}

static unsigned find_wave(const struct pool *pool, const char *name)
{
	unsigned w = 0;
	while (w < pool->wave_count && !str_eq(pool->waves[w].name, name))
		w++;
	return w;
}

// FNV-1a, mixed once more: similar uids must not get similar weights.
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

// All nodes of a group have the same weight.
static void name_unit(const struct node_state *m, char ret[UID_TEXT])
{
	if (m->facts.group)
		snprintf(ret, UID_TEXT, "%016jx", (uintmax_t)m->facts.group);
	else
		memcpy(ret, m->uid, UID_TEXT);
}

// Returns how many nodes it took.
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
	for (size_t at = 0; at < r->c->count; at++) {
		bool is_last = r->s->node_plans[at].mate < at; // of its group, so that each group is joined once
		unsigned first = OPEN;
		size_t i = at;
		if (!is_last)
			continue;
		do
			if (!r->c->nodes[i].facts.is_skipped && r->s->node_plans[i].wave < first)
				first = r->s->node_plans[i].wave;
		while ((i = r->s->node_plans[i].mate) != at);
		if (first != (unsigned)OPEN)
			put_group(r, at, first);
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

// The nodes with the greatest hashes, as many as the wave has room for, with their groups.
static void assign_wave_count(const struct round *r, int pool_at, unsigned wave)
{
	const struct pool *pool = &r->c->policy->pools[pool_at];
	unsigned left = pool->waves[wave].count;
	char unit[UID_TEXT];
	size_t count = 0;
	for (size_t i = 0; i < r->c->count; i++)
		left -= r->s->node_plans[i].pool == pool_at && r->s->node_plans[i].wave == wave && left > 0;
	if (!left)
		return;
	struct weighted_node *lots = mem_grow(NULL, r->c->count, sizeof(*lots));
	for (size_t i = 0; i < r->c->count; i++)
		if (r->s->node_plans[i].pool == pool_at && r->s->node_plans[i].wave == (unsigned)OPEN &&
		    !r->c->nodes[i].facts.is_skipped) {
			name_unit(&r->c->nodes[i], unit);
			lots[count++] = (struct weighted_node){ node_weight(unit, pool->waves[wave].name), i };
		}
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

static void assign_waves(const struct round *r)
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

// Done with this rollout, successfully or not: its wave does not wait for it (T72, T73).
static bool is_node_settled(const struct round *r, size_t at)
{
	const struct node_state *m = &r->c->nodes[at];
	struct view v = scheduler_view(r->c, r->s, at);
	if (node_phase_info(m->record.phase)->is_disruptive && m->record.phase != PHASE_UNKNOWN)
		return false;
	switch (m->record.phase) {
	case PHASE_STAGING:
	case PHASE_LOADING:
		return false;
	case PHASE_QUEUED:
		return !m->facts.is_ready || m->facts.is_paused || scheduler_refusal(r, at) == REASON_FOREIGN_CORDON ||
		       scheduler_refusal(r, at) == REASON_GPU_BROKEN;
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
		case REASON_GPU_BROKEN:
			return true;
		default:
			return rule_stand_down_reason(&v) != REASON_NONE;
		}
	default:
		return true;
	}
}

// The group of this node waits for one of its nodes that is settled without the target. Asked once for each group, so
// that a large one is not searched by each of its nodes.
static bool is_group_held_up(const struct round *r, size_t at)
{
	size_t i = at;
	if (r->s->node_plans[at].mate == at)
		return false;
	do {
		struct view v = scheduler_view(r->c, r->s, i);
		struct target_hash goal = transition_goal(&v);
		if (!v.m->facts.is_skipped && !rule_is_loaded(&v, &goal) && is_node_settled(r, i))
			return true;
	} while ((i = r->s->node_plans[i].mate) != at);
	return false;
}

static void note_held_up_groups(const struct round *r)
{
	for (size_t at = 0; at < r->c->count; at++) {
		size_t i = at;
		if (r->s->node_plans[at].mate > at || !is_group_held_up(r, at)) // one of each group is before its mate
			continue;
		do
			r->s->node_plans[i].is_held_up = true;
		while ((i = r->s->node_plans[i].mate) != at);
	}
}

// A queued node is settled, too, if its group is held up.
static bool is_unit_settled(const struct round *r, size_t at)
{
	return is_node_settled(r, at) ||
	       (r->c->nodes[at].record.phase == PHASE_QUEUED && r->s->node_plans[at].is_held_up);
}

static void keep_shut(struct sum *sum, enum reason_code why, const char *wave)
{
	sum->shut = why;
	sum->blocked.code = why;
	snprintf(sum->blocked.object, sizeof(sum->blocked.object), "%s", wave);
}

// A complete wave may leave the target untested: no node in it, none that answered, none that could be drained.
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
		keep_shut(sum, REASON_WAVE_UNTESTED, policy_wave_name(pool, w));
		rollout->soak_since = 0;
		return;
	}
	rollout->soak_since = rollout->soak_since ? rollout->soak_since : now;
	if (now < rollout->soak_since + (int64_t)pool->waves[w].soak)
		return;
	if (w + 1 < pool->wave_count && pool->waves[w + 1].is_manual && rollout->approved < w + 1) {
		keep_shut(sum, REASON_WAVE_APPROVAL, policy_wave_name(pool, w + 1));
		return;
	}
	rollout->wave = w + 1;
	rollout->soak_since = 0;
}

static void advance_waves(const struct round *r)
{
	note_held_up_groups(r);
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
			       !gpu_fault_of(r, i, GPU_BLAMES_HARDWARE) &&
			       target_hash_eq(&record->target, &r->s->rollouts[node_plan->pool].target);
	}
	for (size_t p = 0; p < r->c->policy->pool_count; p++)
		advance_pool(&r->c->policy->pools[p], &r->s->rollouts[p], &r->s->sums[p], r->c->now);
}

void waves_plan(const struct round *r)
{
	begin_rollouts(r);
	assign_waves(r);
	count_failures(r);
	advance_waves(r);
}
