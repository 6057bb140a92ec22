// SPDX-License-Identifier: Apache-2.0
// `rollout undo`: not an edit of the policy, which a GitOps controller would put back and roll the bad driver out
// again, but a word beside it. The annotation kmodsmith.io/undo of the object that the policy is in:
//   {"POOL": {"instead": TARGET, "target": {"driver": ...}}, ...}
// As long as the policy's target of that pool is TARGET, the pool's target is that one; another target in the policy
// ends it by itself. The target is written out, so that it does not depend on a status that may be lost.
#pragma once
#include "cluster/policy/policy.h"

#define UNDO_NOTE "kmodsmith.io/undo"

// document: what p was read from; its targets are replaced. ret: what was, for people; replaced: {"POOL": its own
// target}, added to. 1 = something was, 0 = nothing. E_CONFIG: the annotation means nothing, and what it forbids is not
// known.
int undo_apply(const char *note, const struct policy *p, json_t *document, struct strv *ret, json_t *replaced,
	       struct err *err);
// The document as it was before.
void undo_revert(json_t *document, const json_t *replaced);
// The annotation with the pool's word replaced; target NULL: without it. NULL = nothing is left. Caller frees.
char *undo_note(const char *note, const char *pool, const struct target_hash *instead, const json_t *target);
