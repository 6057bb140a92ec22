// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "cmd/common/job.h"

// What a start puts in where an agent decides what comes later: never another driver than the one that is loaded; on a
// node without one what the agent put in last; else what values say. 1 = there is something to put in or to look after,
// 0 = nothing is, until the agent is told.
int init_agent_request(struct job_values *values, struct err *err);
