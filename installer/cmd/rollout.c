// SPDX-License-Identifier: Apache-2.0
// rollout plan, check-policy: what the coordinator would do, from files, without a cluster.
#include "cmd/rollout.h"
#include "base/date.h"
#include "base/file.h"
#include "cluster/patch.h"
#include "cluster/roster.h"
#include "cluster/slots.h"

#include <fcntl.h>
#include <stdio.h>

struct values {
	struct common common;
	char *policy, *nodes, *now, *node;
	bool is_resumed;
};

static const struct opt plan_opts[] = {
	{ "policy", 0, "FILE", NULL, OPT_STR, offsetof(struct values, policy), "the policy, as JSON" },
	{ "nodes", 0, "FILE", NULL, OPT_STR, offsetof(struct values, nodes),
	  "what `kubectl get nodes -o json` printed" },
	{ "now", 0, "TIME", NULL, OPT_STR, offsetof(struct values, now),
	  "as if it were that time, such as 2027-01-15T08:00:00Z" },
	{ "node", 0, "NAME", NULL, OPT_STR, offsetof(struct values, node),
	  "why this node is where it is: every rule of its state, and everything that a slot asks for" },
	{ "resumed", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_resumed),
	  "as if the roll-out had been resumed: what failed before is forgiven" },
	{ 0 },
};

static int read_text(const char *path, char **ret, size_t *ret_len, struct err *err)
{
	auto_fd int fd = file_open_arg(path, O_RDONLY, err);
	return fd < 0 ? -1 : file_read(fd, path, ret, ret_len, err);
}

static int read_policy(const char *path, struct policy *ret, struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0;
	if (read_text(path, &text, &len, err) < 0)
		return -1;
	return policy_parse(text, len, ret, err) < 0 ? err_wrap(err, "'%s'", path) : 0;
}

static int read_nodes(const char *path, const struct policy *policy, struct roster *ret, struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0;
	if (read_text(path, &text, &len, err) < 0)
		return -1;
	return roster_parse(text, len, policy, ret, err) < 0 ? err_wrap(err, "'%s'", path) : 0;
}

static int read_now(const char *text, int64_t *ret, struct err *err)
{
	time_t now = time(NULL);
	if (text && !date_parse(text, &now))
		return err_set(err, E_USAGE, "--now: '%s' is no time such as 2027-01-15T08:00:00Z", text);
	*ret = now;
	return 0;
}

char *reason_text(const struct reason *reason)
{
	const char *code = reason->code == REASON_NONE ? "" : reason_info(reason->code)->code;
	return str_fmt("%s%s%s", code, *reason->object ? " " : "", reason->object);
}

static const char *slot_step(const struct member *m, const struct seat *seat)
{
	bool is_counted = seat->had == SLOT_NONE && m->record.phase != PHASE_QUEUED;
	if (seat->has == seat->had)
		return "";
	return is_counted             ? "is entered into the ledger" :
	       seat->has == SLOT_NONE ? "its slot is given back" :
	       seat->had == SLOT_NONE ? "gets a slot" :
					"gets a slot for work";
}

static json_t *date_json(int64_t t)
{
	auto_str char *text = t ? date_text((time_t)t) : NULL;
	return json_text(text);
}

static json_t *changes_json(const struct member *m, const struct decision *d, bool has_mirror)
{
	auto_patch struct patch patch;
	json_t *set = json_object();
	patch_make(m, d, has_mirror, &patch);
	for (size_t i = 0; i < patch.count; i++)
		json_object_set_new(set, patch.changes[i].key, json_text(patch.changes[i].value));
	return set;
}

