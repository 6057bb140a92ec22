// SPDX-License-Identifier: Apache-2.0
#include "base/archive/archive.h"

#include <archive.h>
#include <archive_entry.h>

static void free_archivep(struct archive **a)
{
	archive_read_free(*a);
}
#define auto_reader __attribute__((cleanup(free_archivep)))

static int inflate_fail(struct archive *a, struct err *err)
{
	const char *why = archive_error_string(a);
	return err_set(err, E_ARCHIVE, "inflate: %s", why ? why : "unknown format");
}

static int open_stream(struct archive *a, const void *data, size_t len, struct err *err)
{
	struct archive_entry *entry;
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_zstd(a);
	archive_read_support_filter_lz4(a);
	archive_read_support_format_raw(a);
	if (archive_read_open_memory(a, data, len) != ARCHIVE_OK || archive_read_next_header(a, &entry) != ARCHIVE_OK)
		return inflate_fail(a, err);
	return 0;
}

int archive_inflate(const void *data, size_t len, size_t max, char **ret, size_t *ret_len, struct err *err)
{
	auto_reader struct archive *a = archive_read_new();
	auto_str char *out = mem_alloc(1);
	size_t used = 0, room = 0;
	if (len > 0 && open_stream(a, data, len, err) < 0)
		return -1;
	for (ssize_t n = 1; len > 0 && n > 0; used += (size_t)n) {
		if (used == room) {
			room = room ? 2 * room : 4 * len + 4096;
			out = mem_grow(out, room + 1, 1);
		}
		n = archive_read_data(a, out + used, room - used);
		if (n < 0)
			return inflate_fail(a, err);
		if ((size_t)n > max - used)
			return err_set(err, E_ARCHIVE, "inflate: more than %zu bytes come out of %zu", max, len);
	}
	out[used] = '\0';
	*ret = TAKE(out);
	*ret_len = used;
	return 0;
}
