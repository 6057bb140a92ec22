// SPDX-License-Identifier: Apache-2.0
// The real agent of a node (cluster/agent/loop.c, with its journal in a real file) on a simulated machine: its kernel
// and disk are in struct farm_node, and children stage, unload, load and validate in virtual time. The machine outlives
// the agent, and so does a child unless the whole container is killed or the machine is rebooted. A killed agent is
// restarted a little later, like by the kubelet.
#pragma once
#include "cluster/agent/agent_journal.h"
#include "cluster/agent/loop.h"
#include "tests/sim/farm.h"

enum farm_agent_end {
	FARM_AGENT_LIVES,
	FARM_AGENT_KILLED,  // only the agent: its child continues
	FARM_AGENT_STOPPED, // the container: the child is killed, too
	FARM_AGENT_BOOTED,  // the machine: no driver is loaded, either
};

struct farm_agent_child {
	bool is_there, is_over; // over: it has exited, and was not waited for
	enum agent_work work;
	struct target_hash target_hash;
	long begin_ms;
	unsigned steps; // that are done
	struct agent_end end;
};

struct farm_agent {
	struct farm *farm;
	unsigned at; // index of its node
	char name[24], dir[40], boot[24];
	struct root state, trash; // trash: for killed agents
	struct agent_site site;
	struct agent a;
	bool is_alive, is_dying;
	enum farm_agent_end how;
	long due_ms; // when it is restarted
	unsigned lives, boots;
	char seen[24];                         // the policy, by its version
	struct farm_agent_child child, orphan; // orphan: of a killed agent, still running
	struct agent_holders held;
	// Points besides its calls at which it can be killed: each step of its child.
	unsigned moments, die_at; // die_at: 1 = the first, 0 = none
	enum farm_agent_end die_how;
};
// Replaces the scripts: all nodes of the farm get real agents, whose clients are named "agent-n00.0" and so on, with
// the number of restarts. f->old becomes a real target.
void farm_agents_begin(struct farm *f, struct farm_agent *agents);
void farm_agents_end(struct farm_agent *agents, unsigned count);
void farm_agent_die(struct farm_agent *h, enum farm_agent_end how); // at once
