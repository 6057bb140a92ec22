// SPDX-License-Identifier: Apache-2.0
// A payload as a directory that an image carries: DIR/root is the tree, DIR/payload.json says what it is, so that a
// start that knows the tree already looks at nothing else.
#pragma once
#include "base/file/digest.h"
#include "precompiled/payload/payload.h"

#define IMAGE_DIR_ROOT "root"
#define IMAGE_DIR_DOCUMENT "payload.json"

struct image_dir {
	char *driver, *arch;
	uint64_t bytes;              // what a copy of root/ takes
	char digest[DIGEST_HEX + 1]; // over names, kinds, modes, link targets and contents of root/
};
void image_dir_done(struct image_dir *c);
#define auto_image_dir __attribute__((cleanup(image_dir_done)))

// 1 = there is one; 0 = there is no such document. E_PAYLOAD: it cannot be understood.
int image_dir_read(const struct root *dir, const char *document, struct image_dir *ret, struct err *err);
int image_dir_write(const struct root *dir, const char *document, const struct image_dir *c, struct err *err);
// Made as parent/name, whole or not at all: a new directory, or an empty one. 1 = made, 0 = the same is there.
// E_PAYLOAD: something else is.
int image_dir_make(const struct payload_request *request, const struct root *parent, const char *name,
		   struct image_dir *ret, struct err *err);
