// SPDX-License-Identifier: Apache-2.0
// A payload as a directory that an image carries: DIR/root is the tree, DIR/payload.json says what it is, so that a
// start that knows the tree already looks at nothing else.
#pragma once
#include "base/file/digest.h"
#include "precompiled/payload/payload.h"

#define CARRIED_ROOT "root"
#define CARRIED_DOCUMENT "payload.json"

struct carried {
	char *driver, *arch;
	uint64_t bytes;              // what a copy of root/ takes
	char digest[DIGEST_HEX + 1]; // over names, kinds, modes, link targets and contents of root/
};
void carried_done(struct carried *c);
#define auto_carried __attribute__((cleanup(carried_done)))

// 1 = there is one; 0 = there is no such document. E_PAYLOAD: it cannot be understood.
int carried_read(const struct root *dir, const char *document, struct carried *ret, struct err *err);
int carried_write(const struct root *dir, const char *document, const struct carried *c, struct err *err);
// Made as parent/name, whole or not at all: a new directory, or an empty one. 1 = made, 0 = the same is there.
// E_PAYLOAD: something else is.
int carried_make(const struct payload_wish *wish, const struct root *parent, const char *name, struct carried *ret,
		 struct err *err);
