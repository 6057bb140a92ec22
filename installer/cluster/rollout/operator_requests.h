// SPDX-License-Identifier: Apache-2.0
// What users request with annotations of the policy's ConfigMap or DriverRollout, which the coordinator only reads:
//   kmodsmith.io/pause    any value but "false"
//   kmodsmith.io/resume   POOL@TIME[,...]      lifts a halt that began before that time
//   kmodsmith.io/approve  POOL:WAVE@TARGET[,...]  opens waves up to that one, for this target
//   kmodsmith.io/abort    POOL@TARGET[,...]       for as long as it is there
//   kmodsmith.io/undo     see undo.h
#pragma once
#include "cluster/rollout/scheduler.h"

enum gate { GATE_PAUSE, GATE_RESUME, GATE_APPROVE, GATE_ABORT, GATE_COUNT };
extern const char *const gate_keys[GATE_COUNT];
// values: of those annotations, NULL = absent. Other pools, waves and targets than the current ones are ignored.
void operator_requests_apply(const char *const values[GATE_COUNT], const struct policy *p, struct rollout *rollouts);
