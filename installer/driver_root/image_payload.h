// SPDX-License-Identifier: Apache-2.0
// The payload that an image carries is copied to the node's disk once: there it outlives the image, beside other
// payloads. A later start reads only the document that identifies it.
#pragma once
#include "precompiled/payload/image_dir.h"

struct image_payload {
	struct root dir; // DIR of --payload; fd < 0 = none
	struct image_dir is;
};
#define IMAGE_PAYLOAD_NONE ((struct image_payload){ .dir = ROOT_NONE })
void image_payload_done(struct image_payload *c);

// dir: as a user typed it. E_PAYLOAD: there is no payload.
int image_payload_open(const char *dir, struct image_payload *ret, struct err *err);
bool image_payload_matches(const struct image_payload *c, const char *driver, const char *arch);
// Whole or not at all, as payloads/DIGEST of the state directory. 1 = copied, 0 = was there. E_NO_SPACE: before a byte
// of it was written.
int image_payload_copy(const struct image_payload *c, const struct root *state, struct err *err);
// One that any image copied, and that is still there. 1 = found.
int image_payload_find(const struct root *state, const char *driver, const char *arch, char ret_hex[DIGEST_HEX + 1],
		       struct err *err);
// The sources of its driver, as a path like dir; NULL = it has none.
char *image_payload_source_path(const struct image_payload *c);
