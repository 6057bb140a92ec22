// SPDX-License-Identifier: Apache-2.0
// Inside the commands of the rollout: how results are shown.
#pragma once
#include "cluster/rollout/scheduler.h"
#include "cmd/cluster/cluster.h"

struct rollout_filter {
	const struct strv *pools, *states; // of nodes; NULL or empty = all
};
bool rollout_filter_has_pool(const struct rollout_filter *f, const char *pool); // NULL = of no pool
// policy: whether it was accepted, for JSON; NULL = it is a file.
void rollout_show_pools(const struct cluster *c, const struct slots *s, const struct rollout_filter *filter,
			const json_t *policy, bool is_json);
// One line of a pool, and why it does not go on: "pool gpus: 3 of 8 nodes done, 1 in progress, ...". Caller frees.
char *rollout_pool_line(const struct cluster *c, const struct slots *s, size_t pool_at);
// Of one pool, with warnings about waves that cannot open the next one; nothing if it has none.
void rollout_show_waves(const struct cluster *c, const struct slots *s, size_t pool_at);
json_t *rollout_waves_json(const struct cluster *c, const struct slots *s, size_t pool_at);
// The rules of one node's state and the conditions for a slot, row by row. pod: what its agent's pod waits for; NULL =
// nothing is known of it. E_NOT_FOUND: there is no such node.
int rollout_show_why(const struct cluster *c, const struct slots *s, const char *node, const char *pod,
		     const json_t *policy, bool is_json, struct err *err);
// Until no node is on the way from a cordon to an uncordon. timeout_s: 0 = none; then E_ROLLOUT_PENDING.
int rollout_wait_idle(const struct cluster_values *v, unsigned timeout_s, struct err *err);
