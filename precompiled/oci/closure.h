// SPDX-License-Identifier: Apache-2.0
// What a manifest or an index needs: every blob that it names, and that those name.
#pragma once
#include "precompiled/oci/layout.h"

struct blob {
	char digest[DIGEST_HEX + 1];
	uint64_t size;
	bool is_broken; // a document that is absent, damaged or unsound: what it names is not known
};
struct blobs {
	struct blob *items;
	size_t count;
};
void blobs_done(struct blobs *b);
#define auto_blobs __attribute__((cleanup(blobs_done)))
void blobs_sort(struct blobs *b);                            // by digest, each once
bool blobs_has(const struct blobs *sorted, const char *hex); // after blobs_sort
bool blobs_names(const struct blobs *b, const char *hex);    // in any order
// Adds what d needs, itself first. Fails only when the layout cannot be read.
int reach(const struct layout *l, const struct descriptor *d, struct blobs *ret, struct err *err);
