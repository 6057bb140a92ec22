// SPDX-License-Identifier: Apache-2.0
// A blob on its way into a layout: blobs/sha256/.HEX.part, hashed while it grows, renamed when its digest is right.
//
// What an earlier run left behind is taken over, so that a cut download goes on where it stopped, even after a restart,
// and from another mirror: the name is the digest. The file is locked: two processes never write the same part.
#pragma once
#include "precompiled/oci/layout.h"

struct part {
	const struct layout *layout; // borrowed
	char digest[DIGEST_HEX + 1];
	uint64_t size; // that the descriptor promises
	uint64_t have; // bytes in the file so far
	int fd;
	struct digest *sum; // over them; NULL once it was told:
	char found[DIGEST_HEX + 1];
	bool is_committed; // it is a blob of the layout now; fd still reads it
};
#define PART_NONE ((struct part){ .fd = -1 })
// 1 = already a blob of the layout (committed, to be read), 0 = begun. E_LOCKED: another process brings it just now.
int part_open(const struct layout *l, const struct descriptor *d, struct part *ret, struct err *err);
// E_TOO_LARGE when there is more than was promised, E_STORE_FULL when the disk is.
int part_add(struct part *p, const void *data, size_t len, struct err *err);
int part_restart(struct part *p, struct err *err); // forget every byte
void part_drop(struct part *p);                    // forget the file: nobody could use it
// Are size and digest right now? E_DIGEST: no, and the part is gone. May be asked again.
int part_check(struct part *p, struct err *err);
// part_check, then the blob appears.
int part_commit(struct part *p, struct err *err);
void part_done(struct part *p); // what is not committed stays for the next attempt
#define auto_part __attribute__((cleanup(part_done)))
