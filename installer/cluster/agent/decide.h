// SPDX-License-Identifier: Apache-2.0
// What the agent of a node does next: pure, from the order on its Node, its journal, what is in the kernel and on the
// disk, and how its worker ended. The rules are the rows of one table. upgrade-design 5.4, 5.6.
//
// Nothing is unloaded or replaced without an order that is newer than all others, for something that is on the disk.
// What was started is finished or undone, even if the agent died meanwhile or the API cannot be reached.
#pragma once
#include "cluster/agent/agent_journal.h"
#include "cluster/agent/observe.h"
#include "cluster/policy/policy.h"

struct agent_end { // of a worker
	bool is_ok, is_crash;
	enum failing failing; // if it is not ok
	char code[WORD_TEXT];
};

struct agent_view {
	const struct agent_journal *journal;
	const struct agent_facts *facts;
	const struct agent_end *end; // a worker for the order has just ended; NULL = none has
	const char *boot;
	bool is_read;          // the Node was read; what follows was on it
	struct order go;       // VERB_NONE with seq 0.0: there was none
	enum node_phase phase; // what the coordinator says of the node
	bool is_paused;        // by a user
	bool is_cordoned;      // or nothing schedules pods here: mode self
	bool is_running;       // a worker is running
	bool is_meant;         // the target behind the order's hash is known
	bool is_back_meant;    // and the previous driver
	unsigned waited_s;     // since the order was taken, or since the agent started
};

enum agent_act {
	AGENT_WAIT,
	AGENT_TAKE,   // copy the order on the Node into the journal
	AGENT_RUN,    // start a worker for the order
	AGENT_REVERT, // start a worker that restores the previous driver
	AGENT_REVIVE, // start a worker that loads what works here: the machine was booted
	AGENT_FINISH, // end the order with result, class and code
};
struct agent_choice {
	const char *rule; // the text of the row; NULL = none applies
	enum agent_act act;
	enum result result;
	enum failing failing;
	const char *code;
};
void agent_choose(const struct agent_view *v, struct agent_choice *ret);

// Another Node of the same name has no history: orders start over. True if something changed; work in progress is
// finished first.
bool agent_move(struct agent_journal *j, const char *uid);
// The journal as it must be on the disk before the act. boot: the current one.
void agent_take(struct agent_journal *j, const struct order *go);
void agent_begin(struct agent_journal *j, enum agent_act act, const char *boot, const struct target_hash *loaded);
void agent_finish(struct agent_journal *j, const struct agent_choice *c);

// The class of an error: busy if holders are the reason and nothing was touched.
enum failing agent_failing(const struct err_info *info);

bool agent_changes(enum verb verb); // the loaded driver: replace, load, restore
