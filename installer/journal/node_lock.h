// SPDX-License-Identifier: Apache-2.0
// Only one kmodsmith at a time changes a node.
#pragma once
#include "base/file/root.h"

enum node_lock {
	NODE_LOCK_CHANGE,
	NODE_LOCK_PREBUILD, // does not touch the running driver, so a change may happen at the same time
	NODE_LOCK_AGENT,    // the coordinator expects one on each node
};
// flock on a file in run/kmodsmith, held until the descriptor is closed; the file holds the owner's pid for error
// messages. E_LOCKED when another process has it. Damaged records below run/kmodsmith that a change writes are set
// aside. Returns the descriptor.
int node_lock_take(const struct root *host, enum node_lock lock, struct err *err);
