// SPDX-License-Identifier: Apache-2.0
// rollout status, why: what the coordinator of a cluster sees, and what it will do next.
#include "cluster/kube/api.h"
#include "cmd/cluster/cluster.h"
#include "cmd/cluster/rollout.h"

#include <stdio.h>

// No blocker is recorded yet: list its pods, without an eviction.
static void check_node_pods(struct coordinator *c, const char *node)
{
	struct err why;
	size_t at = 0;
	while (at < c->node_cache.count && !str_eq(c->node_cache.entries[at].name, node))
		at++;
	const struct node_state *m = at < c->node_cache.count ? &c->node_cache.nodes[at] : NULL;
	const struct pool *pool = m ? policy_pool(&c->policy, m) : NULL;
	enum node_phase phase = m ? m->record.phase : PHASE_IDLE;
	bool is_drained = phase == PHASE_CORDONED || phase == PHASE_WAITING || phase == PHASE_EVICTING;
	if (pool && is_drained && !*m->record.reason.object &&
	    drain_check_pods(&c->drain, &c->node_cache, at, pool, false, kube_time(c->o.kube), &why) < 0)
		log_warn("cannot list the pods of %s: %s", node, why.text);
}

static int show_cluster_rollout(const struct cluster_values *v, const char *node, struct err *err)
{
	auto_kube struct kube *kube = NULL;
	auto_coordinator struct coordinator c = { 0 };
	auto_slots struct slots slots = SLOTS_NONE;
	if (cluster_look(v, &kube, &c, err) < 0)
		return -1;
	if (c.blind.code) {
		*err = c.blind;
		return err_wrap(err, "nothing is done");
	}
	if (!coordinator_source(&c, NULL))
		cluster_warn_no_policy(kube);
	const char *kind = c.policy_object ? DRIVER_ROLLOUT_KIND : c.policy_map ? "ConfigMap" : NULL;
	bool ignores_map = c.policy_object && c.policy_map;
	auto_json json_t *policy = json_pack("{s:b, s:o, s:o, s:b, s:o}", "accepted", !c.refused.code, "refusal",
					     json_text(c.refused.code ? c.refused.text : NULL), "kind", json_text(kind),
					     "ignoresConfigMap", ignores_map, "undone", json_strv(&c.undone));
	if (ignores_map && !v->common.is_json)
		printf("policy: there is a " DRIVER_ROLLOUT_KIND ", and the ConfigMap " POLICY_NAME " is ignored\n");
	for (size_t i = 0; i < c.undone.count && !v->common.is_json; i++)
		printf("policy: %s\n", c.undone.items[i]);
	if (c.refused.code && !v->common.is_json)
		printf("policy: refused, the last good one stays in force: %s\n", c.refused.text);
	if (node)
		check_node_pods(&c, node);
	struct cluster cluster = coordinator_cluster(&c);
	scheduler_plan(&cluster, &slots);
	if (node)
		return rollout_show_why(&cluster, &slots, node, policy, v->common.is_json, err);
	rollout_show_pools(&cluster, &slots, policy, v->common.is_json);
	return 0;
}

static int run_rollout_status(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	return show_cluster_rollout(values, NULL, err);
}

static int run_rollout_why(void *values, char **args, size_t count, struct err *err)
{
	(void)count;
	return show_cluster_rollout(values, args[0], err);
}

const struct cmd cmd_rollout_status = {
	.name = "rollout status",
	.help = "show the rollout: each pool, and each node with its state, its reason and the next step",
	.about = "Reads the policy, the recorded status, the ledger of slots and all nodes from the cluster, and "
		 "decides as the\ncoordinator does. Pods are not considered. Nothing is changed.\n\n"
		 "  kmodsmith rollout status --kubeconfig admin.conf --namespace kmodsmith\n",
	.opts = { cluster_opts, common_opts },
	.values_size = sizeof(struct cluster_values),
	.run = run_rollout_status,
};

const struct cmd cmd_rollout_why = {
	.name = "rollout why",
	.args = "NODE",
	.args_min = 1,
	.args_max = 1,
	.help = "explain the state of a node: every rule of its state, and every condition for a slot",
	.about = "Shows the rules that the coordinator evaluates, and since when the node is in its state, what "
		 "happens at the deadline,\nhow many drains there were, and why the last one ended. If a node is being "
		 "drained and no blocker is recorded yet,\nits pods are listed.\n\n"
		 "  kmodsmith rollout why gpu-17 --kubeconfig admin.conf --namespace kmodsmith\n",
	.opts = { cluster_opts, common_opts },
	.values_size = sizeof(struct cluster_values),
	.run = run_rollout_why,
};
