// SPDX-License-Identifier: Apache-2.0
// The agent's journal as a file: STATE/agent/journal.json, written whole and fsynced before each step that it tells of
// (5.4.2). Parsed strictly: a damaged journal is ignored as a whole and set aside, and the agent continues
// from what is loaded; an order on the Node is taken again, and skips what is done already.
#pragma once
#include "cluster/node_state/node_state.h"

enum agent_step {
	AGENT_IDLE,     // no order was ever taken, or the last one was taken back
	AGENT_ACCEPTED, // nothing was begun
	AGENT_BEGUN,    // a child was started
	AGENT_BACK,     // it was tried too often: a child brings the previous driver back
	AGENT_DONE,
	AGENT_FAILED,
	AGENT_STEPS
};
extern const char *const agent_step_names[AGENT_STEPS];

struct agent_journal {
	struct order order;  // the last that was taken: none that is older, or this one once more, is ever taken again
	char node[UID_TEXT]; // the uid of the Node that it was for
	enum agent_step step;
	enum failing failing; // of AGENT_FAILED
	char code[WORD_TEXT];
	char boot[UID_TEXT];         // in which it was begun last
	unsigned boots, tries;       // in how many boots it was begun; how often in that one
	struct target_hash previous; // in the kernel when it was begun
	struct target_hash current;  // what works here: put in by an order, or found
	char revived[UID_TEXT];      // the boot in which that was loaded again, or was tried to be
	unsigned revivals;           // begun in it one after the other, without an end that was seen; 0 = it ended
	struct target_hash probed;   // by the last validation, with its result and its code
	enum result probe;
	char probe_code[WORD_TEXT];
	struct target *known; // targets behind earlier hashes: policies forget them
	size_t known_count;
};
void agent_journal_done(struct agent_journal *j);
#define auto_agent_journal __attribute__((cleanup(agent_journal_done)))
const struct target *agent_known(const struct agent_journal *j,
				 const struct target_hash *target_hash); // NULL = unknown
// True where it was new. What neither the order nor the kernel needs is forgotten when there is no room.
bool agent_learn(struct agent_journal *j, const struct target *target);

// 1 = read, 0 = there is none, or it was damaged: *ret_why says how then, and where it lies now. Caller frees it.
int agent_journal_read(const struct root *state, struct agent_journal *ret, char **ret_why, struct err *err);
int agent_journal_write(const struct root *state, const struct agent_journal *j, struct err *err);

// What the agent put in last, by its journal, which is left as it is. 1 = *ret says, caller releases; 0 = not known.
int agent_current(const struct root *state, struct target *ret, struct err *err);
