// SPDX-License-Identifier: Apache-2.0
// A source's signed list of what it offers just now: a number that only grows, a date after which it counts no more,
// and the digest of every tag. A signature on a package says who made it; the catalogue says that it is still the one
// to use, so that a mirror can neither keep an old state alive nor bring one back nor answer with another package.
//
// It is an artifact under the tag kmodsmith-catalog, signed as a package is. Each machine remembers, per source and
// signing key, the highest number that it has seen.
#pragma once
#include "precompiled/trust/signature.h"

#define CATALOG_TAG "kmodsmith-catalog"
#define CATALOG_TYPE "application/vnd.kmodsmith.catalog.v1+json"

struct catalog {
	uint64_t number; // 0 = there is none
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

// 1 = the repository has one and it holds: it is remembered below state. 0 = it has none, and the rule needs none.
// E_UNSIGNED: none, and the rule needs one; E_EXPIRED; E_ROLLBACK; and what signature_check says.
int catalog_check(struct repository *r, const struct trust_rule *rule, const struct root *state, time_t now,
		  struct catalog *ret, struct err *err);
const char *catalog_digest(const struct catalog *c, const char *tag); // the only right one; NULL = not listed
