// SPDX-License-Identifier: Apache-2.0
// Shows rollouts, as text or JSON: each pool, then each node with its state, the next step and the reason.
#include "base/core/date.h"
#include "cluster/rollout/explain.h"
#include "cluster/rollout/node_patch.h"
#include "cluster/rollout/pace.h"
#include "cluster/rollout/rollout_status.h"
#include "cmd/cluster/rollout.h"

#include <stdio.h>

// "code object"; "" for none.
static char *reason_text(const struct reason *reason)
{
	const char *code = reason->code == REASON_NONE ? "" : node_reason_info(reason->code)->code;
	return str_fmt("%s%s%s", code, *reason->object ? " " : "", reason->object);
}

static json_t *times_json(const struct view *v)
{
	const struct record *r = &v->m->record;
	struct reason last = explain_last_drain(v->m);
	auto_str char *ended = reason_text(&last);
	return json_pack("{s:o, s:o, s:o, s:s, s:s, s:s, s:i}", "since", rollout_status_date(r->since), "reasonSince",
			 rollout_status_date(r->reason_since ? r->reason_since : r->since), "deadline",
			 rollout_status_date(r->deadline), "atDeadline", explain_deadline(v), "cordonedBy",
			 explain_cordon(v->m), "lastDrain", ended, "drains", (int)r->drains.failed);
}

// The waves of a pool with their nodes: a wave that would test nothing is seen before it blocks the rollout.

struct wave_sum {
	unsigned nodes, done;
	bool is_open, is_short; // with earlier waves it has fewer nodes than must be done before the next one opens
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
		printf("  wave %s: %u node%s, %u done, %s\n", policy_wave_name(pool, w), sums[w].nodes,
		       str_plural(sums[w].nodes), sums[w].done, sums[w].is_open ? "open" : "closed");
	for (unsigned w = 0; w < pool->wave_count; w++)
		if (sums[w].is_short)
			printf("  warning: pool %s: with wave %s %s nodes are begun, and %u have to be done before the "
			       "next wave opens (minDone): it waits for `kmodsmith rollout approve %s %s`\n",
			       pool->name, pool->waves[w].name, sums[w].nodes ? "too few" : "no", pool->waves[w].done,
			       pool->name, policy_wave_name(pool, w + 1));
}

static json_t *rows_json(const struct explain_row *rows, size_t count)
{
	json_t *list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "text", rows[i].text, "holds", rows[i].holds,
						      "reason", node_reason_info(rows[i].reason)->code));
	return list;
}

static void show_rows(const struct explain_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct node_reason_info *info = node_reason_info(rows[i].reason);
		printf("  %-3s  %s", rows[i].holds ? "yes" : "no", rows[i].text);
		if (rows[i].reason != REASON_NONE)
			printf(": %s (%s); next: %s", info->code, info->text, info->next);
		printf("\n");
	}
}

// Since when it is in this state, what happens at the deadline, and how the last drain ended.
static void show_times(const struct view *v)
{
	const struct record *r = &v->m->record;
	int64_t began = r->reason_since ? r->reason_since : r->since;
	auto_str char *since = began ? date_text((time_t)began) : NULL;
	auto_str char *deadline = r->deadline ? date_text((time_t)r->deadline) : NULL;
	struct reason last = explain_last_drain(v->m);
	auto_str char *ended = reason_text(&last);
	if (since)
		printf("since %s, for %lld min; cordoned by: %s\n", since, (long long)(v->now - began) / 60,
		       explain_cordon(v->m));
	if (deadline && *explain_deadline(v))
		printf("at %s: %s\n", deadline, explain_deadline(v));
	if (last.code != REASON_NONE)
		printf("its last drain ended with %s\n", ended);
	if (r->drains.failed && v->pool)
		printf("drains for this target that ended without a replacement: %u of %u\n", r->drains.failed,
		       v->pool->drain_attempts);
}

// What to do about this node, in the order in which it works: it waits for the end of a pause, and of a halt, which
// `rollout retry` ends, too. Caller frees.
static char *steps_text(const struct cluster *c, const struct view *v, enum reason_code why)
{
	enum node_phase phase = v->m->record.phase;
	bool is_stuck = phase == PHASE_FAILED || phase == PHASE_HELD || phase == PHASE_ROLLEDBACK;
	const char *next = node_reason_info(why)->next;
	bool is_halted = is_stuck && v->rollout && v->rollout->is_halted && why != REASON_HALTED &&
			 !strstr(next, "rollout retry");
	bool is_paused = is_stuck && c->policy->is_paused && why != REASON_PAUSED;
	return str_fmt("%s%s%s%s%s", next, is_halted ? "; then, as the pool is halted, `kmodsmith rollout resume " : "",
		       is_halted ? v->pool->name : "", is_halted ? "`" : "",
		       is_halted || !is_paused ? "" : "; then, as the policy is paused, `kmodsmith rollout resume`");
}

