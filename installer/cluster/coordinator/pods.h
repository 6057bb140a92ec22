// SPDX-License-Identifier: Apache-2.0
// Which pods of a node have to be evicted before its driver is replaced: a pure function of the pod, the policy and the
// agent's report (upgrade-design 5.7). Mirror pods and DaemonSet pods are never evicted: operands are paused instead.
#pragma once
#include "base/formats/json.h"
#include "cluster/policy/policy.h"

// The fields that are kept of a pod.
#define PODS_RECORD                                                                                                   \
	"metadata name", "metadata namespace", "metadata uid", "metadata deletionTimestamp", "metadata labels",       \
		"metadata annotations kubernetes.io/config.mirror", "metadata finalizers",                            \
		"metadata ownerReferences kind", "metadata ownerReferences controller", "spec containers resources",  \
		"spec initContainers resources", "spec volumes emptyDir", "spec nodeSelector", "spec resourceClaims", \
		"status phase", "status resourceClaimStatuses", "status conditions type", "status conditions status"

// Of the pod of a validation: the uid of the node.
#define VALIDATION_LABEL KEY_PREFIX "validation"
#define VALIDATION_QUERY "kmodsmith.io%2Fvalidation"

struct pod_rules {
	const struct pool *pool;
	const char *holders;     // agent.holders of the node: "<count> <generation> <pod uid>..."; NULL = none
	const char *own_uid;     // of the coordinator's own pod on a single node, which is not evicted; NULL = none
	const char *validations; // their namespace; NULL = none
};
enum pod_verdict {
	POD_STAYS,
	POD_GOES,    // to be evicted
	POD_LEAVING, // is terminating
	POD_STUCK,   // in the way, and the policy or its owner forbids to evict it
	POD_HOLDS,   // has the GPU open, and ends when its operand is paused
	POD_FIXED,   // has the GPU open, and nothing here ends it: of another DaemonSet, or static
};
// It counts as a pod that is left; others only have to close the GPU.
static inline bool pod_has_to_go(enum pod_verdict v)
{
	return v == POD_GOES || v == POD_LEAVING || v == POD_STUCK;
}
// claims_gpu: it has a ResourceClaim for a GPU. why: of all but POD_STAYS and POD_GOES: "NAMESPACE/NAME: ...".
enum pod_verdict pod_judge(const json_t *pod, const struct pod_rules *rules, bool claims_gpu, char why[OBJECT_TEXT]);
// A pod of an operand that is Ready, by the name of the operand (baseline words); NULL = none that is looked for.
const char *pod_ready_operand(const json_t *pod);
bool pod_asks_for_gpu(const json_t *spec);
bool pod_is_job(const json_t *pod, const struct pool *pool); // the policy waits for it
// Names of its ResourceClaims.
void pod_claims(const json_t *pod, struct strv *ret);
