// SPDX-License-Identifier: Apache-2.0
// The real agent of a node (cluster/agent/loop.c, with its journal in a real file) on a machine that is a script: what
// is in its kernel and on its disk is in struct farm_node, and children stage, unload, load and measure in their time.
// The machine outlives the agent, and a child outlives it too unless all of the container is killed or the machine is
// booted. Whoever died is started again a little later, as a kubelet does.
#pragma once
#include "cluster/agent/agent_journal.h"
#include "cluster/agent/loop.h"
#include "tests/sim/farm.h"

enum farm_agent_end {
	FARM_AGENT_LIVES,
	FARM_AGENT_KILLED,  // the agent alone: its child goes on
	FARM_AGENT_STOPPED, // the container: the child dies where it is
	FARM_AGENT_BOOTED,  // the machine: the kernel is empty, too
};

struct farm_agent_child {
	bool is_there, is_over; // over: it has ended, and was not asked for its end
	enum agent_work work;
	struct target_hash target_hash;
	long begin_ms;
	unsigned steps; // of its work that are done
	struct agent_end end;
};

struct farm_agent {
	struct farm *farm;
	unsigned at; // of its node
	char name[24], dir[40], boot[24];
	struct root state, trash; // trash: where the dead write
	struct agent_site site;
	struct agent a;
	bool is_alive, is_dying;
	enum farm_agent_end how;
	long due_ms; // when it is started again
	unsigned lives, boots;
	char seen[24];                         // the policy, by its version
	struct farm_agent_child child, orphan; // orphan: of an agent that is dead, still at work
	struct agent_holders held;
	// Where it may be killed besides its calls: each moment at which its child does something.
	unsigned moments, die_at; // die_at: 1 = the first, 0 = at none
	enum farm_agent_end die_how;
};
// In place of the scripts: all nodes of the farm get agents, whose calls carry the name "agent-n00.0" and so on, the
// number counting its lives. f->old is a driver with a name from then on.
void farm_agents_begin(struct farm *f, struct farm_agent *agents);
void farm_agents_end(struct farm_agent *agents, unsigned count);
void farm_agent_die(struct farm_agent *h, enum farm_agent_end how); // at once, wherever it is
