// SPDX-License-Identifier: Apache-2.0
#include "cmd/cluster/cluster.h"

#include "cluster/kube/api.h"

#include <unistd.h>

const struct opt cluster_opts[] = {
	{ "kubeconfig", 0, "FILE", "KUBECONFIG", OPT_STR, offsetof(struct cluster_values, kubeconfig),
	  "the Kubernetes API; default: that of the pod's service account, else ~/.kube/config" },
	{ "context", 0, "NAME", NULL, OPT_STR, offsetof(struct cluster_values, context),
	  "of the kubeconfig; default: its current one" },
	{ "namespace", 'n', "NAME", "POD_NAMESPACE", OPT_STR, offsetof(struct cluster_values, namespace),
	  "where the policy, the status and the coordinator's Lease are; default: that of the kubeconfig's context or "
	  "the pod, else " KUBE_NAMESPACE },
	{ .help = "Cluster" },
};

int cluster_config(const struct cluster_values *v, struct kube_config *ret, struct err *err)
{
	auto_machine struct machine machine = { 0 };
	const char *home = getenv("HOME");
	auto_str char *path = v->kubeconfig && *v->kubeconfig ? str_dup(v->kubeconfig) : NULL;
	if (!path) {
		if (machine_open(&v->common, &machine, err) < 0)
			return -1;
		int r = v->context ? 0 : kube_config_pod(&machine.kern, environ, ret, err); // a pod has no contexts
		if (r < 0)
			return -1;
		path = r == 0 ? str_fmt("%s/.kube/config", home ? home : "") : NULL;
		if (path && access(path, R_OK) < 0) {
			err_set(err, E_USAGE,
				"no cluster: KUBECONFIG is not set, '%s' cannot be read, and this is not a pod with "
				"a service account",
				path);
			return err_next(err, "name the cluster's file with --kubeconfig FILE; "
					     "`kubectl config view` shows the one that kubectl uses");
		}
	}
	if (path && kube_config_file(path, v->context, ret, err) < 0)
		return -1;
	if (v->namespace && *v->namespace) {
		free(ret->namespace);
		ret->namespace = str_dup(v->namespace);
	}
	ret->deadline_ms = COORDINATOR_CALL_MS;
	return 0;
}

int cluster_look(const struct cluster_values *v, struct kube **ret_kube, struct coordinator *ret, struct err *err)
{
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	if (cluster_config(v, &config, err) < 0 || kube_open(&config, ret_kube, err) < 0)
		return -1;
	const struct coordinator_options o = {
		.kube = *ret_kube, .lease_kube = *ret_kube, .namespace = kube_namespace(*ret_kube), .holder = "observer"
	};
	coordinator_init(&o, ret);
	return coordinator_look(ret, err);
}

static void offer_names(const struct cluster_values *v, bool is_nodes, size_t argument, struct strv *ret)
{
	struct kube *kube = NULL;
	struct coordinator c = { 0 };
	struct err ignored;
	int r = cluster_look(v, &kube, &c, &ignored);
	for (size_t i = 0; r == 0 && is_nodes && i < c.node_cache.count; i++)
		strv_add(ret, str_dup(c.node_cache.entries[i].name));
	for (size_t i = 0; r == 0 && !is_nodes && i < c.source.policy.pool_count; i++) {
		const struct pool *pool = &c.source.policy.pools[i];
		if (argument == 0)
			strv_add(ret, str_dup(pool->name));
		for (unsigned w = 0; argument == 1 && w <= pool->wave_count; w++)
			strv_add(ret, str_dup(policy_wave_name(pool, w)));
	}
	coordinator_done(&c);
	kube_free(kube);
}

void cluster_offer_pools(const void *values, const char *option, size_t argument, struct strv *ret)
{
	if (option ? str_eq(option, "pool") : argument < 2)
		offer_names(values, false, option ? 0 : argument, ret);
}

void cluster_offer_nodes(const void *values, const char *option, size_t argument, struct strv *ret)
{
	if (!option && argument == 0)
		offer_names(values, true, argument, ret);
}

void cluster_warn_no_policy(struct kube *kube)
{
	static const char before[] = "kube-system"; // of older versions of deploy/
	auto_str char *path = api_path(API_CONFIGMAP, before, POLICY_NAME);
	auto_json json_t *map = NULL;
	struct err ignored;
	log_warn("there is neither a " DRIVER_ROLLOUT_KIND " nor a ConfigMap " POLICY_NAME
		 " in the namespace %s; see --namespace",
		 kube_namespace(kube));
	if (!str_eq(kube_namespace(kube), before) && api_get(kube, path, &map, &ignored) > 0)
		log_warn("the namespace %s has one, of an older installation: see deploy/namespace.yaml for how to "
			 "move it",
			 before);
}
