// SPDX-License-Identifier: Apache-2.0
// The blobs a manifest or an index needs: all it names, and all that those name.
#pragma once
#include "precompiled/oci/layout.h"

struct closure_blob {
	char digest[DIGEST_HEX + 1];
	uint64_t size;
	size_t added;   // the how manieth
	bool is_broken; // a document that is missing or damaged: what it names is unknown
};
struct closure {
	struct closure_blob *items; // as they were added; by digest, without duplicates, after closure_sort()
	size_t count, room;
};
static inline void closure_done(struct closure *b)
{
	free(b->items);
	*b = (struct closure){ 0 };
}
#define auto_closure __attribute__((cleanup(closure_done)))
// Adds d and everything it needs. Fails only when the layout cannot be read.
int closure_add(const struct layout *l, const struct oci_descriptor *d, struct closure *ret, struct err *err);
void closure_sort(struct closure *b);                       // once, after everything was added
bool closure_has(const struct closure *b, const char *hex); // of a sorted one
