// SPDX-License-Identifier: Apache-2.0
// What the agent of a node does next: pure, from the order that stands on its Node, what it has journaled, what is in
// the kernel and on the disk, and how its child ended. The rows of one table are the rules. upgrade-design 5.4, 5.6.
//
// Nothing is unloaded or replaced without an order that is newer than every other one, for something that is on the
// disk; and what was begun is finished or undone, even if the agent died meanwhile or the API cannot be reached.
#pragma once
#include "cluster/agent/agent_journal.h"
#include "cluster/agent/observe.h"
#include "cluster/policy/policy.h"

struct agent_end { // of a child
	bool is_ok, is_crash;
	enum failing failing; // where it is not ok
	char code[WORD_TEXT];
};

struct agent_view {
	const struct agent_journal *journal;
	const struct agent_facts *facts;
	const struct agent_end *end; // a child for the order has just ended; NULL = none has
	const char *boot;
	bool is_read;          // the Node was; what follows was on it
	struct order go;       // VERB_NONE with seq 0.0: there was none
	enum node_phase phase; // what the coordinator says of the node
	bool is_paused;        // by people
	bool is_running;       // a child is at work
	bool is_meant;         // the target behind the order's hash is known
	bool is_back_meant;    // and that of the previous driver
	unsigned waited_s;     // since the order was taken, or since the start
};

enum agent_act {
	AGENT_WAIT,
	AGENT_TAKE,   // the order on the Node into the journal
	AGENT_RUN,    // a child for the order
	AGENT_REVERT, // a child that brings back the previous driver
	AGENT_REVIVE, // a child that loads what works here: the machine was booted
	AGENT_FINISH, // the order is over: with result, class and code
};
struct agent_choice {
	const char *rule; // the text of the row; NULL = none applies
	enum agent_act act;
	enum result result;
	enum failing failing;
	const char *code;
};
void agent_choose(const struct agent_view *v, struct agent_choice *ret);

// Another Node of the same name has no history: orders start over. True where something changed; what was begun is
// ended first.
bool agent_move(struct agent_journal *j, const char *uid);
// The journal as it has to be written before the act is done. boot: this one.
void agent_take(struct agent_journal *j, const struct order *go);
void agent_begin(struct agent_journal *j, enum agent_act act, const char *boot, const struct target_hash *loaded);
void agent_finish(struct agent_journal *j, const struct agent_choice *c);

// The class of an error: busy where a holder is the reason, and nothing was touched for it.
enum failing agent_failing(const struct err_info *info);

bool agent_changes(enum verb verb); // the kernel: replace, load, restore
bool agent_stored(const struct agent_facts *f, const struct target_hash *target_hash);