static json_t *node_json(const struct cluster *c, const struct slots *s, size_t at)
{
	const struct member *m = &c->members[at];
	const struct seat *seat = &s->seats[at];
	struct view v = slots_view(c, s, at);
	struct decision d;
	transition(&v, &d);
	const struct reason *why = d.rule ? &d.next.reason : &d.waits;
	const struct reason_info *info = reason_info(why->code);
	static const char *const cordons[] = { "keep", "on", "off" };
	return json_pack("{s:s, s:o, s:s, s:s, s:o, s:o, s:s, s:s, s:s, s:o, s:s, s:s, s:o}", "node", m->name, "pool",
			 json_text(v.pool ? v.pool->name : NULL), "wave", v.wave, "state",
			 phase_info(m->record.phase)->name, "step", json_text(d.rule ? rule_text(d.rule) : NULL),
			 "next", json_text(d.rule ? phase_info(d.next.phase)->name : NULL), "reason", info->code,
			 "object", why->object, "action", info->next, "deadline", date_json(d.next.deadline), "slot",
			 slot_step(m, seat), "cordon", cordons[d.cordon], "writes",
			 changes_json(m, &d, c->policy->has_mirror));
}

static json_t *pool_json(const struct cluster *c, const struct slots *s, size_t at)
{
	const struct sum *sum = &s->sums[at];
	const struct rollout *r = &s->rollouts[at];
	const struct reason *why = r->is_halted ? &r->halt : &sum->blocked;
	char target[AIM_TEXT];
	aim_text(&r->target, target);
	auto_str char *text = reason_text(why);
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "pool",
			 c->policy->pools[at].name, "driver", c->policy->pools[at].target.driver, "target", target,
			 "wave", slots_wave_name(&c->policy->pools[at], r->wave), "halted", r->is_halted, "reason",
			 text, "action", reason_info(why->code)->next, "nodes", (int)sum->total, "done", (int)sum->done,
			 "failed", (int)sum->failed, "unavailable", (int)sum->unavailable, "maxUnavailable",
			 (int)sum->unavailable_limit, "used", (int)sum->used, "maxParallel", (int)sum->parallel_limit);
}

static void show_pools(const struct cluster *c, const struct slots *s)
{
	for (size_t i = 0; i < c->policy->pool_count; i++) {
		const struct sum *sum = &s->sums[i];
		const struct rollout *r = &s->rollouts[i];
		const struct reason *why = r->is_halted ? &r->halt : &sum->blocked;
		auto_str char *text = reason_text(why);
		printf("pool %s: driver %s, wave %s, %u nodes, %u done, %u failed; slots %u of %u, unavailable %u of "
		       "%u\n",
		       c->policy->pools[i].name, c->policy->pools[i].target.driver,
		       slots_wave_name(&c->policy->pools[i], r->wave), sum->total, sum->done, sum->failed, sum->used,
		       sum->parallel_limit, sum->unavailable, sum->unavailable_limit);
		if (why->code != REASON_NONE)
			printf("%s: %s\n  %s\n  next: %s\n", r->is_halted ? "halted" : "no more grants", text,
			       reason_info(why->code)->text, reason_info(why->code)->next);
	}
}

static void show_nodes(const struct cluster *c, const struct slots *s)
{
	auto_strv struct strv rows = { 0 };
	strv_add(&rows, str_dup("NODE\tPOOL\tWAVE\tSTATE\tNEXT\tREASON\tDEADLINE\tSTEP"));
	for (size_t i = 0; i < c->count; i++) {
		struct view v = slots_view(c, s, i);
		struct decision d;
		transition(&v, &d);
		auto_str char *why = reason_text(d.rule ? &d.next.reason : &d.waits);
		auto_str char *deadline = d.next.deadline ? date_text((time_t)d.next.deadline) : NULL;
		const char *slot = slot_step(&c->members[i], &s->seats[i]), *step = d.rule ? rule_text(d.rule) : "";
		strv_add(&rows,
			 str_fmt("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s%s%s", c->members[i].name, v.pool ? v.pool->name : "-",
				 *v.wave ? v.wave : "-", phase_info(c->members[i].record.phase)->name,
				 d.rule ? phase_info(d.next.phase)->name : "-", *why ? why : "-",
				 deadline ? deadline : "-", slot, *slot && *step ? "; " : "", step));
	}
	show_table(&rows);
}

