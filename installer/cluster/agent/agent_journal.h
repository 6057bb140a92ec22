// SPDX-License-Identifier: Apache-2.0
// The agent's journal as a file: STATE/agent/journal.json, written whole and fsynced before each step that it tells of
// (5.4.2). Read strictly: of a journal that was damaged nothing is believed. It is set aside then, and the agent goes
// on from what is in the kernel; an order that stands on the Node is taken anew, and does nothing that is done already.
#pragma once
#include "base/formats/json.h"
#include "cluster/agent/decide.h"

// 1 = read, 0 = there is none, or it was damaged: *ret_why says how then, and where it lies now. Caller frees it.
int agent_journal_read(const struct root *state, struct agent_journal *ret, char **ret_why, struct err *err);
int agent_journal_write(const struct root *state, const struct agent_journal *j, struct err *err);
