// SPDX-License-Identifier: Apache-2.0
// The agent of a roll-out as a part of `init`: a child, `agent`, that is started again whenever it ends, so that
// nothing that happens to it, or to the API, happens to the driver's daemons.
#pragma once
#include "base/process/launch.h"
#include "cmd/common/job.h"
#include "cmd/container/serve.h"

struct serve_agent {
	struct launch_words words;
	int child;
	int64_t due_ms, since_ms;
	unsigned ends; // soon after a start, one after the other
};
// tables, values: options that it is told, as far as it knows them. ret must stay where it is. It begins when served.
void serve_agent_open(const struct opt *const *tables, const void *values, struct serve_agent *ret,
		      struct serve_part *ret_part);
void serve_agent_done(struct serve_agent *a); // told to end, and awaited: it may be in the middle of a change

// What a start puts in where an agent decides what comes later: never another driver than the one that is loaded; on a
// node without one what the agent put in last; else what values say. 1 = there is something to put in or to look after,
// 0 = nothing is, until the agent is told.
int serve_agent_request(struct job_values *values, struct err *err);
