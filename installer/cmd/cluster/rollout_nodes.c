// SPDX-License-Identifier: Apache-2.0
// rollout nodes: the nodes of a cluster as a file, for the commands that read one, without kubectl.
#include "cluster/policy/node_list.h"
#include "cmd/cluster/cluster.h"

struct values {
	struct cluster_values cluster;
	char *selector, *output;
};

static const struct opt opts[] = {
	{ "selector", 0, "LABELS", NULL, OPT_STR, offsetof(struct values, selector),
	  "only nodes with these labels, as for `kubectl get nodes --selector`" },
	{ "output", 'o', "FILE|-", NULL, OPT_STR, offsetof(struct values, output),
	  "output file, replaced atomically; default -: standard output" },
	{ 0 },
};

// By name: a list that starts over brings nodes again.
static int take_node(void *ctx, json_t *node, struct err *err)
{
	json_t *nodes = ctx;
	const char *name = json_string_value(json_object_get(json_object_get(node, "metadata"), "name"));
	if (!name)
		return err_set(err, E_KUBE, "a Node in the list has no name");
	if (json_object_size(nodes) == NODE_LIST_MOST)
		return err_set(err, E_TOO_LARGE, "the cluster has more than %d nodes", NODE_LIST_MOST);
	json_object_set(nodes, name, node);
	return 0;
}

// What the commands with --nodes read, and no more: a Node of the API has up to 20 KiB of images and addresses.
static int list_nodes(struct kube *kube, const char *selector, json_t *ret, struct err *err)
{
	auto_strv struct strv record = { 0 };
	auto_str char *escaped = http_escape(selector ? selector : ""), *version = NULL;
	auto_str char *query = *escaped ? str_fmt("labelSelector=%s", escaped) : NULL;
	node_list_record(NULL, "", &record);
	strv_add(&record, str_dup("status nodeInfo kernelVersion"));
	strv_add(&record, str_dup("status nodeInfo architecture"));
	struct kube_list list = { .path = "/api/v1/nodes",
				  .query = query,
				  .record = (const char *const *)record.items,
				  .take = take_node,
				  .ctx = ret };
	if (kube_list(kube, &list, &version, err) < 0)
		return err_wrap(err, "cannot list the nodes");
	if (json_object_size(ret))
		return 0;
	return query ? err_set(err, E_NOT_FOUND, "no node has the labels '%s'", selector) :
		       err_set(err, E_NOT_FOUND, "the cluster has no nodes");
}

static int run_rollout_nodes(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	auto_kube struct kube *kube = NULL;
	auto_json json_t *nodes = json_object(), *items = json_array();
	const char *name;
	json_t *node;
	(void)args, (void)count;
	if (cluster_config(&v->cluster, &config, err) < 0 || kube_open(&config, &kube, err) < 0 ||
	    list_nodes(kube, v->selector, nodes, err) < 0)
		return -1;
	json_object_foreach(nodes, name, node)
	{
		json_array_append(items, node);
	}
	log_info("%zu node%s", json_array_size(items), str_plural(json_array_size(items)));
	auto_json json_t *list = json_pack("{s:s, s:s, s:O}", "apiVersion", "v1", "kind", "List", "items", items);
	return show_json_as(list, v->output, err);
}

const struct cmd cmd_rollout_nodes = {
	.name = "rollout nodes",
	.help = "write what the commands with --nodes read of the cluster's nodes",
	.about = "The same objects as `kubectl get nodes -o json`, with labels, kernels and what rollouts write on\n"
		 "nodes, and nothing else.\n"
		 "Needs the right to list nodes. That no node matches is an error.\n\n"
		 "  kmodsmith rollout nodes --selector nvidia.com/gpu.present=true --output nodes.json\n"
		 "  kmodsmith build --matrix matrix.json --nodes nodes.json --output oci:packages\n"
		 "  kmodsmith rollout plan --policy policy.yaml --nodes nodes.json\n",
	.opts = { opts, cluster_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_rollout_nodes,
};
