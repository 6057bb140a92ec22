// SPDX-License-Identifier: Apache-2.0
// What a pool is to run, named in 33 characters: a hash of driver, flavour and package, and one of the parameters. Two
// nodes with the same aim need no work, whatever template or tag changed (T38, T39); where only the second half
// differs, nothing has to be staged. The kernel is no part of it: it is a fact of the node, and an agent lists as
// staged only what is whole for the kernel that it runs (T42).
#pragma once
#include "base/core/err.h"

struct aim {
	uint64_t payload, options; // payload 0: none
};

enum { AIM_TEXT = 34 }; // with the NUL

bool aim_parse(const char *text, struct aim *ret); // strict; "none" is AIM_NONE
void aim_text(const struct aim *aim, char ret[AIM_TEXT]);
struct aim aim_make(const char *payload, const char *options); // of texts that name all that belongs to them
uint64_t aim_hash(const char *text);                           // never 0

#define AIM_NONE ((struct aim){ 0 })
static inline bool aim_is(const struct aim *aim)
{
	return aim->payload != 0;
}
static inline bool aim_eq(const struct aim *a, const struct aim *b)
{
	return a->payload == b->payload && a->options == b->options;
}
