// SPDX-License-Identifier: Apache-2.0
// The agent's turn: look, choose, journal, act, report. It knows nothing about this machine's drivers: what it needs of
// the machine is a table of functions, so that the same turn runs in the simulation (tests/sim).
#pragma once
#include "cluster/agent/decide.h"
#include "cluster/agent/node_object.h"
#include "cluster/agent/single_node.h"

enum agent_work {          // of a worker, a child of the agent
	AGENT_WORK_STAGE,  // fetch everything to the disk; the loaded driver is not touched
	AGENT_WORK_SWAP,   // load it, from the disk alone; even if it failed here before
	AGENT_WORK_REVIVE, // the same after a boot, unless it failed here before
	AGENT_WORK_PROBE,  // validate
};

struct agent_machine { // each function with ctx first
	void *ctx;
	int (*policy)(void *ctx, struct policy *ret, struct err *err); // 1 = it changed, 0 = it did not
	int (*look)(void *ctx, const struct target *const *names, size_t count, struct agent_facts *ret,
		    struct target *ret_new, struct err *err);  // agent_read_facts()
	void (*holders)(void *ctx, struct agent_holders *ret); // agent_read_holders()
	// Starts a worker. target NULL: unknown, which is fine for a probe. An error counts as the worker's failure.
	int (*begin)(void *ctx, enum agent_work work, const struct target *target, struct err *err);
	bool (*ended)(void *ctx, struct agent_end *ret); // the worker has ended
	// For the log.
	void (*did)(void *ctx, const char *what);
	void (*trouble)(void *ctx, const char *what, const struct err *why); // it is tried again
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
	struct single_node self; // for mode self
	enum agent_act running;  // what the worker does; AGENT_WAIT = there is none
	struct agent_end end;
	bool has_end;
	struct agent_holders seen, told; // as found, and as published on the Node
	long now_ms, start_ms, taken_ms, begun_ms, policy_ms, look_ms, holders_ms, coarse_ms, hold_ms;
	char said[512]; // the last complaint, which is not repeated
	// The journal, or an order of mode self, could not be written: nothing is started until it can be, and an
	// annotation of the Node says why.
	bool is_unwritten, is_unordered;
	char trouble[AGENT_VALUE];
};
int agent_open(const struct agent_site *site, struct agent *ret, struct err *err); // ret must not move
void agent_done(struct agent *a);
// Does what is due, then waits for an event: shortly while a worker runs, else up to wait_ms.
void agent_turn(struct agent *a, int wait_ms);
