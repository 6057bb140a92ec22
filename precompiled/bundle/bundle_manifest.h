// SPDX-License-Identifier: Apache-2.0
// The signed list of a bundle's contents, so that a bundle that lost something in transit can be told from one that
// never had it (R-A11). It is an artifact with the tag kmodsmith-bundle, signed like a package.
#pragma once
#include "precompiled/trust/signature.h"

#define BUNDLE_MANIFEST_TAG "kmodsmith-bundle"
#define BUNDLE_MANIFEST_TYPE "application/vnd.kmodsmith.bundle.v1+json"
#define BUNDLE_ENTRY_PACKAGE "package" // a kind; the others are those of asset.h

struct bundle_entry {
	char *kind;
	char *driver, *flavour, *kernel; // NULL = does not apply
	char *arch, *tag;
	char digest[DIGEST_HEX + 1]; // of the manifest
};
struct bundle_manifest {
	time_t created, expires;
	struct bundle_entry *items;
	size_t count;
	struct strv images; // compiler images the site needs in addition: "NAME@sha256:HEX"
};
void bundle_manifest_done(struct bundle_manifest *p);
#define auto_bundle_manifest __attribute__((cleanup(bundle_manifest_done)))
struct bundle_entry *bundle_manifest_add(struct bundle_manifest *p); // an empty one
json_t *bundle_manifest_json(const struct bundle_manifest *p);
char *bundle_entry_text(const struct bundle_entry *p); // "package 535.261.03 open 6.1.0-56-amd64 x86_64"
bool bundle_image_is_pinned(const char *ref);          // NAME@sha256:HEX?

int bundle_manifest_parse(const char *data, size_t len, const char *name, struct bundle_manifest *ret, struct err *err);
// Signs it with each maker's key, then tags it.
int bundle_manifest_publish(const struct layout *l, const struct bundle_manifest *p,
			    const struct signature_maker *makers, size_t count, struct err *err);
// rule: the signatures it needs, see signature_check(); NULL = not checked, and ret_verdict is not filled.
// E_NOT_FOUND: the repository has no bundle manifest.
int bundle_manifest_read(struct repository *r, const struct trust_rule *rule, struct bundle_manifest *ret,
			 struct signature_verdict *ret_verdict, struct err *err);
// 1 = the entry exists under its tag with every blob its manifest names; 0 = it does not, with *ret_why (caller frees).
// Blobs are not read.
int bundle_entry_is_present(struct repository *r, const struct bundle_entry *p, char **ret_why, struct err *err);
