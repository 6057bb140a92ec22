// SPDX-License-Identifier: Apache-2.0
// A package in a repository: its documents, read and compared with the request; the layer is not read.
#pragma once
#include "precompiled/package/package.h"
#include "precompiled/repository/repository.h"

struct package_candidate {
	struct package package; // not unpacked
	char *manifest, *config;
	size_t manifest_len, config_len;
};
void candidate_done(struct package_candidate *o);
#define auto_candidate __attribute__((cleanup(candidate_done)))
#define CANDIDATE_NONE ((struct package_candidate){ .package = PACKAGE_NONE })

// The best matching package of one repository. If driver, flavour, release and architecture are all given, by its tag;
// a tag of a package that does not match counts as absent. Otherwise among all tags (newest driver first). 1 = found, 0
// = not found, with *ret_why (caller frees).
int candidate_find(struct repository *r, const struct package_want *want, struct package_candidate *ret, char **ret_why,
		   struct err *err);
// By tag or "sha256:HEX". 0 = absent, or not a package.
int candidate_read(struct repository *r, const char *ref, struct package_candidate *ret, struct err *err);
