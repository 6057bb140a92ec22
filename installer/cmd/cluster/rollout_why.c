// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/explain.h"

#include "base/core/date.h"
#include "cmd/cluster/rollout.h"

#include <stdio.h>

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

static size_t find_node_by_name(const struct cluster *c, const char *node)
{
	size_t at = 0;
	while (at < c->count && !str_eq(c->nodes[at].name, node))
		at++;
	return at;
}

// How long it has been so, what ends it, and what was before.
static void show_times(const struct view *v)
{
	const struct record *r = &v->m->record;
	int64_t began = r->reason_since ? r->reason_since : r->since;
	auto_str char *since = began ? date_text((time_t)began) : NULL;
	auto_str char *deadline = r->deadline ? date_text((time_t)r->deadline) : NULL;
	struct reason last = explain_last_drain(v->m);
	auto_str char *ended = rollout_reason_text(&last);
	if (since)
		printf("so since %s, for %lld min; cordoned by: %s\n", since, (long long)(v->now - began) / 60,
		       explain_cordon(v->m));
	if (deadline && *explain_deadline(v))
		printf("at %s: %s\n", deadline, explain_deadline(v));
	if (last.code != REASON_NONE)
		printf("its last drain ended with %s\n", ended);
	if (r->drains.failed && v->pool)
		printf("drains for this target that ended without a replacement: %u of %u\n", r->drains.failed,
		       v->pool->drain_attempts);
}

int rollout_show_why(const struct cluster *c, const struct slots *s, const char *node, const json_t *policy,
		     bool is_json, struct err *err)
{
	struct explain_row rules[EXPLAIN_MOST], slot[EXPLAIN_MOST];
	size_t at = find_node_by_name(c, node);
	if (at == c->count)
		return err_set(err, E_NOT_FOUND, "there is no node '%s' among %zu", node, c->count);
	struct view v = scheduler_view(c, s, at);
	bool has_slot = s->node_plans[at].has != SLOT_NONE; // what a slot asks for is asked of it no longer
	size_t rule_count = explain_rules(&v, rules), slot_count = has_slot ? 0 : explain_slot(c, s, at, slot);
	struct decision d;
	transition(&v, &d);
	const struct reason *reason = d.rule ? &d.next.reason : &d.waits;
	const char *state = node_phase_info(c->nodes[at].record.phase)->name;
	const char *refusal_code = node_reason_info(s->node_plans[at].refused)->code;
	auto_str char *why = rollout_reason_text(reason);
	if (is_json) {
		auto_json json_t *json =
			json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "node", node, "state", state, "reason", why,
				  "action", node_reason_info(reason->code)->next, "seat", refusal_code, "rules",
				  rows_json(rules, rule_count), "slot", rows_json(slot, slot_count));
		auto_json json_t *times = rollout_times_json(&v);
		json_object_update_missing(json, times);
		if (policy)
			json_object_set(json, "policy", (json_t *)(uintptr_t)policy);
		show_json(json);
		return 0;
	}
	printf("%s is %s: %s\n%s; next: %s\n", node, state, *why ? why : "none", node_reason_info(reason->code)->text,
	       node_reason_info(reason->code)->next);
	show_times(&v);
	printf("rules of this state, up to the first yes, which is taken:\n");
	show_rows(rules, rule_count);
	if (!has_slot)
		printf("what a slot asks for (%s):\n", refusal_code);
	show_rows(slot, slot_count);
	return 0;
}
