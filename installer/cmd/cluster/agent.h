// SPDX-License-Identifier: Apache-2.0
// The agent on this machine: its turns until a signal, with children of this program that do the work.
#pragma once
#include "base/process/launch.h"
#include "cluster/agent/loop.h"
#include "cluster/agent/observe.h"
#include "cluster/kube/client.h"

struct agent_host { // all borrowed
	struct agent_paths place;
	const char *boot, *node, *policy; // policy: a file as somebody typed it
	struct kube *kube;
	void *ctx;
	// What a child of this program is told that does the work; its result comes as JSON. target NULL: of a probe.
	// E_PARAM: a parameter that cannot be told.
	int (*words)(void *ctx, enum agent_work work, const struct target *target, struct launch_words *ret,
		     struct err *err);
};
int agent_loop(const struct agent_host *host, struct err *err); // until a signal; returns it
