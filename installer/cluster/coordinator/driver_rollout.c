// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/driver_rollout.h"

#include "base/core/date.h"
#include "cluster/kube/api.h"

#include <ctype.h>

enum { UNRELEASED_TEXT = 512 }; // about as long as a message gets by nodes that stay cordoned

struct totals {
	unsigned nodes, done, failed, unavailable, halted; // halted: pools
};

struct condition {
	const char *type;
	bool is;
	const char *reason, *message;
};

static struct totals count_totals(const struct slots *s, size_t pools)
{
	struct totals t = { 0 };
	for (size_t i = 0; s && i < pools; i++) {
		t.nodes += s->sums[i].total;
		t.done += s->sums[i].done;
		t.failed += s->sums[i].failed;
		t.unavailable += s->sums[i].unavailable;
		t.halted += s->rollouts[i].is_halted;
	}
	return t;
}

// "535.261.03,570.86.15": of all pools, each once.
static char *policy_drivers(const struct policy *p)
{
	auto_strv struct strv drivers = { 0 };
	for (size_t i = 0; i < p->pool_count; i++) {
		size_t at = 0;
		while (at < drivers.count && !str_eq(drivers.items[at], p->pools[i].target.driver))
			at++;
		if (at == drivers.count)
			strv_add(&drivers, str_dup(p->pools[i].target.driver));
	}
	return strv_join(&drivers, ",");
}

// "pool-failures" as PoolFailures, the style of condition reasons.
static char *camel_case(const char *code)
{
	char *text = str_dup(code), *to = text;
	bool is_first = true;
	for (const char *p = code; *p; p++) {
		if (*p != '-')
			*to++ = is_first ? (char)toupper((unsigned char)*p) : *p;
		is_first = *p == '-';
	}
	*to = '\0';
	return text;
}

static void add_condition(json_t *list, const json_t *before, json_int_t generation, const char *now,
			  const struct condition *k)
{
	const char *status = k->is ? "True" : "False", *since = now;
	for (size_t i = 0; i < json_array_size(before); i++) {
		const json_t *was = json_array_get(before, i);
		if (str_eq(json_string_value(json_object_get(was, "type")), k->type) &&
		    str_eq(json_string_value(json_object_get(was, "status")), status) &&
		    json_is_string(json_object_get(was, "lastTransitionTime")))
			since = json_string_value(json_object_get(was, "lastTransitionTime"));
	}
	json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:I, s:s}", "type", k->type, "status", status,
					      "reason", k->reason, "message", json_text(k->message),
					      "observedGeneration", generation, "lastTransitionTime", since));
}

static char *accepted_text(const struct policy_source *p, const struct err *blind)
{
	if (blind->code)
		return str_dup(blind->text);
	if (p->refused.code)
		return str_fmt("%s; the last good policy stays in force", p->refused.text);
	auto_str char *undone = strv_join(&p->undone, "; ");
	return str_fmt("it is in force%s%s%s", *undone ? "; " : "", undone,
		       p->map ? "; the ConfigMap " POLICY_NAME " is ignored" : "");
}

static char *halted_text(const struct policy *policy, const struct slots *s, char **ret_reason)
{
	char *text = NULL;
	for (size_t i = 0; s && i < policy->pool_count; i++) {
		const struct reason *why = &s->rollouts[i].halt;
		if (!s->rollouts[i].is_halted)
			continue;
		if (!*ret_reason)
			*ret_reason = camel_case(node_reason_info(why->code)->code);
		str_add(&text, "%spool %s: %s%s%s; next: %s", text ? "; " : "", policy->pools[i].name,
			node_reason_info(why->code)->text, *why->object ? " " : "", why->object,
			node_reason_info(why->code)->next);
	}
	return text ? text : str_dup("no pool is halted");
}

// Whose time to have everything back is over.
static char *unreleased_text(const struct cluster *cl, const struct slots *s)
{
	char *text = str_dup("");
	for (size_t i = 0; s && i < cl->count && strlen(text) < UNRELEASED_TEXT; i++) {
		struct reason why;
		struct view v = scheduler_view(cl, s, i);
		if (cl->now >= v.m->record.deadline && transition_is_kept(&v, &why))
			str_add(&text, "; %s stays cordoned: %s%s%s", v.m->name, node_reason_info(why.code)->code,
				*why.object ? " " : "", why.object);
	}
	return text;
}

