// SPDX-License-Identifier: Apache-2.0
// A blob being written to a layout: blobs/sha256/.HEX.part, hashed while it grows, renamed when its digest is right.
//
// The part file of an earlier run is continued, so that an interrupted download resumes, even after a restart or from
// another mirror: the name is the digest. The file is locked, so two processes never write the same one.
#pragma once
#include "precompiled/oci/layout.h"

struct partial_blob {
	const struct layout *layout; // borrowed
	char digest[DIGEST_HEX + 1];
	uint64_t size; // from the descriptor
	uint64_t have; // bytes in the file so far
	int fd;
	struct digest *sum; // of those bytes; NULL once it is finished:
	char found[DIGEST_HEX + 1];
	bool is_committed; // it is a blob of the layout now; fd can still read it
};
#define PARTIAL_BLOB_NONE ((struct partial_blob){ .fd = -1 })
// 1 = already a blob of the layout (committed, readable), 0 = started. E_LOCKED: another process is writing it.
int partial_blob_open(const struct layout *l, const struct oci_descriptor *d, struct partial_blob *ret,
		      struct err *err);
// E_TOO_LARGE: more bytes than the descriptor states; E_STORE_FULL: the disk is full.
int partial_blob_append(struct partial_blob *p, const void *data, size_t len, struct err *err);
int partial_blob_restart(struct partial_blob *p, struct err *err); // discard all bytes
void partial_blob_remove(struct partial_blob *p);                  // delete the file: it is useless
// Checks size and digest. E_DIGEST: wrong, and the part is deleted. May be called again.
int partial_blob_check(struct partial_blob *p, struct err *err);
// partial_blob_check, then the blob appears.
int partial_blob_commit(struct partial_blob *p, struct err *err);
void partial_blob_done(struct partial_blob *p); // an uncommitted part stays for the next attempt
#define auto_partial_blob __attribute__((cleanup(partial_blob_done)))
