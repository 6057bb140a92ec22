// SPDX-License-Identifier: Apache-2.0
// What an asset is of, and the tag that follows from it: apart from where assets come from, for whoever only reads a
// store.
#pragma once
#include "precompiled/oci/oci.h"

struct asset_kind {
	const char *name; // in a bundle manifest, and the start of the tag
	const char *type; // artifactType
};
extern const struct asset_kind ASSET_HEADERS, ASSET_PAYLOAD, ASSET_BUILDER, ASSET_CORE;
const struct asset_kind *asset_kind_of(const char *type); // NULL = it is no asset's

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

// One table for writing, reading and comparing.
struct asset_field {
	const char *label, *what;
	size_t offset; // of the string in struct asset_key
	enum { ASSET_EXACT, ASSET_IF_KNOWN, ASSET_NOTE } compared;
};
enum { ASSET_FIELDS = 8 };
extern const struct asset_field asset_fields[ASSET_FIELDS];

// "NAME@sha256:HEX", or "sha256:HEX" with *ret_name NULL (caller frees). false: it is neither.
bool asset_parse_pin(const char *text, char **ret_name, char ret_hex[DIGEST_HEX + 1]);
char *asset_tag(const struct asset_key *key);     // the best one; for a digest, that of the copy
char *asset_tag_of(const struct oci_manifest *m); // by its annotations; NULL = it is no asset
