// SPDX-License-Identifier: Apache-2.0
// Only one kmodsmith at a time changes a node.
#pragma once
#include "base/file/root.h"

// flock on run/kmodsmith/lock, held until the descriptor is closed; the file holds the owner's pid for error
// messages. E_LOCKED when another process has it. Returns the descriptor.
int node_lock_take(const struct root *host, struct err *err);
// The same for prebuilding: it does not touch the running driver, so a change may happen at the same time.
int node_lock_take_prebuild(const struct root *host, struct err *err);
// And for the agent: the coordinator expects one on each node.
int node_lock_take_agent(const struct root *host, struct err *err);
