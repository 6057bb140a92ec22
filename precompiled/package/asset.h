// SPDX-License-Identifier: Apache-2.0
// Assets: what a site publishes besides packages, in the same format: one layer with a tree, and a configuration whose
// labels describe it. An asset holds a kernel's headers (R-A4), the payload of a driver version (libraries, firmware
// and programs), a builder, the root file system of an image with compilers (R-J3), or a core, the compiled part of
// NVIDIA's open release that one module needs (R-B10). A tag, headers-RELEASE-ARCH, payload-DRIVER-ARCH, builder-ARCH,
// builder-COMPILER-ARCH or core-DRIVER-MODULE-KEY-ARCH, is only a pointer: the labels are compared.
#pragma once
#include "precompiled/package/asset_key.h"
#include "precompiled/package/fetch.h"

// tree: a root with only that kernel's or driver's packages unpacked. The same tree and key give the same bytes. On
// failure the index is unchanged.
int asset_create(const struct layout *into, const struct root *tree, const struct asset_key *key,
		 struct oci_descriptor *ret, struct err *err);

// 1 = the layout has it, with the digest of its manifest; 0 = it does not, with *ret_why (caller frees).
int asset_find(const struct layout *l, const struct asset_key *want, char ret_hex[DIGEST_HEX + 1], char **ret_why,
	       struct err *err);
// Fetches it with its signatures from the first trusted source that has it. into may be NULL: only check. Errors as
// fetch_find().
int asset_fetch(const struct fetch *f, const struct asset_key *want, const struct layout *into,
		char ret_hex[DIGEST_HEX + 1], struct err *err);
// The same, with the position in f->from of the source that has it.
int asset_fetch_from(const struct fetch *f, const struct asset_key *want, const struct layout *into,
		     char ret_hex[DIGEST_HEX + 1], size_t *ret_source, struct err *err);
// The digest of its single layer.
int asset_layer(const struct layout *l, const char *hex, char ret[DIGEST_HEX + 1], struct err *err);
// Unpacks to the directory HEX of a store of trees, complete or not at all. 1 = unpacked, 0 = already there.
// E_STORE_CORRUPT: the layer does not match its digest.
int asset_unpack(const struct layout *from, const char *hex, const struct root *store, struct err *err);
