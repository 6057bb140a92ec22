// SPDX-License-Identifier: Apache-2.0
// One child of the agent: started, awaited without waiting, and what it said in the words of an acknowledgement.
#pragma once
#include "cluster/agent.h"

#include <sys/types.h>

struct agent_child {
	pid_t pid; // 0 = none
	int out;
	enum agent_act act;
	struct strv words;          // to start it once more
	int64_t since_ms, again_ms; // again_ms: another kmodsmith works on this node; then
};
#define AGENT_CHILD_NONE ((struct agent_child){ .out = -1 })
// words are taken.
int agent_child_start(struct agent_child *c, enum agent_act act, struct strv *words, int64_t now_ms, struct err *err);
static inline bool agent_child_is(const struct agent_child *c)
{
	return c->act != AGENT_WAIT;
}
// True when it has ended, or could not be started once more.
bool agent_child_ended(struct agent_child *c, int64_t now_ms, struct agent_end *ret);
// Told to end, and waited for that long: whoever is in the middle of a change ends it first.
void agent_child_stop(struct agent_child *c, int wait_ms);
