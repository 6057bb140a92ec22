// SPDX-License-Identifier: Apache-2.0
// The coordinator's own keys on a node, as a table: how each is read, and how it is written. Nothing else is ever
// written by the coordinator under kmodsmith.io/ (I9).
#pragma once
#include "cluster/node_state/node_state.h"

#define KEY_PREFIX "kmodsmith.io/"
enum { KEY_TEXT = 512 };

struct key {
	const char *name;
	bool is_label;
	bool (*parse)(const char *value, struct record *record);           // false: it means nothing
	void (*text)(const struct record *record, char *ret, size_t size); // "" = the key is absent
};
extern const struct key keys[]; // .name NULL ends it; at most 32

bool node_key_is_malformed(const struct record *record, const char *name);

bool node_seq_parse(const char *text, size_t len, struct seq *ret);
// Up to the next separator or the end; moves *at behind it. NULL = there is no more.
const char *node_word_cut(const char **at, char separator, size_t *ret_len);
bool node_number_cut(const char *text, size_t len, uint64_t most, uint64_t *ret);
