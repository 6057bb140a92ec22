// SPDX-License-Identifier: Apache-2.0
// The status of a DriverRollout: counts for people, and conditions for programs (`kubectl wait`, Argo CD). Each
// condition has its observedGeneration, so that a waiting program does not see the result of an earlier policy.
#include "base/core/date.h"
#include "cluster/coordinator/coordinator_internal.h"
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

static struct totals count_totals(const struct coordinator *c, const struct slots *s)
{
	struct totals t = { 0 };
	for (size_t i = 0; s && i < c->policy.pool_count; i++) {
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

static char *accepted_text(const struct coordinator *c)
{
	if (c->blind.code)
		return str_dup(c->blind.text);
	if (c->refused.code)
		return str_fmt("%s; the last good policy stays in force", c->refused.text);
	auto_str char *undone = strv_join(&c->undone, "; ");
	return str_fmt("it is in force%s%s%s", *undone ? "; " : "", undone,
		       c->policy_map ? "; the ConfigMap " POLICY_NAME " is ignored" : "");
}

static char *halted_text(const struct coordinator *c, const struct slots *s, char **ret_reason)
{
	char *text = NULL;
	for (size_t i = 0; s && i < c->policy.pool_count; i++) {
		const struct reason *why = &s->rollouts[i].halt;
		if (!s->rollouts[i].is_halted)
			continue;
		if (!*ret_reason)
			*ret_reason = camel_case(node_reason_info(why->code)->code);
		str_add(&text, "%spool %s: %s%s%s; next: %s", text ? "; " : "", c->policy.pools[i].name,
			node_reason_info(why->code)->text, *why->object ? " " : "", why->object,
			node_reason_info(why->code)->next);
	}
	return text ? text : str_dup("no pool is halted");
}

// Whose time to have everything back is over.
static char *unreleased_text(const struct coordinator *c, const struct slots *s)
{
	char *text = str_dup("");
	struct cluster cl = coordinator_cluster(c);
	for (size_t i = 0; s && i < c->node_cache.count && strlen(text) < UNRELEASED_TEXT; i++) {
		struct reason why;
		struct view v = scheduler_view(&cl, s, i);
		if (cl.now >= v.m->record.deadline && transition_is_kept(&v, &why))
			str_add(&text, "; %s stays cordoned: %s%s%s", c->node_cache.entries[i].name,
				node_reason_info(why.code)->code, *why.object ? " " : "", why.object);
	}
	return text;
}

static json_t *conditions_json(const struct coordinator *c, const struct slots *s, const json_t *before,
			       json_int_t generation)
{
	const struct totals t = count_totals(c, s);
	auto_str char *now = date_text((time_t)kube_time(c->o.kube)), *halt = NULL;
	auto_str char *accepted = accepted_text(c), *halted = halted_text(c, s, &halt);
	auto_str char *unreleased = unreleased_text(c, s);
	auto_str char *count = str_fmt("%u of %u nodes are done, %u failed%s", t.done, t.nodes, t.failed, unreleased);
	bool is_complete = t.nodes && t.done == t.nodes && !c->refused.code && !c->undone.count;
	bool is_going = s && t.done < t.nodes && t.halted < c->policy.pool_count && !c->policy.is_paused;
	const struct condition all[] = {
		{ "Accepted", !c->refused.code && !c->blind.code,
		  c->refused.code ? "InvalidPolicy" :
		  c->blind.code   ? "InvalidStatus" :
				    "Accepted",
		  accepted },
		{ "Progressing", is_going,
		  is_going            ? "RollingOut" :
		  !s                  ? "NothingInForce" :
		  t.done == t.nodes   ? "NothingToDo" :
		  c->policy.is_paused ? "Paused" :
					"Halted",
		  count },
		{ "Complete", is_complete,
		  is_complete     ? "AllNodesDone" :
		  c->refused.code ? "InvalidPolicy" :
		  c->undone.count ? "Undone" :
		  t.nodes         ? "NodesLeft" :
				    "NoNodes",
		  count },
		{ "Halted", t.halted, halt ? halt : "NotHalted", halted },
	};
	json_t *list = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		add_condition(list, before, generation, now, &all[i]);
	return list;
}

static json_t *status_json(const struct coordinator *c, const struct slots *s)
{
	const struct totals t = count_totals(c, s);
	const json_t *before = json_object_get(c->policy_object, "status");
	json_int_t generation =
		json_integer_value(json_object_get(json_object_get(c->policy_object, "metadata"), "generation"));
	auto_str char *drivers = policy_drivers(&c->policy);
	json_t *pools = json_array();
	for (size_t i = 0; s && i < c->policy.pool_count; i++) {
		const struct pool *pool = &c->policy.pools[i];
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
			 conditions_json(c, s, json_object_get(before, "conditions"), generation));
}

// The current object, after a conflict. If it was deleted, the watch tells. If users changed it, it is not taken over
// here, where no policy is chosen: the watch would then see no change any more.
static int reread_driver_rollout(struct coordinator *c, const char *path, struct err *err)
{
	auto_json json_t *now = NULL;
	int r = api_get(c->o.kube, path, &now, err);
	if (r > 0 && cache_put_driver_rollout(c, now)) {
		json_decref(c->policy_object);
		c->policy_object = TAKE(now);
	}
	return r < 0 ? -1 : 0;
}

void driver_rollout_write_status(struct coordinator *c, const struct slots *s)
{
	enum { PAUSE_MS = 30000 };
	struct err why = { 0 };
	if (!c->policy_object || kube_now_ms() < c->object_ms)
		return;
	auto_json json_t *status = status_json(c, s), *now = NULL;
	const json_t *known = c->object_said ? c->object_said : json_object_get(c->policy_object, "status");
	if (known && json_equal(known, status))
		return;
	auto_str char *object = api_path(API_DRIVER_ROLLOUT, c->o.namespace, POLICY_NAME),
		      *path = str_fmt("%s/status", object);
	const json_t *metadata = json_object_get(c->policy_object, "metadata");
	auto_json json_t *body = json_pack("{s:{s:O}, s:O}", "metadata", "resourceVersion",
					   json_object_get(metadata, "resourceVersion"), "status", status);
	int r = api_change(c->o.kube, API_MERGE, path, body, &now, &why);
	if (r == 0)
		r = reread_driver_rollout(c, object, &why);
	if (r < 0) {
		coordinator_report_trouble(c, "the status of the " DRIVER_ROLLOUT_KIND, &why);
		c->object_ms = kube_now_ms() + PAUSE_MS;
	}
	if (r <= 0)
		return;
	json_decref(c->policy_object);
	json_decref(c->object_said);
	c->policy_object = TAKE(now);
	c->object_said = TAKE(status);
}
