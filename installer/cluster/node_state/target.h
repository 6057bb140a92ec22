// SPDX-License-Identifier: Apache-2.0
// The driver that a node should have, with its parameters: written out, and as a hash.
#pragma once
#include "base/formats/json.h"

// What a pool should run, in 33 characters: a hash of driver, module type and package, and one of the parameters. A
// node whose target hash does not change needs no work, whatever template or tag changed (T38, T39); if only the
// second half changes, nothing has to be staged. The kernel is not part of it: it is a fact of the node, and an agent
// lists as staged only what is complete for its running kernel (T42).
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

// What a pool or a node should run, written out.
struct target {
	char driver[WORD_TEXT], flavour[WORD_TEXT];
	char *package;    // digest; NULL = any package of the driver
	char *parameters; // lines of "NAME=VALUE", sorted; "" = none
	struct target_hash target_hash;
};
void target_name(struct target *t); // sets target_hash from the other members
void target_done(struct target *t);
// "MODULE:NAME=VALUE" as `install --param` takes it; a name without a module belongs to nvidia.
void target_params(const struct target *t, struct strv *ret);
