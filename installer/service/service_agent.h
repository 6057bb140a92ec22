// SPDX-License-Identifier: Apache-2.0
// The agent of a rollout as a part of `init`: a child, `agent`, that is started again whenever it ends, so that
// nothing that happens to it, or to the API, happens to the driver's daemons.
#pragma once
#include "base/process/launch.h"
#include "service/service.h"

struct service_agent {
	struct launch_words words;
	int child;
	int64_t due_ms, since_ms;
	unsigned ends; // soon after a start, one after the other
};
// words: of the child; they are taken. ret must stay where it is. It begins when served.
void service_agent_open(struct launch_words *words, struct service_agent *ret, struct service_part *ret_part);
void service_agent_done(struct service_agent *a); // told to end, and awaited: it may be in the middle of a change
