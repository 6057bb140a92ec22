// SPDX-License-Identifier: Apache-2.0
// Compressed streams for tests.
#pragma once
#include "base/core/str.h"

#include <archive.h>
#include <archive_entry.h>

// filter: archive_write_add_filter_gzip, ..._xz, ..._zstd, ..._lz4
static inline char *pack(int (*filter)(struct archive *), const void *data, size_t len, size_t *ret_len)
{
	size_t room = 2 * len + 65536;
	char *out = mem_alloc(room);
	struct archive *a = archive_write_new();
	struct archive_entry *entry = archive_entry_new();
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_pathname(entry, "data");
	*ret_len = 0;
	if (archive_write_set_format_raw(a) != ARCHIVE_OK || filter(a) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
	    archive_write_open_memory(a, out, room, ret_len) != ARCHIVE_OK ||
	    archive_write_header(a, entry) != ARCHIVE_OK || archive_write_data(a, data, len) < 0 ||
	    archive_write_close(a) != ARCHIVE_OK)
		abort();
	archive_entry_free(entry);
	archive_write_free(a);
	return out;
}

// LZ4's legacy frame, as the kernel build makes it, of literals only.
static inline char *pack_lz4_legacy(const void *data, size_t len, size_t *ret_len)
{
	char *out = mem_alloc(len + len / 255 + 32), *p = out;
	memcpy(p, "\x02\x21\x4c\x18", 4);
	p += 8; // magic, block size
	*p++ = (char)(len < 15 ? len << 4 : 0xf0);
	for (size_t rest = len - 15; len >= 15; rest -= 255) {
		*p++ = (char)(rest < 255 ? rest : 255);
		if (rest < 255)
			break;
	}
	memcpy(p, data, len);
	p += len;
	uint32_t size = (uint32_t)(p - out - 8);
	memcpy(out + 4, &size, 4);
	*ret_len = (size_t)(p - out);
	return out;
}