int rollout_show_why(const struct cluster *c, const struct slots *s, const char *node, const char *pod,
		     const json_t *policy, bool is_json, struct err *err)
{
	struct explain_row rules[EXPLAIN_MOST], slot[EXPLAIN_MOST];
	size_t at = 0;
	while (at < c->count && !str_eq(c->nodes[at].name, node))
		at++;
	if (at == c->count)
		return err_set(err, E_NOT_FOUND, "there is no node '%s' among %zu", node, c->count);
	struct view v = scheduler_view(c, s, at);
	bool has_slot = s->node_plans[at].has != SLOT_NONE; // then the conditions for a slot do not matter any more
	size_t rule_count = explain_rules(&v, rules), slot_count = has_slot ? 0 : explain_slot(c, s, at, slot);
	struct decision d;
	transition(&v, &d);
	const struct reason *reason = d.rule ? &d.next.reason : &d.waits;
	const char *state = node_phase_info(c->nodes[at].record.phase)->name;
	const char *refusal_code = node_reason_info(s->node_plans[at].refused)->code;
	auto_str char *code = reason_text(reason), *steps = steps_text(c, &v, reason->code);
	auto_str char *why = str_fmt("%s%s%s", code, pod ? " " : "", pod ? pod : "");
	char gpus[KEY_VALUE_MOST + 1];
	gpu_report_text(&v.m->report.gpus, gpus, sizeof(gpus));
	if (is_json) {
		auto_json json_t *json =
			json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "node", node, "state", state, "reason",
				  why, "action", steps, "seat", refusal_code, "gpus", gpus, "rules",
				  rows_json(rules, rule_count), "slot", rows_json(slot, slot_count));
		auto_json json_t *times = times_json(&v);
		json_object_update_missing(json, times);
		if (policy)
			json_object_set(json, "policy", (json_t *)(uintptr_t)policy);
		show_json(json);
		return 0;
	}
	printf("%s is %s: %s\n%s; next: %s\n", node, state, *why ? why : "none", node_reason_info(reason->code)->text,
	       steps);
	show_times(&v);
	if (*gpus)
		printf("GPUs that work, their driver, model and faults: %s\n", gpus);
	printf("rules of this state, up to the first that applies:\n");
	show_rows(rules, rule_count);
	if (!has_slot)
		printf("conditions for a slot (%s):\n", refusal_code);
	show_rows(slot, slot_count);
	return 0;
}

static const char *slot_step(const struct node_state *m, const struct node_plan *node_plan)
{
	bool is_counted = node_plan->had == SLOT_NONE && m->record.phase != PHASE_QUEUED;
	if (node_plan->has == node_plan->had)
		return "";
	return is_counted                  ? "is added to the ledger" :
	       node_plan->has == SLOT_NONE ? "its slot is released" :
	       node_plan->had == SLOT_NONE ? "gets a slot" :
					     "gets a slot for work";
}

static json_t *node_json(const struct cluster *c, const struct slots *s, size_t at)
{
	const struct node_state *m = &c->nodes[at];
	const struct node_plan *node_plan = &s->node_plans[at];
	struct view v = scheduler_view(c, s, at);
	struct decision d;
	transition(&v, &d);
	const struct reason *why = d.rule ? &d.next.reason : &d.waits;
	const struct node_reason_info *info = node_reason_info(why->code);
	static const char *const cordons[] = { "keep", "on", "off" };
	auto_json json_t *times = times_json(&v);
	auto_node_patch struct node_patch patch;
	json_t *changes = json_object();
	node_patch_make(m, &d, c->policy->has_mirror, &patch);
	for (size_t i = 0; i < patch.count; i++)
		json_object_set_new(changes, patch.changes[i].key, json_text(patch.changes[i].value));
	json_t *json =
		json_pack("{s:s, s:o, s:s, s:s, s:o, s:o, s:s, s:s, s:s, s:o, s:s, s:s, s:o}", "node", m->name, "pool",
			  json_text(v.pool ? v.pool->name : NULL), "wave", v.wave, "state",
			  node_phase_info(m->record.phase)->name, "step", json_text(d.rule ? d.rule->text : NULL),
			  "next", json_text(d.rule ? node_phase_info(d.next.phase)->name : NULL), "reason", info->code,
			  "object", why->object, "action", info->next, "deadline", rollout_status_date(d.next.deadline),
			  "slot", slot_step(m, node_plan), "cordon", cordons[d.cordon], "writes", changes);
	json_object_update_missing(json, times);
	return json;
}

