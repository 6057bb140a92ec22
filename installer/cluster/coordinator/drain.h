// SPDX-License-Identifier: Apache-2.0
// The pods of one node, checked and evicted: those that the policy selects, by the uid of the pod that was checked,
// within a rate limit for the whole cluster (upgrade-design 5.7; T04 to T12).
#pragma once
#include "cluster/coordinator/node_cache.h"
#include "cluster/kube/client.h"

struct evictor {
	struct kube *kube;                     // borrowed
	const char *own_uid, *validations;     // see struct pod_rules; NULL = none
	unsigned tokens;                       // evictions that may be requested now
	long filled_ms;                        // when tokens were counted last
	unsigned long asked, evicted, blocked; // evictions, since the start
};
enum {
	DRAIN_RATE = 10 /* a second */,
	DRAIN_LOOK_MS = 5000,
	DRAIN_LOOK_MOST_MS = 60000,
	DRAIN_HELD_MS = 60000,
	DRAIN_HELD_MOST_MS = 600000
};

bool drain_is_due(const struct node_cache *f, size_t at);
// Fills facts.seen, and sets when the next check is due. evicts: pods that have to go are evicted, else only counted.
// 1 = the result differs from the last one, 0 = the same, or the node is gone. An error changes nothing.
int drain_check_pods(struct evictor *d, struct node_cache *f, size_t at, const struct pool *pool, bool evicts,
		     int64_t now, struct err *err);
// Whether a ResourceClaim of a pod is for a GPU (DRA); one that cannot be read counts as such. Admin access is a view
// of devices that others use, and takes none, so it is no reason to evict (gpu-operator 26.7,
// controllers/nodelabeling_controller.go). A pod with a GPU open goes all the same, as a holder, or the unload is
// refused.
bool drain_claims_gpu(struct kube *k, const json_t *pod, bool counts_admin);
bool drain_is_gpu_claim(const json_t *claim, bool counts_admin);
