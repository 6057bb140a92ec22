// SPDX-License-Identifier: Apache-2.0
// A part of a service that is a process of its own, this program with another command: the agent of a rollout, the
// server of metrics. It is started again whenever it ends, so that nothing that happens to it happens to the rest.
#pragma once
#include "base/process/launch.h"
#include "service/service.h"

struct service_child {
	const char *name; // "the agent"
	struct launch_words words;
	int child;
	int64_t due_ms, since_ms;
	unsigned ends; // soon after a start, one after the other
};
// words: of the child; they are taken. It begins with the first tick: when it is served, or before.
void service_child_open(const char *name, struct launch_words *words, struct service_child *ret);
void service_child_done(struct service_child *c); // told to end, and awaited: it may be in the middle of a change
#define auto_service_child __attribute__((cleanup(service_child_done)))
int64_t service_child_tick(struct service_child *c, int64_t now_ms); // starts it when that is due; as of service_part
struct service_part service_child_part(struct service_child *c);     // c must stay where it is
// False after three ends that each came soon after a start, until it has lived for a minute.
bool service_child_is_up(const struct service_child *c, int64_t now_ms);
void service_child_look(struct service_child *c); // ended? due? For a process that is no service_run()
