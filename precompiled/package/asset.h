// SPDX-License-Identifier: Apache-2.0
// Assets: what a site publishes besides packages, in the same format: one layer with a tree, and a configuration whose
// labels describe it. An asset holds a kernel's headers (R-A4), the payload of a driver version (libraries, firmware
// and programs), a builder, the root file system of an image with compilers (R-J3), or a core, the compiled part of
// NVIDIA's open release that one module needs (R-B10). A tag, headers-RELEASE-ARCH, payload-DRIVER-ARCH, builder-ARCH,
// builder-COMPILER-ARCH or core-DRIVER-MODULE-KEY-ARCH, is only a pointer: the labels are compared.
#pragma once
#include "precompiled/package/fetch.h"

struct asset_kind {
	const char *name; // in a bundle manifest, and the start of the tag
	const char *type; // artifactType
};
extern const struct asset_kind ASSET_HEADERS, ASSET_PAYLOAD, ASSET_BUILDER, ASSET_CORE;

struct asset_key { // borrowed strings; of a wanted or an existing asset
	const struct asset_kind *kind;
	const char *driver;  // of a payload or a core, else NULL
	const char *release; // of headers, else NULL
	const char *arch;
	// Of a builder: the one compiler that it has ("gcc-12"), or the wanted one, for which a builder that does not
	// name its compilers fits, too; NULL = several, any. Of a core: version text of the one that compiled it.
	const char *compiler;
	const char *module;   // of a core: "nvidia", else NULL
	const char *core;     // of a core: the digest of all that decides its bytes, 64 hex digits; NULL = any
	const char *tag;      // wanted: by this tag; NULL = by the one that asset_tag() makes
	const char *digest;   // wanted: exactly this manifest, under whatever tag; NULL = by its tag
	const char *build_id; // NULL = unknown, fits any
	const char *distro;   // NULL = unknown; not compared
};
// "NAME@sha256:HEX", or "sha256:HEX" with *ret_name NULL (caller frees). false: it is neither.
bool asset_parse_pin(const char *text, char **ret_name, char ret_hex[DIGEST_HEX + 1]);
char *asset_tag(const struct asset_key *key);     // the best one; for a digest, that of the copy
char *asset_tag_of(const struct oci_manifest *m); // by its annotations; NULL = it is no asset
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
