// SPDX-License-Identifier: Apache-2.0
// Archives through libarchive, named formats only: tar, ar (.deb), cpio and rpm, through gzip, xz, zstd and lz4.
//
// Unpacking is for hostile input: an entry whose name is absolute or has "..", a hard link that leaves the tree, a
// device, a fifo or a socket is E_ARCHIVE_UNSAFE; a cut or damaged archive is E_ARCHIVE; limits bound bytes, entries,
// and the length (2048 bytes) and depth (128) of a path. Symbolic links are kept verbatim, and nothing is ever written
// through one.
#pragma once
#include "base/file/root.h"

// An archive that is not a file: up to len of its bytes into buf; 0 = the end.
struct archive_stream {
	ssize_t (*read)(void *ctx, void *buf, size_t len, struct err *err);
	void *ctx;
};

struct archive_options {
	uint64_t bytes;   // at most, unpacked; 0 = 8 GiB
	size_t entries;   // at most; 0 = 500,000
	const bool *stop; // when it is true, the rest is not read; NULL = read all
	// Chooses the entries to unpack; also called with directories. NULL = all.
	bool (*select)(void *ctx, const char *path);
	void *ctx; // of select
	// Read instead of fd, without the search for a .deb's member; bytes after the end of the archive are not read.
	const struct archive_stream *stream;
};
// Unpack an archive into dest (an existing directory). A .deb means its data.tar member. fd must be seekable;
// reading starts at offset (for payloads after a script). Owners and times are not restored; modes are, less set-id
// bits. options: NULL = none.
int archive_unpack(int fd, const char *name, off_t offset, const struct root *dest,
		   const struct archive_options *options, struct err *err);

// Members of a plain tar (no compression) without unpacking it. The walk reads headers only; every entry must be a file
// or a directory with a name inside (cleaned: no "./"), else E_ARCHIVE_UNSAFE; one that lacks bytes is E_ARCHIVE, more
// than `most` entries are E_TOO_LARGE. Duplicate names are left to the visitor.
struct archive_member {
	char *name;
	off_t at; // for archive_member_open
	uint64_t size;
	bool is_file;
};
int archive_walk(int fd, const char *name, size_t most,
		 int (*visit)(void *, const struct archive_member *, struct err *), void *ctx, struct err *err);
// Read one member from its beginning. fd is borrowed and shared: its offset is not used.
struct archive_member_reader;
int archive_member_open(int fd, const char *name, off_t at, struct archive_member_reader **ret, struct err *err);
ssize_t archive_member_read(struct archive_member_reader *r, void *buf, size_t len, struct err *err); // 0 = the end
void archive_member_free(struct archive_member_reader *r);
static inline void archive_member_freep(struct archive_member_reader **r)
{
	archive_member_free(*r);
}
#define auto_archive_member __attribute__((cleanup(archive_member_freep)))

// The name of an entry without "./" and doubled slashes, "" for the root itself; NULL = absolute, or climbs with "..".
char *archive_safe_name(const char *raw);

// Decompress one gzip, xz, zstd, lz4 (legacy frames too) or plain stream held in memory, up to max bytes.
// The end of the data must be the end of the stream: what else follows may be taken for damage.
int archive_inflate(const void *data, size_t len, size_t max, char **ret, size_t *ret_len, struct err *err);
