// SPDX-License-Identifier: Apache-2.0
// The recorded rollouts, one per pool: the ConfigMap kmodsmith-rollout, key status.json, which only the coordinator
// writes (upgrade-design 5.2). Its key policy.json is the policy in force, as JSON, and undone.json what `rollout undo`
// replaced in it. A target is {"aim": hash, "as": the policy's target}, so that `rollout undo` can name it.
#pragma once
#include "cluster/rollout/scheduler.h"

#define ROLLOUT_STATUS_NAME "kmodsmith-rollout"
#define ROLLOUT_STATUS_KEY "status.json"
#define ROLLOUT_STATUS_KIND_KEY "policy.kind"   // of the object that the policy in force was in
#define ROLLOUT_STATUS_UNDONE_KEY "undone.json" // per pool, the target that an undo replaced
enum { ROLLOUT_STATUS_SCHEMA = 1 };

// before: the previous document, for targets that the policy no longer has; NULL = none. epoch: of the writer, so that
// a new leader begins with a write, after which a late one of an older leader fails.
json_t *rollout_status_make(const struct policy *p, const struct rollout *rollouts, const json_t *before,
			    uint32_t epoch);
json_t *rollout_status_date(int64_t t); // 0: null
// ret: of each pool; those that are not recorded have no target. E_CONFIG: a newer schema, or not valid.
int rollout_status_read(const json_t *doc, const struct policy *p, struct rollout *ret, struct err *err);
