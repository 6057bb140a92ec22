// SPDX-License-Identifier: Apache-2.0
// The agent, as a loop that knows nothing of this machine's drivers, and the machine, which knows nothing of clusters
// but what an aim means.
#pragma once
#include "cluster/agent_look.h"
#include "cluster/kube.h"

enum agent_work {
	AGENT_WORK_STAGE,  // everything that it takes onto the disk; nothing is touched
	AGENT_WORK_SWAP,   // into the kernel, from the disk alone; also what failed here before
	AGENT_WORK_REVIVE, // the same, after a boot; not what failed here before
	AGENT_WORK_PROBE,  // measure
};

struct agent_site {
	struct agent_place place;
	const char *boot, *node, *policy; // policy: a file as somebody typed it
	struct kube *kube;
	void *ctx;
	// The words of a child of this program that does the work; its result comes as JSON. target NULL: of a probe.
	// E_PARAM: a parameter that cannot be told.
	int (*words)(void *ctx, enum agent_work work, const struct target *target, struct strv *ret, struct err *err);
};
int agent_loop(const struct agent_site *site, struct err *err); // until a signal; returns it
