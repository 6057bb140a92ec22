// SPDX-License-Identifier: Apache-2.0
// Which driver a node is to have, and with which parameters: written out, and as a hash.
#pragma once
#include "base/formats/json.h"

// What a pool is to run, named in 33 characters: a hash of driver, flavour and package, and one of the parameters. Two
// nodes with the same target hash need no work, whatever template or tag changed (T38, T39); where only the second half
// differs, nothing has to be staged. The kernel is no part of it: it is a fact of the node, and an agent lists as
// staged only what is whole for the kernel that it runs (T42).
struct target_hash {
	uint64_t payload, options; // payload 0: none
};

enum { TARGET_HASH_TEXT = 34 }; // with the NUL

bool target_hash_parse(const char *text, struct target_hash *ret); // strict; "none" is TARGET_HASH_NONE
void target_hash_text(const struct target_hash *target_hash, char ret[TARGET_HASH_TEXT]);
json_t *target_hash_json(const struct target_hash *target_hash);
uint64_t target_hash_of_text(const char *text); // never 0

#define TARGET_HASH_NONE ((struct target_hash){ 0 })
static inline bool target_hash_is_set(const struct target_hash *target_hash)
{
	return target_hash->payload != 0;
}
static inline bool target_hash_eq(const struct target_hash *a, const struct target_hash *b)
{
	return a->payload == b->payload && a->options == b->options;
}

enum { WORD_TEXT = 24 };

// What a pool or a node is to run, written out: the driver and its parameters.
struct target {
	char driver[WORD_TEXT], flavour[WORD_TEXT];
	char *package;    // digest; NULL = whatever has the driver
	char *parameters; // "NAME=VALUE" a line, sorted; "" = none
	struct target_hash target_hash;
};
void target_name(struct target *t); // sets target_hash from the other members
void target_copy(const struct target *from, struct target *to);
void target_done(struct target *t);
// "MODULE:NAME=VALUE" as `install --param` takes it; a name without a module is of nvidia.
void target_params(const struct target *t, struct strv *ret);
