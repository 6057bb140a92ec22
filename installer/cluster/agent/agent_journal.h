// SPDX-License-Identifier: Apache-2.0
// The agent's journal, STATE/agent/journal.json: written whole and fsynced before each step that it records (5.4.2).
// Parsed strictly: a damaged journal is ignored as a whole and moved aside. The agent then continues from what is
// loaded, takes the order on the Node again, and skips what is already done.
#pragma once
#include "cluster/node_state/node_state.h"

enum agent_step {
	AGENT_IDLE,     // no order was ever taken, or the last one was withdrawn
	AGENT_ACCEPTED, // nothing was started yet
	AGENT_BEGUN,    // a worker was started
	AGENT_BACK,     // tried too often: a worker restores the previous driver
	AGENT_DONE,
	AGENT_FAILED,
	AGENT_STEPS
};
extern const char *const agent_step_names[AGENT_STEPS];

struct agent_journal {
	struct order order;  // the last one taken; neither it nor an older one is ever taken again
	char node[UID_TEXT]; // the uid of the Node that it was for
	enum agent_step step;
	enum failing failing; // of AGENT_FAILED
	char code[WORD_TEXT];
	char boot[UID_TEXT];         // in which it was last started
	unsigned boots, tries;       // in how many boots it was started; how often in that one
	struct target_hash previous; // loaded when it was started
	struct target_hash current;  // what works here: loaded by an order, or found
	char revived[UID_TEXT];      // the boot in which it was loaded again, or an attempt was made
	unsigned revivals;           // attempts in that boot whose end was not seen; 0 = it ended
	struct target_hash probed;   // by the last validation, with its result and code
	enum result probe;
	char probe_code[WORD_TEXT];
	struct target *known; // targets behind earlier hashes, which policies forget
	size_t known_count;
};
void agent_journal_done(struct agent_journal *j);
#define auto_agent_journal __attribute__((cleanup(agent_journal_done)))
const struct target *agent_known(const struct agent_journal *j, const struct target_hash *hash); // NULL = unknown
// True if it was new. Without room, a target that neither the order nor the loaded driver needs is dropped.
bool agent_learn(struct agent_journal *j, const struct target *target);

// 1 = read, 0 = there is none, or it was damaged: then *ret_why says how, and where it is now. Caller frees it.
int agent_journal_read(const struct root *state, struct agent_journal *ret, char **ret_why, struct err *err);
int agent_journal_write(const struct root *state, const struct agent_journal *j, struct err *err);

// What the agent loaded last, by its journal, which is not changed. 1 = *ret, caller releases; 0 = unknown.
int agent_current(const struct root *state, struct target *ret, struct err *err);