static void show_plan_json(const struct cluster *c, const struct slots *s)
{
	auto_json json_t *result = json_pack("{s:[], s:[], s:i, s:i}", "pools", "nodes", "granted", (int)s->granted,
					     "freed", (int)s->freed);
	for (size_t i = 0; i < c->policy->pool_count; i++)
		json_array_append_new(json_object_get(result, "pools"), pool_json(c, s, i));
	for (size_t i = 0; i < c->count; i++)
		json_array_append_new(json_object_get(result, "nodes"), node_json(c, s, i));
	show_json(result);
}

static int run_plan(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_policy struct policy policy = POLICY_NONE;
	auto_roster struct roster roster = { 0 };
	auto_slots struct slots slots = SLOTS_NONE;
	struct rollout rollouts[POOLS_MOST] = { 0 };
	const struct ledger ledger = { 0 };
	struct cluster c = { &policy, rollouts, NULL, 0, &ledger, 1, 0 };
	(void)args, (void)count;
	if (!v->policy || !v->nodes)
		return err_set(err, E_USAGE, "--policy and --nodes are needed");
	if (read_now(v->now, &c.now, err) < 0 || read_policy(v->policy, &policy, err) < 0 ||
	    read_nodes(v->nodes, &policy, &roster, err) < 0)
		return -1;
	c.members = roster.members;
	c.count = roster.count;
	for (size_t i = 0; v->is_resumed && i < policy.pool_count; i++)
		rollouts[i] = (struct rollout){ .target = policy.pools[i].target.aim, .resumed = c.now };
	slots_plan(&c, &slots);
	if (v->node)
		return show_why(&c, &slots, v->node, v->common.is_json, err);
	if (v->common.is_json) {
		show_plan_json(&c, &slots);
	} else {
		show_pools(&c, &slots);
		show_nodes(&c, &slots);
	}
	return 0;
}

static json_t *wanted_json(const struct pool *pool)
{
	char aim[AIM_TEXT];
	json_t *spans = json_object();
	for (unsigned i = 0; i < SPAN_COUNT; i++)
		json_object_set_new(spans, span_names[i], json_integer(pool->spans[i]));
	aim_text(&pool->target.aim, aim);
	return json_pack("{s:s, s:s, s:s, s:i, s:i, s:o}", "pool", pool->name, "driver", pool->target.driver, "target",
			 aim, "waves", (int)pool->wave_count, "windows", (int)pool->window_count, "deadlines", spans);
}

static int run_check(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_policy struct policy policy = POLICY_NONE;
	auto_json json_t *pools = json_array();
	(void)count;
	if (read_policy(args[0], &policy, err) < 0)
		return -1;
	for (size_t i = 0; i < policy.pool_count; i++) {
		const struct pool *pool = &policy.pools[i];
		json_array_append_new(pools, wanted_json(pool));
		if (!v->common.is_json)
			printf("pool %s: driver %s, %zu waves, %zu windows\n", pool->name, pool->target.driver,
			       pool->wave_count, pool->window_count);
	}
	if (v->common.is_json)
		show_json(pools);
	return 0;
}

const struct cmd cmd_rollout_plan = {
	.name = "rollout plan",
	.help = "what the coordinator of a roll-out would do now, from files",
	.about =
		"Reads a policy and what `kubectl get nodes -o json` printed, and shows for each node its state, the "
		"next "
		"step,\n"
		"the reason, the deadline, and whether it would get a slot; for each pool the limits and whether it is "
		"halted.\n"
		"Nothing is asked of a cluster and nothing is changed. Pods are not looked at. See also "
		"kmodsmith-rollout-check-policy(8).\n\n"
		"  kubectl get nodes -o json >nodes.json\n"
		"  kmodsmith rollout plan --policy policy.json --nodes nodes.json\n",
	.opts = { plan_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_plan,
};

const struct cmd cmd_rollout_check_policy = {
	.name = "rollout check-policy",
	.args = "FILE",
	.args_min = 1,
	.args_max = 1,
	.help = "whether a policy is one, before it is applied",
	.about = "Every refusal names the field. With --json the result has the deadlines in seconds, defaults "
		 "included.\n\n"
		 "  kmodsmith rollout check-policy policy.json\n",
	.opts = { common_opts },
	.values_size = sizeof(struct values),
	.run = run_check,
};
