// SPDX-License-Identifier: Apache-2.0
// How long a rollout still takes, going by the nodes that are done.
#pragma once
#include "cluster/rollout/scheduler.h"

// Seconds until the other nodes of the pool are done, at the pace between the first one and the last. Windows, soaks
// and approvals still to come are not counted. -1 = not known: fewer than two are done, or nothing goes on.
int64_t pace_seconds_left(const struct cluster *c, const struct slots *s, size_t pool);
