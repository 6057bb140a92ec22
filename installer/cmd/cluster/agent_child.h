// SPDX-License-Identifier: Apache-2.0
// One child of the agent: started, awaited without waiting, and what it said in the words of an acknowledgement.
#pragma once
#include "base/process/launch.h"
#include "cluster/agent/decide.h"

#include <sys/types.h>

struct agent_child {
	bool is_there;
	pid_t pid;
	int out;
	struct launch_words words; // to start it once more
	long since_ms, again_ms;   // again_ms: another kmodsmith works on this node; then
};
#define AGENT_CHILD_NONE ((struct agent_child){ .out = -1 })
// words are taken.
int agent_child_start(struct agent_child *c, struct launch_words *words, struct err *err);
// True when it has ended, or could not be started once more.
bool agent_child_ended(struct agent_child *c, struct agent_end *ret);
// Told to end, and waited for that long: whoever is in the middle of a change ends it first.
void agent_child_stop(struct agent_child *c, int wait_ms);
