// SPDX-License-Identifier: Apache-2.0
// Targets of the fuzzer: each feeds bytes of somebody else to one parser. main.c runs one of them under libFuzzer;
// tests/unit/corpus_test.c replays the corpus of all of them.
//
// A target gets a copy of exactly len bytes, so that ASan sees every byte too far. It says 1 = taken, 0 = refused. What
// must never happen (a refusal without a reason, a text that does not survive a round) is abort().
#pragma once
#include "base/formats/json.h"

#include <stdlib.h>

struct fuzz_target {
	const char *name;
	int (*run)(const char *data, size_t len);
	struct fuzz_target *next;
};
void fuzz_add(struct fuzz_target *target);
const struct fuzz_target *fuzz_targets(void);
int fuzz_run(const struct fuzz_target *target, const void *data, size_t len);

#define FUZZ_TARGET(NAME)                                                        \
	static int fuzz_##NAME(const char *data, size_t len);                    \
	__attribute__((constructor)) static void add_##NAME(void)                \
	{                                                                        \
		static struct fuzz_target target = { #NAME, fuzz_##NAME, NULL }; \
		fuzz_add(&target);                                               \
	}                                                                        \
	static int fuzz_##NAME(const char *data, size_t len)

// What a parser that refuses must leave: a code and a text. Always 0.
int fuzz_refused(const struct err *err);
#define FUZZ(call)                               \
	({                                       \
		err = (struct err){ 0 };         \
		int r_ = (call);                 \
		r_ < 0 ? fuzz_refused(&err) : 1; \
	})

// An input of several parts: lines "@@ NAME" begin them. Without such a line all of it is the first part.
// The part of that name as text; "" = there is none. Caller frees.
char *fuzz_part(const char *data, size_t len, const char *name, bool is_first, size_t *ret_len);

// A root with nothing in it but the parts whose names are in paths (ends with NULL). A row that ends with '/' stands
// for every file of that folder. Borrowed; emptied by the next call.
const struct root *fuzz_tree(const char *data, size_t len, const char *const *paths);
// That root alone, and the input as one file of it.
const struct root *fuzz_file(const char *path, const char *data, size_t len);