// Of a node that waits for another drain, if the present reason is another one.
static char *last_drain(const struct node_state *m, const struct decision *d)
{
	struct reason last = explain_last_drain(m);
	bool is_told = last.code == REASON_NONE || (!d->rule && last.code == d->waits.code);
	auto_str char *text = reason_text(&last);
	return is_told ? str_dup("") : str_fmt("last drain: %s", text);
}

// When the next window with enough room opens; 0 = one is open.
static int64_t next_window(const struct cluster *c, size_t pool)
{
	const struct pool *p = &c->policy->pools[pool];
	return policy_window_next(p, c->now, p->spans[SPAN_MARGIN]);
}

// "about 12 min left"; "" = not known. Caller frees.
static char *left_text(int64_t seconds)
{
	enum { MINUTE = 60, HOUR = 60 * MINUTE, FEW_HOURS = 10 };
	if (seconds < 0)
		return str_dup("");
	if (seconds < MINUTE)
		return str_dup("less than a minute left");
	if (seconds < HOUR)
		return str_fmt("about %lld min left", (long long)seconds / MINUTE);
	if (seconds < FEW_HOURS * HOUR)
		return str_fmt("about %lld h %lld min left", (long long)seconds / HOUR,
			       (long long)seconds % HOUR / MINUTE);
	return str_fmt("about %lld h left", (long long)seconds / HOUR);
}

char *rollout_pool_line(const struct cluster *c, const struct slots *s, size_t pool_at)
{
	const struct sum *sum = &s->sums[pool_at];
	const struct rollout *r = &s->rollouts[pool_at];
	const struct reason *why = r->is_halted ? &r->halt : &sum->blocked;
	auto_str char *left = left_text(pace_seconds_left(c, s, pool_at)), *reason = reason_text(why);
	return str_fmt("pool %s: driver %s: %u of %u nodes done, %u in progress, %u failed; wave %s%s%s%s%s",
		       c->policy->pools[pool_at].name, c->policy->pools[pool_at].target.driver, sum->done, sum->total,
		       sum->used, sum->failed, policy_wave_name(&c->policy->pools[pool_at], r->wave), *left ? "; " : "",
		       left,
		       why->code == REASON_NONE ? "" :
		       r->is_halted             ? "; halted: " :
						  "; no more grants: ",
		       reason);
}

static json_t *seconds_json(int64_t seconds)
{
	return seconds < 0 ? json_null() : json_integer(seconds);
}

static json_t *pool_json(const struct cluster *c, const struct slots *s, size_t at)
{
	const struct sum *sum = &s->sums[at];
	const struct rollout *r = &s->rollouts[at];
	const struct reason *why = r->is_halted ? &r->halt : &sum->blocked;
	char target[TARGET_HASH_TEXT];
	target_hash_text(&r->target, target);
	auto_str char *text = reason_text(why);
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o}",
			 "pool", c->policy->pools[at].name, "driver", c->policy->pools[at].target.driver, "target",
			 target, "wave", policy_wave_name(&c->policy->pools[at], r->wave), "halted", r->is_halted,
			 "reason", text, "action", node_reason_info(why->code)->next, "nodes", (int)sum->total, "done",
			 (int)sum->done, "failed", (int)sum->failed, "unavailable", (int)sum->unavailable,
			 "maxUnavailable", (int)sum->unavailable_limit, "used", (int)sum->used, "maxParallel",
			 (int)sum->parallel_limit, "waves", rollout_waves_json(c, s, at), "windowOpens",
			 rollout_status_date(next_window(c, at)), "secondsLeft",
			 seconds_json(pace_seconds_left(c, s, at)));
}

static void show_pools(const struct cluster *c, const struct slots *s, const struct rollout_filter *filter)
{
	for (size_t i = 0; i < c->policy->pool_count; i++) {
		if (!rollout_filter_has_pool(filter, c->policy->pools[i].name))
			continue;
		const struct sum *sum = &s->sums[i];
		const struct rollout *r = &s->rollouts[i];
		const struct reason *why = r->is_halted ? &r->halt : &sum->blocked;
		auto_str char *text = reason_text(why);
		printf("pool %s: driver %s, wave %s, %u node%s, %u done, %u failed; slots %u of %u, unavailable %u of "
		       "%u\n",
		       c->policy->pools[i].name, c->policy->pools[i].target.driver,
		       policy_wave_name(&c->policy->pools[i], r->wave), sum->total, str_plural(sum->total), sum->done,
		       sum->failed, sum->used, sum->parallel_limit, sum->unavailable, sum->unavailable_limit);
		if (why->code != REASON_NONE)
			printf("%s: %s\n  %s\n  next: %s\n", r->is_halted ? "halted" : "no more grants", text,
			       node_reason_info(why->code)->text, node_reason_info(why->code)->next);
		auto_str char *opens = next_window(c, i) ? date_text((time_t)next_window(c, i)) : NULL;
		if (opens)
			printf("  windows: closed until %s\n", opens);
		auto_str char *left = left_text(pace_seconds_left(c, s, i));
		if (*left)
			printf("  %s at the pace so far; windows, soaks and approvals to come are not counted\n", left);
		rollout_show_waves(c, s, i);
	}
}

