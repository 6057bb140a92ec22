// SPDX-License-Identifier: Apache-2.0
// The headers of one kernel, in the format of a package: one layer with the tree at its own paths, and a configuration
// whose labels say which kernel it is (R-A4). A tag, headers-RELEASE-ARCH, is only a pointer: the labels are compared.
#pragma once
#include "precompiled/fetch.h"

#define KHEADERS_TYPE "application/vnd.kmodsmith.kernel-headers.v1"

struct kheaders_key { // borrowed strings; of what is wanted, and of what there is
	const char *release, *arch;
	const char *build_id; // NULL = unknown, fits any
	const char *distro;   // NULL = unknown, is not compared
};
char *kheaders_tag(const struct kheaders_key *key);
// tree: a root with nothing but header packages unpacked. The same tree and key give the same bytes. The index is as it
// was on failure.
int kheaders_create(const struct layout *into, const struct root *tree, const struct kheaders_key *key,
		    struct descriptor *ret, struct err *err);

// 1 = a layout has them, with the digest of their manifest; 0 = not, with *ret_why (caller frees).
int kheaders_find(const struct layout *l, const struct kheaders_key *want, char ret_hex[DIGEST_HEX + 1], char **ret_why,
		  struct err *err);
// From the first source that has them and is believed, with their signatures. into may be NULL: only look. Errors as
// fetch_find().
int kheaders_fetch(const struct fetch *f, const struct kheaders_key *want, const struct layout *into,
		   char ret_hex[DIGEST_HEX + 1], struct err *err);
// Into the directory HEX of a header store, whole or not at all. 1 = unpacked, 0 = was there. E_STORE_CORRUPT: its
// layer is not what the name says.
int kheaders_unpack(const struct layout *from, const char *hex, const struct root *store, struct err *err);