static json_t *conditions_json(const struct policy_source *p, const struct cluster *cl, const struct slots *s,
			       const struct err *blind, json_int_t generation)
{
	const struct totals t = count_totals(s, p->policy.pool_count);
	auto_str char *now = date_text((time_t)cl->now), *halt = NULL;
	auto_str char *accepted = accepted_text(p, blind), *halted = halted_text(&p->policy, s, &halt);
	auto_str char *unreleased = unreleased_text(cl, s);
	auto_str char *count = str_fmt("%u of %u nodes are done, %u failed%s", t.done, t.nodes, t.failed, unreleased);
	bool is_complete = t.nodes && t.done == t.nodes && !p->refused.code && !p->undone.count;
	bool is_going = s && t.done < t.nodes && t.halted < p->policy.pool_count && !p->policy.is_paused;
	const struct condition all[] = {
		{ "Accepted", !p->refused.code && !blind->code,
		  p->refused.code ? "InvalidPolicy" :
		  blind->code     ? "InvalidStatus" :
				    "Accepted",
		  accepted },
		{ "Progressing", is_going,
		  is_going            ? "RollingOut" :
		  !s                  ? "NothingInForce" :
		  t.done == t.nodes   ? "NothingToDo" :
		  p->policy.is_paused ? "Paused" :
					"Halted",
		  count },
		{ "Complete", is_complete,
		  is_complete     ? "AllNodesDone" :
		  p->refused.code ? "InvalidPolicy" :
		  p->undone.count ? "Undone" :
		  t.nodes         ? "NodesLeft" :
				    "NoNodes",
		  count },
		{ "Halted", t.halted, halt ? halt : "NotHalted", halted },
	};
	const json_t *before = json_object_get(json_object_get(p->object, "status"), "conditions");
	json_t *list = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		add_condition(list, before, generation, now, &all[i]);
	return list;
}

static json_t *status_json(const struct policy_source *p, const struct cluster *cl, const struct slots *s,
			   const struct err *blind)
{
	const struct totals t = count_totals(s, p->policy.pool_count);
	json_int_t generation =
		json_integer_value(json_object_get(json_object_get(p->object, "metadata"), "generation"));
	auto_str char *drivers = policy_drivers(&p->policy);
	json_t *pools = json_array();
	for (size_t i = 0; s && i < p->policy.pool_count; i++) {
		const struct pool *pool = &p->policy.pools[i];
		const struct sum *sum = &s->sums[i];
		json_array_append_new(pools, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i}", "name", pool->name,
						       "driver", pool->target.driver, "wave",
						       policy_wave_name(pool, s->rollouts[i].wave), "nodes",
						       (int)sum->total, "done", (int)sum->done, "failed",
						       (int)sum->failed, "unavailable", (int)sum->unavailable));
	}
	return json_pack("{s:I, s:s, s:i, s:i, s:i, s:i, s:o, s:o}", "observedGeneration", generation, "driver",
			 drivers, "nodes", (int)t.nodes, "done", (int)t.done, "failed", (int)t.failed, "unavailable",
			 (int)t.unavailable, "pools", pools, "conditions",
			 conditions_json(p, cl, s, blind, generation));
}

// The current object, after a conflict. If it was deleted, the watch tells. If users changed it, it is not taken over
// here, where no policy is chosen: the watch would then see no change any more.
static int reread_driver_rollout(struct policy_source *p, const char *path, struct err *err)
{
	auto_json json_t *now = NULL;
	int r = api_get(p->kube, path, &now, err);
	if (r > 0 && policy_source_put(p, now)) {
		json_decref(p->object);
		p->object = TAKE(now);
	}
	return r < 0 ? -1 : 0;
}

void driver_rollout_write_status(struct policy_source *p, const struct cluster *cl, const struct slots *s,
				 const struct err *blind)
{
	enum { PAUSE_MS = 30000 };
	struct err why = { 0 };
	if (!p->object || kube_now_ms() < p->object_ms)
		return;
	auto_json json_t *status = status_json(p, cl, s, blind), *now = NULL;
	const json_t *known = p->object_said ? p->object_said : json_object_get(p->object, "status");
	if (known && json_equal(known, status))
		return;
	auto_str char *object = api_path(API_DRIVER_ROLLOUT, p->namespace, POLICY_NAME),
		      *path = str_fmt("%s/status", object);
	const json_t *metadata = json_object_get(p->object, "metadata");
	auto_json json_t *body = json_pack("{s:{s:O}, s:O}", "metadata", "resourceVersion",
					   json_object_get(metadata, "resourceVersion"), "status", status);
	int r = api_change(p->kube, API_MERGE, path, body, &now, &why);
	if (r == 0)
		r = reread_driver_rollout(p, object, &why);
	if (r < 0) {
		policy_source_trouble(p, "the status of the " DRIVER_ROLLOUT_KIND, &why);
		p->object_ms = kube_now_ms() + PAUSE_MS;
	}
	if (r <= 0)
		return;
	json_decref(p->object);
	json_decref(p->object_said);
	p->object = TAKE(now);
	p->object_said = TAKE(status);
}
