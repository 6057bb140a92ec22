// SPDX-License-Identifier: Apache-2.0
// The driver DaemonSets of NVIDIA's GPU Operator, and which nodes they serve: two programs that load drivers cannot
// share a node. The operator labels them app.kubernetes.io/component=nvidia-driver, and their owner is a ClusterPolicy
// or an NVIDIADriver (gpu-operator assets/state-driver and manifests/state-driver, 0500_daemonset.yaml).
#pragma once
#include "cluster/policy/policy.h"

#define DRIVER_DAEMONSETS_PATH "/apis/apps/v1/daemonsets"
#define DRIVER_DAEMONSETS_QUERY "labelSelector=app.kubernetes.io%2Fcomponent%3Dnvidia-driver"

struct driver_daemonsets {
	struct {
		char *name;           // "namespace/name"
		struct strv selector; // "key=value", all of which a node has that it serves
	} * items;
	size_t count;
};
void driver_daemonsets_done(struct driver_daemonsets *d);
#define auto_driver_daemonsets __attribute__((cleanup(driver_daemonsets_done)))

// Rows of kube_list.record, or of kube_watch.record. Added to ret.
void driver_daemonsets_record(bool is_event, struct strv *ret);
// As it is now, or gone. True: other nodes may be served than before. What nobody of NVIDIA's owns is left out.
bool driver_daemonsets_put(struct driver_daemonsets *d, const json_t *object);
bool driver_daemonsets_remove(struct driver_daemonsets *d, const json_t *object);
// Into the policy, by whose terms nodes are judged, in place of those that were there. Affinities are not looked at,
// nor labels for which the policy has no room: a node too many is held rather than one too few.
void driver_daemonsets_apply(const struct driver_daemonsets *d, struct policy *policy);
