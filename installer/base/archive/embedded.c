// SPDX-License-Identifier: Apache-2.0
#include "base/archive/embedded.h"

#include "base/core/str.h"

#include <errno.h>

enum { HEAD_BYTES = 4 << 20, TAR_MAGIC_AT = 257 };

static bool is_archive(const char *data, size_t len)
{
	static const struct {
		const char *bytes;
		size_t len;
	} magics[] = { { "\xfd"
			 "7zXZ",
			 5 },
		       { "\x1f\x8b\x08", 3 },
		       { "\x28\xb5\x2f\xfd", 4 },
		       { "\x04\x22\x4d\x18", 4 },
		       { "\x5d\x00\x00", 3 } };
	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		if (len >= magics[i].len && memcmp(data, magics[i].bytes, magics[i].len) == 0)
			return true;
	return len > TAR_MAGIC_AT + 5 && memcmp(data + TAR_MAGIC_AT, "ustar", 5) == 0;
}

// Number of bytes of the first `lines` lines; len when there are fewer.
static size_t skip_lines(const char *data, size_t len, unsigned long lines)
{
	const char *p = data, *end = data + len;
	for (; lines && p < end; lines--) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		p = newline ? newline + 1 : end;
	}
	return (size_t)(p - data);
}

int embedded_find(int fd, const char *name, struct embedded *ret, struct err *err)
{
	auto_str char *data = mem_alloc(HEAD_BYTES + 1);
	ssize_t n = pread(fd, data, HEAD_BYTES, 0);
	if (n < 0)
		return err_set(err, errno, "read '%s'", name);
	*ret = (struct embedded){ .kind = str_starts(data, "!<arch>\n") ? EMBEDDED_DEB :
					  str_starts(data, "#!")        ? EMBEDDED_RUN :
									  EMBEDDED_TAR };
	if (ret->kind != EMBEDDED_RUN)
		return 0;
	size_t len = (size_t)n;
	unsigned long stated = 0; // how many lines the script says it has
	for (const char *p = data; !stated && (p = strstr(p, "\nskip=")); p++) {
		const char *number = p + strlen("\nskip=");
		stated = strtoul(number + (*number == '"'), NULL, 10);
	}
	const size_t places[] = { skip_lines(data, len, stated), skip_lines(data, len, stated ? stated - 1 : 0) };
	for (size_t i = 0; stated && i < ARRAY_SIZE(places); i++) {
		if (is_archive(data + places[i], len - places[i])) {
			ret->offset = (off_t)places[i];
			return 0;
		}
	}
	for (size_t at = skip_lines(data, len, 1); at < len; at += skip_lines(data + at, len - at, 1)) {
		if (is_archive(data + at, len - at)) {
			ret->offset = (off_t)at;
			return 0;
		}
	}
	return err_set(err, E_SOURCE, "'%s' is a script that no archive of a known format follows", name);
}
