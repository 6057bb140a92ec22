// SPDX-License-Identifier: Apache-2.0
// A payload as a directory in a container image: DIR/root is the tree and DIR/payload.json describes it, so that a
// start that already has this tree reads nothing else.
#pragma once
#include "base/file/digest.h"
#include "precompiled/payload/payload.h"

#define IMAGE_DIR_ROOT "root"
#define IMAGE_DIR_DOCUMENT "payload.json"

struct image_dir {
	char *driver, *arch;
	uint64_t bytes;              // size of a copy of root/
	char digest[DIGEST_HEX + 1]; // over names, kinds, modes, link targets and contents of root/
};
static inline void image_dir_done(struct image_dir *c)
{
	free(c->driver);
	free(c->arch);
	*c = (struct image_dir){ 0 };
}
#define auto_image_dir __attribute__((cleanup(image_dir_done)))

// 1 = read; 0 = there is no such document. E_PAYLOAD: it is not valid.
int image_dir_read(const struct root *dir, const char *document, struct image_dir *ret, struct err *err);
int image_dir_write(const struct root *dir, const char *document, const struct image_dir *c, struct err *err);
// Creates parent/name, complete or not at all; it must not exist, or be empty. 1 = created, 0 = the same payload is
// already there. E_PAYLOAD: something else is there.
int image_dir_make(const struct payload_request *request, const struct root *parent, const char *name,
		   struct image_dir *ret, struct err *err);
