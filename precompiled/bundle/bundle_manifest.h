// SPDX-License-Identifier: Apache-2.0
// What a bundle promises to hold, as its maker signed it, so that one that lost something under way can be told from
// one that never had it (R-A11). It is an artifact under the tag kmodsmith-bundle, signed as a package is.
#pragma once
#include "precompiled/trust/signature.h"

#define PROMISE_TAG "kmodsmith-bundle"
#define PROMISE_TYPE "application/vnd.kmodsmith.bundle.v1+json"
#define PROMISE_PACKAGE "package" // a kind; the others are those of asset.h

struct promise {
	char *kind;
	char *driver, *flavour, *kernel; // NULL = does not apply
	char *arch, *tag;
	char digest[DIGEST_HEX + 1]; // of the manifest
};
struct promises {
	time_t created, expires;
	struct promise *items;
	size_t count;
	struct strv images; // compilers that a site needs beside it: "NAME@sha256:HEX"
};
void promises_done(struct promises *p);
#define auto_promises __attribute__((cleanup(promises_done)))
struct promise *promises_add(struct promises *p); // an empty one
json_t *promises_json(const struct promises *p);
char *promise_text(const struct promise *p); // "package 535.261.03 open 6.1.0-56-amd64 x86_64"
bool promise_is_image(const char *ref);      // is it pinned by its digest?

int promise_parse(const char *data, size_t len, const char *name, struct promises *ret, struct err *err);
// Signed by each maker, then under its tag.
int promise_publish(const struct layout *l, const struct promises *p, const struct signature_maker *makers,
		    size_t count, struct err *err);
// rule: what its signature must be, as signature_check() says; NULL = nothing is demanded, and ret_verdict is not
// filled. E_NOT_FOUND: there is no such list.
int promise_read(struct repository *r, const struct trust_rule *rule, struct promises *ret,
		 struct signature_verdict *ret_verdict, struct err *err);
// 1 = what was promised is there under its tag, with every blob that its manifest names; 0 = not, with *ret_why (caller
// frees). Blobs are not read.
int promise_is_kept(struct repository *r, const struct promise *p, char **ret_why, struct err *err);
