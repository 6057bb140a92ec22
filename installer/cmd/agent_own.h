// SPDX-License-Identifier: Apache-2.0
// Inside the agent's loop: all that it knows, and how it comes to know it.
#pragma once
#include "cluster/agent_journal.h"
#include "cluster/agent_node.h"
#include "cluster/self.h"
#include "cmd/agent.h"
#include "cmd/agent_child.h"

#include <sys/stat.h>

struct agent {
	const struct agent_site *site;
	struct policy policy;
	bool has_policy;
	struct stat stamp; // of the policy's file
	struct agent_journal journal;
	struct agent_facts facts;
	struct agent_node node;
	struct self self; // of mode self
	struct agent_child child;
	struct agent_end end;
	bool has_end;
	struct agent_holders seen, told; // as they were found, and as the Node is told of them
	int64_t now_ms, start_ms, taken_ms, policy_ms, look_ms, holders_ms, coarse_ms, hold_ms;
	char said[512]; // the last complaint: the same one is not repeated
};

void agent_complain(struct agent *a, const char *what, const struct err *why);    // once
void agent_read_policy(struct agent *a);                                          // where it has changed
void agent_see(struct agent *a);                                                  // what is loaded and stored
void agent_see_holders(struct agent *a);                                          // on demand (5.2)
const struct target *agent_meaning(const struct agent *a, const struct aim *aim); // NULL = nobody said
bool agent_is_self(const struct agent *a);                                        // it gives orders to itself
const struct record *agent_orders(const struct agent *a); // what a coordinator says, or it itself; NULL = not known
void agent_command(struct agent *a);                      // of mode self: all orders that are due now
bool agent_write(struct agent *a);                        // the journal; false: nothing is to be done now
