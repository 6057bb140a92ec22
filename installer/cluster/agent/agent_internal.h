// SPDX-License-Identifier: Apache-2.0
// What the files of the agent's turn share; nobody else includes it.
#pragma once
#include "cluster/agent/agent_journal.h"
#include "cluster/agent/loop.h"

// observe_node.c
void agent_log_trouble_once(struct agent *a, const char *what, const struct err *why); // once
void agent_read_policy(struct agent *a);                                               // where it has changed
void agent_refresh_facts(struct agent *a);                                             // what is loaded and stored
void agent_refresh_holders(struct agent *a);                                           // on demand (5.2)
const struct target *agent_target_of(const struct agent *a,
				     const struct target_hash *target_hash); // NULL = nobody said
const struct record *agent_orders(const struct agent *a); // what a coordinator says, or it itself; NULL = not known
bool agent_is_self(const struct agent *a);                // it gives orders to itself
void agent_command(struct agent *a);                      // of mode self: all orders that are due now
bool agent_write(struct agent *a);                        // the journal; false: nothing is to be done now
void agent_stuck(struct agent *a, bool *is_it, const char *what, const struct err *why); // nothing is to be done now
void agent_unstuck(struct agent *a, bool *is_it);
