// SPDX-License-Identifier: Apache-2.0
// The agent's turn: look, choose, journal, do, tell. It knows nothing of this machine's drivers; what it needs of the
// machine is a table, so that the same turn runs on a clock that stands still (tests/sim).
#pragma once
#include "cluster/agent/decide.h"
#include "cluster/agent/node_object.h"
#include "cluster/agent/single_node.h"

enum agent_work {          // of a child of the agent
	AGENT_WORK_STAGE,  // everything that it takes onto the disk; nothing is touched
	AGENT_WORK_SWAP,   // into the kernel, from the disk alone; also what failed here before
	AGENT_WORK_REVIVE, // the same, after a boot; not what failed here before
	AGENT_WORK_PROBE,  // measure
};

struct agent_machine { // each function with ctx first
	void *ctx;
	int (*policy)(void *ctx, struct policy *ret, struct err *err); // 1 = another one than last time, 0 = the same
	int (*look)(void *ctx, const struct target *const *names, size_t count, struct agent_facts *ret,
		    struct target *ret_new, struct err *err);  // agent_read_facts()
	void (*holders)(void *ctx, struct agent_holders *ret); // agent_read_holders()
	// A child that does the work; target NULL: the target is unknown, which is fine for a probe. An
	// error counts as the failure of the child.
	int (*begin)(void *ctx, enum agent_work work, const struct target *target, struct err *err);
	bool (*ended)(void *ctx, struct agent_end *ret); // the child has
	// For the log.
	void (*did)(void *ctx, const char *what);
	void (*trouble)(void *ctx, const char *what, const struct err *why); // that is tried again
};

struct agent_site {               // all borrowed
	const struct root *state; // where the journal is
	const char *boot, *node;
	struct kube *kube;
	struct agent_machine machine;
};

struct agent {
	const struct agent_site *site;
	struct policy policy;
	struct agent_journal journal;
	struct agent_facts facts;
	struct agent_node node;
	struct single_node self; // of mode self
	enum agent_act running;  // what the child does; AGENT_WAIT = there is none
	struct agent_end end;
	bool has_end;
	struct agent_holders seen, told; // as found, and as published on the Node
	long now_ms, start_ms, taken_ms, begun_ms, policy_ms, look_ms, holders_ms, coarse_ms, hold_ms;
	char said[512]; // the last complaint: the same one is not repeated
	// The journal, or what it orders itself, could not be written down: nothing is begun until it can, and the Node
	// is told why.
	bool is_unwritten, is_unordered;
	char trouble[AGENT_VALUE];
};
int agent_open(const struct agent_site *site, struct agent *ret, struct err *err); // stays where it is
void agent_done(struct agent *a);
// Does what is due, and waits for something to happen: a little while a child is at work, else up to wait_ms.
void agent_turn(struct agent *a, int wait_ms);
