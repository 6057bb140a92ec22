// SPDX-License-Identifier: Apache-2.0
// Which pods of a node have to go before its driver is replaced: pure, from a pod, the policy and what the agent says
// (upgrade-design 5.7). Mirror pods and those of DaemonSets are never evicted: operands are paused instead.
#pragma once
#include "base/formats/json.h"
#include "cluster/policy/policy.h"

// What is kept of a pod.
#define PODS_RECORD                                                                                                   \
	"metadata name", "metadata namespace", "metadata uid", "metadata deletionTimestamp", "metadata labels",       \
		"metadata annotations kubernetes.io/config.mirror", "metadata finalizers",                            \
		"metadata ownerReferences kind", "metadata ownerReferences controller", "spec containers resources",  \
		"spec initContainers resources", "spec volumes emptyDir", "spec nodeSelector", "spec resourceClaims", \
		"status phase", "status resourceClaimStatuses"

struct pod_rules {
	const struct pool *pool;
	const char *holders; // agent.holders of the node: "<count> <generation> <pod uid>..."; NULL = none
	const char *own_uid; // of a pod that stays because no other could continue: the coordinator's; NULL = none
};
enum pod_verdict {
	POD_STAYS,
	POD_GOES,    // to be evicted
	POD_LEAVING, // its end has begun
	POD_STUCK,   // in the way, and the policy or its owner forbids to evict it
	POD_HOLDS,   // has the GPU open, and ends when its operand is paused
	POD_FIXED,   // has the GPU open, and nothing here ends it: of another DaemonSet, or static
};
// It has to go before there are no pods left; of the others only what they hold has to end.
static inline bool pod_has_to_go(enum pod_verdict v)
{
	return v == POD_GOES || v == POD_LEAVING || v == POD_STUCK;
}
// claims_gpu: a claim of it is for a GPU. why: of all but POD_STAYS and POD_GOES, for people: "NAMESPACE/NAME: ...".
enum pod_verdict pod_judge(const json_t *pod, const struct pod_rules *rules, bool claims_gpu, char why[OBJECT_TEXT]);
void pod_name(const json_t *pod, char ret[OBJECT_TEXT]);     // "NAMESPACE/NAME"
bool pod_is_job(const json_t *pod, const struct pool *pool); // the policy waits for it
// Names of the ResourceClaims of a pod, as they are called in its namespace.
void pod_claims(const json_t *pod, struct strv *ret);
