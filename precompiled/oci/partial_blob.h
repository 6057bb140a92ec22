// SPDX-License-Identifier: Apache-2.0
// A blob on its way into a layout: blobs/sha256/.HEX.part, hashed while it grows, renamed when its digest is right.
//
// What an earlier run left behind is taken over, so that a cut download goes on where it stopped, even after a restart,
// and from another mirror: the name is the digest. The file is locked: two processes never write the same part.
#pragma once
#include "precompiled/oci/layout.h"

struct partial_blob {
	const struct layout *layout; // borrowed
	char digest[DIGEST_HEX + 1];
	uint64_t size; // that the descriptor promises
	uint64_t have; // bytes in the file so far
	int fd;
	struct digest *sum; // over them; NULL once it was told:
	char found[DIGEST_HEX + 1];
	bool is_committed; // it is a blob of the layout now; fd still reads it
};
#define PARTIAL_BLOB_NONE ((struct partial_blob){ .fd = -1 })
// 1 = already a blob of the layout (committed, to be read), 0 = begun. E_LOCKED: another process brings it just now.
int partial_blob_open(const struct layout *l, const struct oci_descriptor *d, struct partial_blob *ret,
		      struct err *err);
// E_TOO_LARGE when there is more than was promised, E_STORE_FULL when the disk is.
int partial_blob_append(struct partial_blob *p, const void *data, size_t len, struct err *err);
int partial_blob_restart(struct partial_blob *p, struct err *err); // forget every byte
void partial_blob_remove(struct partial_blob *p);                  // forget the file: nobody could use it
// Are size and digest right now? E_DIGEST: no, and the part is gone. May be asked again.
int partial_blob_check(struct partial_blob *p, struct err *err);
// partial_blob_check, then the blob appears.
int partial_blob_commit(struct partial_blob *p, struct err *err);
void partial_blob_done(struct partial_blob *p); // what is not committed stays for the next attempt
#define auto_partial_blob __attribute__((cleanup(partial_blob_done)))
