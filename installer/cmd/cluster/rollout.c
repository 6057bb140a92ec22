// SPDX-License-Identifier: Apache-2.0
// rollout plan, check-policy: what the coordinator would do, from files, without a cluster.
#include "cmd/cluster/rollout.h"
#include "base/core/date.h"
#include "base/file/file.h"
#include "cluster/policy/node_list.h"
#include "cluster/rollout/node_patch.h"
#include "cluster/rollout/scheduler.h"

#include <fcntl.h>
#include <stdio.h>

struct values {
	struct common common;
	char *policy, *nodes, *now, *node;
	bool is_resumed;
};

static const struct opt plan_opts[] = {
	{ "policy", 0, "FILE", NULL, OPT_STR, offsetof(struct values, policy), "the policy, as JSON or YAML" },
	{ "nodes", 0, "FILE|-", NULL, OPT_STR, offsetof(struct values, nodes),
	  "output of `kubectl get nodes -o json`; - reads standard input" },
	{ "now", 0, "TIME", NULL, OPT_STR, offsetof(struct values, now),
	  "plan for this time, such as 2027-01-15T08:00:00Z" },
	{ "node", 0, "NAME", NULL, OPT_STR, offsetof(struct values, node),
	  "explain the state of this node: every rule of its state, and every condition for a slot" },
	{ "resumed", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_resumed),
	  "plan as if the rollout had been resumed: earlier failures do not count" },
	{ 0 },
};

static int read_policy_file(const char *path, struct policy *ret, struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0;
	auto_fd int fd = file_open_arg(path, O_RDONLY, err);
	if (fd < 0 || file_read_most(fd, path, POLICY_BYTES, &text, &len, err) < 0)
		return -1;
	return policy_parse(text, len, ret, err) < 0 ? err_wrap(err, "'%s'", path) : 0;
}

static int read_node_list(const char *path, const struct policy *policy, struct node_list *ret, struct err *err)
{
	if (str_eq(path, "-"))
		return node_list_read(STDIN_FILENO, "standard input", policy, ret, err);
	auto_fd int fd = file_open_arg(path, O_RDONLY, err);
	return fd < 0 ? -1 : node_list_read(fd, path, policy, ret, err);
}

static int run_rollout_plan(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_policy struct policy policy = POLICY_NONE;
	auto_node_list struct node_list node_list = { 0 };
	auto_slots struct slots slots = SLOTS_NONE;
	struct rollout rollouts[POOLS_MOST] = { 0 };
	const struct slot_ledger ledger = { 0 };
	time_t now = time(NULL);
	(void)args, (void)count;
	if (!v->policy || !v->nodes)
		return err_set(err, E_USAGE, "--policy and --nodes are needed");
	if (v->now && !date_parse(v->now, &now))
		return err_set(err, E_USAGE, "--now: '%s' is not a time such as 2027-01-15T08:00:00Z", v->now);
	if (read_policy_file(v->policy, &policy, err) < 0 || read_node_list(v->nodes, &policy, &node_list, err) < 0)
		return -1;
	const struct cluster c = { .policy = &policy,
				   .rollouts = rollouts,
				   .nodes = node_list.nodes,
				   .count = node_list.count,
				   .ledger = &ledger,
				   .epoch = 1,
				   .now = now };
	for (size_t i = 0; v->is_resumed && i < policy.pool_count; i++)
		rollouts[i] = (struct rollout){ .target = policy.pools[i].target.target_hash, .resumed = c.now };
	scheduler_plan(&c, &slots);
	if (v->node)
		return rollout_show_why(&c, &slots, v->node, NULL, NULL, v->common.is_json, err);
	rollout_show_pools(&c, &slots, &(struct rollout_filter){ 0 }, NULL, v->common.is_json);
	return 0;
}

static int run_rollout_check(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_policy struct policy policy = POLICY_NONE;
	auto_json json_t *pools = json_array();
	auto_node_list struct node_list node_list = { 0 };
	auto_slots struct slots slots = SLOTS_NONE;
	struct rollout rollouts[POOLS_MOST] = { 0 };
	const struct slot_ledger ledger = { 0 };
	(void)count;
	if (read_policy_file(args[0], &policy, err) < 0 ||
	    (v->nodes && read_node_list(v->nodes, &policy, &node_list, err) < 0))
		return -1;
	for (size_t i = 0; i < policy.pool_count;
	     i++) // as if the rollout had begun just now, so the policy alone decides
		rollouts[i] = (struct rollout){ .target = policy.pools[i].target.target_hash };
	const struct cluster c = { .policy = &policy,
				   .rollouts = rollouts,
				   .nodes = node_list.nodes,
				   .count = node_list.count,
				   .ledger = &ledger,
				   .epoch = 1,
				   .now = time(NULL) };
	if (v->nodes)
		scheduler_plan(&c, &slots);
	for (size_t i = 0; i < policy.pool_count; i++) {
		const struct pool *pool = &policy.pools[i];
		char target_hash[TARGET_HASH_TEXT];
		json_t *spans = json_object();
		for (unsigned k = 0; k < SPAN_COUNT; k++)
			json_object_set_new(spans, span_names[k], json_integer(pool->spans[k]));
		target_hash_text(&pool->target.target_hash, target_hash);
		json_t *wanted = json_pack("{s:s, s:s, s:s, s:i, s:i, s:o}", "pool", pool->name, "driver",
					   pool->target.driver, "target", target_hash, "waves", (int)pool->wave_count,
					   "windows", (int)pool->window_count, "deadlines", spans);
		if (v->nodes)
			json_object_set_new(wanted, "nodesOfWaves", rollout_waves_json(&c, &slots, i));
		json_array_append_new(pools, wanted);
		if (v->common.is_json)
			continue;
		printf("pool %s: driver %s, %zu wave%s, %zu window%s\n", pool->name, pool->target.driver,
		       pool->wave_count, str_plural(pool->wave_count), pool->window_count,
		       str_plural(pool->window_count));
		if (v->nodes)
			rollout_show_waves(&c, &slots, i);
	}
	if (v->common.is_json)
		show_json(pools);
	return 0;
}

static const struct opt check_opts[] = {
	{ "nodes", 0, "FILE|-", NULL, OPT_STR, offsetof(struct values, nodes),
	  "output of `kubectl get nodes -o json`, to show how many nodes each wave has and which waves test nothing" },
	{ 0 },
};

const struct cmd cmd_rollout_plan = {
	.name = "rollout plan",
	.help = "show from files what the coordinator of a rollout would do now",
	.about = "Reads a policy and the output of `kubectl get nodes -o json`, and shows for each node its state,\n"
		 "the next step, the reason, the deadline, and whether it would get a slot; for each pool the\n"
		 "limits and whether it is halted.\n"
		 "No cluster is asked and nothing is changed. Pods are not considered. See also\n"
		 "kmodsmith-rollout-check-policy(8).\n\n"
		 "  kubectl get nodes -o json | kmodsmith rollout plan --policy policy.json --nodes -\n",
	.opts = { plan_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_rollout_plan,
};

const struct cmd cmd_rollout_check_policy = {
	.name = "rollout check-policy",
	.args = "FILE",
	.args_min = 1,
	.args_max = 1,
	.help = "validate a policy before it is applied",
	.about = "The policy is JSON or YAML; every error names the line or the field. With --json the result has the\n"
		 "deadlines in seconds, defaults included.\n\n"
		 "  kmodsmith rollout check-policy policy.yaml --nodes nodes.json\n",
	.opts = { check_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_rollout_check,
};
