// SPDX-License-Identifier: Apache-2.0
// What the coordinator writes on a node: its record, and a table of its keys with how each is read and written. The
// coordinator writes nothing else under kmodsmith.io/ (I9).
#pragma once
#include "cluster/node_state/baseline.h"
#include "cluster/node_state/operands.h"
#include "cluster/node_state/states.h"
#include "cluster/node_state/target.h"

enum { OBJECT_TEXT = 96, UID_TEXT = 40, NAMESPACE_TEXT = 64, KEY_VALUE_MOST = 256 };

// Of every write; compared as a pair. Epoch: the transitions of the Lease.
struct seq {
	uint32_t epoch, n;
};
int node_seq_cmp(struct seq a, struct seq b);

struct order { // the one command channel to the agent
	struct seq seq;
	enum verb verb;
	struct target_hash target_hash;
};

struct receipt { // of our cordon, written in the same patch as the cordon
	bool is_there;
	bool prior;    // it was cordoned before us
	bool touched;  // a change of the driver was ordered since, and not validated yet
	bool waited;   // the wait for jobs is over, and the rest are evicted
	uint8_t again; // how often a user uncordoned it and we cordoned it again
	int64_t until; // when the drain must have ended, whatever happens
};

struct reason {
	enum reason_code code;
	char object[OBJECT_TEXT];
};

struct record { // written by the coordinator alone
	enum node_phase phase;
	bool has_phase; // false: the label is absent
	struct seq seq;
	struct target_hash target, stable, previous, failed;
	struct order go;
	struct receipt receipt;
	char baseline[BASELINE_TEXT]; // with the receipt: what has to be back before the uncordon; "" = nothing
	uint16_t paused;              // operands that we paused: bits of the table `operands`
	uint8_t autoscaler;           // hints that we set: bits of the table `hints`
	int64_t since, deadline;      // seconds since 1970; 0 = none
	uint16_t attempts;            // orders to load this target
	uint16_t tries;               // orders given in this state
	struct reason reason;
	int64_t reason_since;        // if it arose during the state; 0 = since the state began
	enum node_phase outcome;     // of RELEASING: the next state
	char pool[WORD_TEXT];        // that its plan belongs to, until the end of the attempt (T40)
	char wave[WORD_TEXT];        // that it was assigned to
	uint64_t retry;              // the nonce that was seen
	char leader[NAMESPACE_TEXT]; // namespace of the coordinator that leads it
	int64_t ordered;             // when the last order was given; 0 = when the state began, or no order
	struct {
		struct target_hash target_hash; // of these drains; another target starts over
		uint16_t failed, repeated; // drains without a replacement; replacements of what was already validated
	} drains;
	uint32_t malformed; // bits of the table of keys: values that cannot be parsed
};

#define KEY_PREFIX "kmodsmith.io/"
enum { KEY_TEXT = 512 };

struct node_key {
	const char *name;
	bool is_label;
	bool (*parse)(const char *value, struct record *record);           // false: it cannot be parsed
	void (*text)(const struct record *record, char *ret, size_t size); // "" = the key is absent
};
extern const struct node_key node_keys[]; // .name NULL ends it; at most 32

bool node_key_is_malformed(const struct record *record, const char *name);

// [A-Za-z0-9._/-] only; false: too long, or has other characters
bool node_word_copy(char *to, size_t size, const char *from, size_t len);
bool node_seq_parse(const char *text, size_t len, struct seq *ret);
// Up to the next separator or the end; moves *at past it. NULL = no more.
const char *node_word_cut(const char **at, char separator, size_t *ret_len);

extern const struct borrowed hints[]; // for autoscalers, as operands[]; .key NULL ends it; at most 8
