// SPDX-License-Identifier: Apache-2.0
// A package that a repository has: its documents, read and compared with what is wanted; its layer is not touched.
#pragma once
#include "precompiled/package/package.h"
#include "precompiled/repository/repository.h"

struct offer {
	struct package package; // not unpacked
	char *manifest, *config;
	size_t manifest_len, config_len;
};
void offer_done(struct offer *o);
#define auto_offer __attribute__((cleanup(offer_done)))
#define OFFER_NONE ((struct offer){ .package = PACKAGE_NONE })
void offer_move(struct offer *from, struct offer *to);

// The best fitting package of one repository. Where driver, flavour, release and architecture are all wanted, by its
// tag; a tag that leads to a package of something else counts as absent. Otherwise by all tags (newest driver first).
// 1 = found, 0 = not, with *ret_why (caller frees).
int offer_find(struct repository *r, const struct package_want *want, struct offer *ret, char **ret_why,
	       struct err *err);
// By tag or "sha256:HEX". 0 = absent, or of something else.
int offer_read(struct repository *r, const char *ref, struct offer *ret, struct err *err);
