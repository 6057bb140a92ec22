// SPDX-License-Identifier: Apache-2.0
// A patch of the coordinator as a call to the API server that counts only if nobody was faster: a JSON patch that tests
// uid and `seq`, and the cordon where it changes it; the first one of a node, which has no `seq` to test, a merge patch
// with its uid and version (upgrade-design 5.2). Never a whole Node.
#pragma once
#include "cluster/kube.h"
#include "cluster/patch.h"

// version: resourceVersion of the member as it was read. 1 = written, *ret is the Node as it is now (caller frees);
// 0 = it is another one by now, or gone.
int nodepatch_write(struct kube *k, const struct member *m, const char *version, const struct patch *p, json_t **ret,
		    struct err *err);
