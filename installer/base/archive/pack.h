// SPDX-License-Identifier: Apache-2.0
// Write a tar whose bytes depend only on its content: owner 0, one time, modes 0644 and 0755, the order of
// the calls. Plain for bundles, zstd for layers, gzip for people, who can open it anywhere.
#pragma once
#include "base/file/digest.h"
#include "base/file/root.h"

struct pack;
enum pack_filter { PACK_PLAIN, PACK_ZSTD, PACK_GZIP };
// Writes to fd from its current offset; name is for messages. The time is SOURCE_DATE_EPOCH, else 1970.
int pack_new(int fd, const char *name, enum pack_filter filter, struct pack **ret, struct err *err);
int pack_dir(struct pack *p, const char *path, struct err *err);
// size bytes of in, from its current offset; E_SYSTEM when it has fewer.
int pack_file(struct pack *p, const char *path, int in, uint64_t size, struct err *err);
int pack_data(struct pack *p, const char *path, const void *data, size_t len, struct err *err);
int pack_link(struct pack *p, const char *path, const char *target, struct err *err); // a symbolic link
// Everything below the root, sorted, under its names there. Links are kept verbatim; executable files stay executable.
// Anything else than files, directories and links is refused.
int pack_tree(struct pack *p, const struct root *root, struct err *err);
// digest is of what was written, diff_id of the tar before compression; each may be NULL.
int pack_close(struct pack *p, char ret_digest[DIGEST_HEX + 1], char ret_diff_id[DIGEST_HEX + 1], uint64_t *ret_size,
	       struct err *err);
void pack_free(struct pack *p);
static inline void pack_freep(struct pack **p)
{
	pack_free(*p);
}
#define auto_pack __attribute__((cleanup(pack_freep)))
