// SPDX-License-Identifier: Apache-2.0
// `rollout undo`: not an edit of the policy, which a GitOps controller would revert and so roll out the bad driver
// again, but an annotation, kmodsmith.io/undo, of the object that has the policy:
//   {"POOL": {"instead": TARGET, "target": {"driver": ...}}, ...}
// As long as the policy's target of that pool is TARGET, the pool gets "target"; a new target in the policy ends the
// undo. The target is written out, so that it does not depend on a status that may be lost.
#pragma once
#include "cluster/policy/policy.h"

#define UNDO_NOTE "kmodsmith.io/undo"

// document: what p was read from; its targets are replaced. Added to: ret, a line per replaced pool, for users;
// replaced, {"POOL": its own target}. 1 = some were replaced, 0 = none. E_CONFIG: the annotation is not valid.
int undo_apply(const char *note, const struct policy *p, json_t *document, struct strv *ret, json_t *replaced,
	       struct err *err);
// The document as it was before.
void undo_revert(json_t *document, const json_t *replaced);
// The annotation with this pool's entry replaced, or removed with target NULL. NULL = no entry is left. Caller frees.
char *undo_note(const char *note, const char *pool, const struct target_hash *instead, const json_t *target);
