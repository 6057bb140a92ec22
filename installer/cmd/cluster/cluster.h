// SPDX-License-Identifier: Apache-2.0
// What the commands that talk to a cluster share.
#pragma once
#include "cluster/coordinator/coordinator.h"
#include "cmd/common/common.h"

struct cluster_values { // first member of each command's values
	struct common common;
	char *kubeconfig, *namespace;
};
extern const struct opt cluster_opts[];
// Of --kubeconfig, else of the pod that we run in. E_USAGE: there is neither.
int cluster_config(const struct cluster_values *v, struct kube_config *ret, struct err *err);
// All that is known of rollouts, read once; nothing is led and nothing is written.
int cluster_look(const struct cluster_values *v, struct kube **ret_kube, struct coordinator *ret, struct err *err);
void cluster_warn_no_policy(struct kube *kube); // in this namespace; and where there is one of an older install
