// SPDX-License-Identifier: Apache-2.0
// One kmodsmith at a time changes a node.
#pragma once
#include "base/file/root.h"

// flock on run/kmodsmith/lock, held until the descriptor is closed; the file names the holder's pid for others to
// report. E_LOCKED when another process has it. Returns the descriptor.
int node_lock_take(const struct root *host, struct err *err);
// The same for who looks after kernels to come: nothing of the running driver is touched, so a change goes on beside
// it.
int node_lock_take_prebuild(const struct root *host, struct err *err);
// And for the agent of a node, of which a cluster's coordinator expects one.
int node_lock_take_agent(const struct root *host, struct err *err);
