// SPDX-License-Identifier: Apache-2.0
// What a pool is to run, named in 33 characters: a hash of driver, flavour and package, and one of the parameters. Two
// nodes with the same aim need no work, whatever template or tag changed (T38, T39); where only the second half
// differs, nothing has to be staged. The kernel is no part of it: it is a fact of the node, and an agent lists as
// staged only what is whole for the kernel that it runs (T42).
#pragma once
#include "base/core/err.h"

struct target_hash {
	uint64_t payload, options; // payload 0: none
};

enum { TARGET_HASH_TEXT = 34 }; // with the NUL

bool target_hash_parse(const char *text, struct target_hash *ret); // strict; "none" is TARGET_HASH_NONE
void target_hash_text(const struct target_hash *target_hash, char ret[TARGET_HASH_TEXT]);
struct target_hash target_hash_make(const char *payload,
				    const char *options); // of texts that name all that belongs to them
uint64_t target_hash_of_text(const char *text);           // never 0

#define TARGET_HASH_NONE ((struct target_hash){ 0 })
static inline bool target_hash_is_set(const struct target_hash *target_hash)
{
	return target_hash->payload != 0;
}
static inline bool target_hash_eq(const struct target_hash *a, const struct target_hash *b)
{
	return a->payload == b->payload && a->options == b->options;
}
