// SPDX-License-Identifier: Apache-2.0
// The status of a DriverRollout: counts for people, and conditions for programs (`kubectl wait`, Argo CD). Each
// condition has its observedGeneration, so that a waiting program does not see the result of an earlier policy.
#pragma once
#include "cluster/coordinator/policy_source.h"
#include "cluster/rollout/scheduler.h"

// Writes it if there is a DriverRollout and something differs. s: of the last plan, NULL = none; blind: as of
// policy_source_load().
void driver_rollout_write_status(struct policy_source *p, const struct cluster *cl, const struct slots *s,
				 const struct err *blind);
