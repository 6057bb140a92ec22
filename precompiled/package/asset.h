// SPDX-License-Identifier: Apache-2.0
// What a site offers beside packages, in the format of one: one layer with a tree at its own paths, and a configuration
// whose labels say what it is of: a kernel's headers (R-A4), the payload of a driver version (its libraries, firmware
// and programs), or a builder: the root file system of an image with compilers (R-J3). A tag, headers-RELEASE-ARCH,
// payload-DRIVER-ARCH or builder-ARCH, is only a pointer: the labels are compared.
#pragma once
#include "precompiled/package/fetch.h"

struct asset_kind {
	const char *name; // of a promise, and the beginning of the tag
	const char *type; // artifactType
};
extern const struct asset_kind ASSET_HEADERS, ASSET_PAYLOAD, ASSET_BUILDER;

struct asset_key { // borrowed strings; of what is wanted, and of what there is
	const struct asset_kind *kind;
	const char *driver;  // of a payload, else NULL
	const char *release; // of headers, else NULL
	const char *arch;
	const char *build_id; // NULL = unknown, fits any
	const char *distro;   // NULL = unknown, is not compared
};
char *asset_tag(const struct asset_key *key);
// tree: a root with nothing but packages of that kernel or driver unpacked. The same tree and key give the same bytes.
// The index is as it was on failure.
int asset_create(const struct layout *into, const struct root *tree, const struct asset_key *key,
		 struct oci_descriptor *ret, struct err *err);

// 1 = a layout has it, with the digest of its manifest; 0 = not, with *ret_why (caller frees).
int asset_find(const struct layout *l, const struct asset_key *want, char ret_hex[DIGEST_HEX + 1], char **ret_why,
	       struct err *err);
// From the first source that has it and is believed, with its signatures. into may be NULL: only look. Errors as
// fetch_find().
int asset_fetch(const struct fetch *f, const struct asset_key *want, const struct layout *into,
		char ret_hex[DIGEST_HEX + 1], struct err *err);
// The digest of its one layer.
int asset_layer(const struct layout *l, const char *hex, char ret[DIGEST_HEX + 1], struct err *err);
// Into the directory HEX of a store of trees, whole or not at all. 1 = unpacked, 0 = was there. E_STORE_CORRUPT: its
// layer is not what the name says.
int asset_unpack(const struct layout *from, const char *hex, const struct root *store, struct err *err);
