// SPDX-License-Identifier: Apache-2.0
// Where a kernel's headers come from: an ordered list of sources, each miss with its evidence (R-A1).
//
// Package files (.deb, .rpm, .tar*) are unpacked into the header store once: directory <digest of the files' digests>
// below the store root, made under a temporary name and renamed when whole, so that two processes at once are safe and
// a half-unpacked tree is never seen.
#pragma once
#include "kmod/kernel_tree/tree.h"

enum headers_kind {
	HEADERS_ROOT,  // a root that has the tree installed: the host's files
	HEADERS_FILES, // package files that were given
	HEADERS_STORE, // what the header store holds already
	HEADERS_OFFER, // a callback that may bring them into the store
};

// Brings the tree of release into the store, as the directory that ret_digest names. It may name any release: the tree
// is checked afterwards, like every other. E_NOT_FOUND: there is nobody to ask.
struct headers_offer {
	const char *name; // for messages: "packed headers"
	int (*bring)(void *ctx, const char *release, const struct root *store, char ret_digest[DIGEST_HEX + 1],
		     struct err *err);
	void *ctx;
	const struct headers_offer *last; // asked when even the header store has none; NULL = there is none
};

struct headers_source {
	enum headers_kind kind;
	const char *name;                  // for messages: "host", "--headers"
	const struct root *root;           // HEADERS_ROOT
	const struct strv *files;          // HEADERS_FILES: paths as a user typed them
	const struct headers_offer *offer; // HEADERS_OFFER
};

// The tree of release from the first source that has it, as a tree that owns its root. store: the directory of unpacked
// headers (must exist and be writable for HEADERS_FILES; NULL = no store). banner: text of the running kernel's
// /proc/version to compare builds with, or NULL. ret_from: the name of the source, and what in it.
// Fails with E_HEADERS_MISMATCH when a source had the tree of another kernel, else with the code of the last source
// (E_HEADERS_NOT_FOUND, or why it could not be asked): the message has one clause per source. Damaged or hostile
// package files fail at once (E_ARCHIVE, E_ARCHIVE_UNSAFE).
int headers_find(const struct headers_source *sources, size_t count, const char *release, const char *banner,
		 const struct root *store, struct tree *ret, char **ret_from, struct err *err);

// Unpack package files into the store; 1 = unpacked, 0 = was there already. ret_digest names the directory.
int headers_import(const struct strv *files, const struct root *store, char ret_digest[DIGEST_HEX + 1],
		   struct err *err);
