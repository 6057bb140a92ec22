// SPDX-License-Identifier: Apache-2.0
// What the agent of a node does next: pure, from the order that stands on its Node, what it has journaled, what is in
// the kernel and on the disk, and how its child ended. The rows of one table are the rules. upgrade-design 5.4, 5.6.
//
// Nothing is unloaded or replaced without an order that is newer than every other one, for something that is on the
// disk; and what was begun is ended, or undone, whoever died meanwhile and whether or not anybody can be told.
#pragma once
#include "cluster/agent/observe.h"
#include "cluster/policy/policy.h"

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

struct agent_journal {       // see agent_journal.h for the file
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
	struct target *known; // what aims of before mean: policies forget
	size_t known_count;
};
void agent_journal_done(struct agent_journal *j);
#define auto_agent_journal __attribute__((cleanup(agent_journal_done)))
const struct target *agent_known(const struct agent_journal *j,
				 const struct target_hash *target_hash); // NULL = nobody ever said
// True where it was new. What neither the order nor the kernel needs is forgotten when there is no room.
bool agent_learn(struct agent_journal *j, const struct target *target);

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
	bool is_meant;         // somebody said what the order's aim means
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

// Another Node of the same name has no history: orders begin anew. True where something changed; what was begun is
// ended first.
bool agent_move(struct agent_journal *j, const char *uid);
// The journal as it has to be written before the act is done. boot: this one.
void agent_take(struct agent_journal *j, const struct order *go);
void agent_begin(struct agent_journal *j, enum agent_act act, const char *boot, const struct target_hash *loaded);
void agent_finish(struct agent_journal *j, const struct agent_choice *c);
void agent_revived(struct agent_journal *j); // well or not: not once more in this boot

// The class of an error: busy where a holder is the reason, and nothing was touched for it.
enum failing agent_failing(const struct err_info *info);

bool agent_changes(enum verb verb); // the kernel: replace, load, restore
bool agent_stored(const struct agent_facts *f, const struct target_hash *target_hash);
