// SPDX-License-Identifier: Apache-2.0
// Shared by the commands that use the Kubernetes API.
#pragma once
#include "cluster/coordinator/coordinator.h"
#include "cmd/common/common.h"

struct cluster_values { // first member of each command's values
	struct common common;
	char *kubeconfig, *context, *namespace;
};
extern const struct opt cluster_opts[];
// Of --kubeconfig, else of our pod, else ~/.kube/config. E_USAGE: there is none.
int cluster_config(const struct cluster_values *v, struct kube_config *ret, struct err *err);
// Reads the state of rollouts once, without leading or writing.
int cluster_look(const struct cluster_values *v, struct kube **ret_kube, struct coordinator *ret, struct err *err);
// For struct cmd's offer: the pools of the policy, and as a second argument their waves; the nodes.
void cluster_offer_pools(const void *values, const char *option, size_t argument, struct strv *ret);
void cluster_offer_nodes(const void *values, const char *option, size_t argument, struct strv *ret);
void cluster_warn_no_policy(struct kube *kube); // in this namespace; tells if an older installation has one
