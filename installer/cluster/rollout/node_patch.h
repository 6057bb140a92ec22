// SPDX-License-Identifier: Apache-2.0
// A patch of the coordinator as a call to the API server that counts only if nobody was faster: a JSON patch that tests
// uid and `seq`, and the cordon and the agent's words where it is about them; the first one of a node, which has no
// `seq` to test, a merge patch with its uid and version (upgrade-design 5.2). Never a whole Node.
#pragma once
#include "cluster/kube/client.h"
#include "cluster/rollout/merge_patch.h"

struct node_patch_seen {              // of the member as it was read; NULL = absent
	const char *version;          // resourceVersion
	const char *loaded, *holders; // annotations of the agent
};
// 1 = written, *ret is the Node as it is now (caller frees);
// 0 = it is another one by now, or gone.
int node_patch_write(struct kube *k, const struct node_state *m, const struct node_patch_seen *seen,
		     const struct node_patch *p, json_t **ret, struct err *err);