// "08:20Z" of today and tomorrow, else the day: --json has the seconds.
static char *deadline_text(int64_t deadline, int64_t now)
{
	enum { HALF_DAY_S = 12 * 60 * 60, DAY_TEXT = 10, MINUTE_TEXT = 5 };
	auto_str char *text = deadline ? date_text((time_t)deadline) : NULL;
	if (!text)
		return str_dup("-");
	if (deadline < now - HALF_DAY_S || deadline > now + HALF_DAY_S)
		return str_ndup(text, DAY_TEXT);
	return str_fmt("%.*sZ", MINUTE_TEXT, text + DAY_TEXT + 1);
}

bool rollout_filter_has_pool(const struct rollout_filter *f, const char *pool)
{
	return !f->pools || !f->pools->count || (pool && strv_has(f->pools, pool));
}

static bool is_shown(const struct cluster *c, const struct slots *s, const struct rollout_filter *f, size_t at)
{
	int pool = s->node_plans[at].pool;
	return rollout_filter_has_pool(f, pool < 0 ? NULL : c->policy->pools[pool].name) &&
	       (!f->states || !f->states->count ||
		strv_has(f->states, node_phase_info(c->nodes[at].record.phase)->name));
}

static void show_nodes(const struct cluster *c, const struct slots *s, const struct rollout_filter *filter)
{
	auto_strv struct strv rows = { 0 };
	strv_add(&rows, str_dup("NODE\tPOOL\tWAVE\tSTATE\tCORDON\tNEXT\tREASON\tDEADLINE\tSTEP"));
	for (size_t i = 0; i < c->count; i++) {
		if (!is_shown(c, s, filter, i))
			continue;
		struct view v = scheduler_view(c, s, i);
		struct decision d;
		transition(&v, &d);
		auto_str char *why = reason_text(d.rule ? &d.next.reason : &d.waits);
		auto_str char *deadline = deadline_text(d.next.deadline, c->now);
		const char *slot = slot_step(&c->nodes[i], &s->node_plans[i]), *step = d.rule ? d.rule->text : "";
		auto_str char *last = last_drain(&c->nodes[i], &d);
		const char *cordon = !c->nodes[i].facts.is_unschedulable          ? "-" :
				     str_eq(explain_cordon(&c->nodes[i]), "ours") ? "ours" :
										    "foreign";
		strv_add(&rows,
			 str_fmt("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s%s%s%s%s", c->nodes[i].name,
				 v.pool ? v.pool->name : "-", *v.wave ? v.wave : "-",
				 node_phase_info(c->nodes[i].record.phase)->name, cordon,
				 d.rule ? node_phase_info(d.next.phase)->name : "-", *why ? why : "-", deadline, slot,
				 *slot && *step ? "; " : "", step, *last && (*slot || *step) ? "; " : "", last));
	}
	show_table(&rows);
}

void rollout_show_pools(const struct cluster *c, const struct slots *s, const struct rollout_filter *filter,
			const json_t *policy, bool is_json)
{
	if (!is_json) {
		show_pools(c, s, filter);
		show_nodes(c, s, filter);
		return;
	}
	auto_json json_t *result = json_pack("{s:[], s:[], s:i, s:i}", "pools", "nodes", "granted", (int)s->granted,
					     "freed", (int)s->freed);
	if (policy)
		json_object_set(result, "policy", (json_t *)(uintptr_t)policy);
	for (size_t i = 0; i < c->policy->pool_count; i++)
		if (rollout_filter_has_pool(filter, c->policy->pools[i].name))
			json_array_append_new(json_object_get(result, "pools"), pool_json(c, s, i));
	for (size_t i = 0; i < c->count; i++)
		if (is_shown(c, s, filter, i))
			json_array_append_new(json_object_get(result, "nodes"), node_json(c, s, i));
	show_json(result);
}
