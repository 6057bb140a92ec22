// SPDX-License-Identifier: Apache-2.0
// A source's signed list of its current packages: a number that only grows, an expiry date, and the digest of every
// tag. A signature says who made a package; the catalogue says that it is still current, so that a mirror can neither
// freeze an old state, nor roll back to one, nor substitute another package.
//
// It is an artifact with the tag kmodsmith-catalog, signed like a package. Each machine remembers, per source and
// signing key, the highest number it has seen.
#pragma once
#include "precompiled/trust/signature.h"

#define CATALOG_TAG "kmodsmith-catalog"
#define CATALOG_TYPE "application/vnd.kmodsmith.catalog.v1+json"

struct catalog {
	uint64_t number; // 0 = none
	time_t created, expires;
	struct catalog_item {
		char *tag;
		char digest[DIGEST_HEX + 1];
		uint64_t size;
	} * items;
	size_t count;
};
void catalog_done(struct catalog *c);
#define auto_catalog __attribute__((cleanup(catalog_done)))
int catalog_parse(const char *data, size_t len, const char *name, struct catalog *ret, struct err *err);
json_t *catalog_json(const struct catalog *c);

// 1 = the repository has a valid one, now remembered below state. 0 = it has none, and the rule does not need one.
// E_UNSIGNED: none, but the rule needs one; E_EXPIRED; E_ROLLBACK; and the errors of signature_check.
int catalog_check(struct repository *r, const struct trust_rule *rule, const struct root *state, time_t now,
		  struct catalog *ret, struct err *err);
const char *catalog_digest(const struct catalog *c, const char *tag); // the digest listed for tag; NULL = not listed
