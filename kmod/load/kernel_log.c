// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/kernel_log.h"

#include <errno.h>
#include <fcntl.h>

enum { RECORD_MAX = 8192, LINES_MAX = 256 };

int kernel_log_open(const struct root *kern)
{
	struct err err;
	int fd = root_open(kern, "dev/kmsg", O_RDONLY | O_NONBLOCK, &err);
	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

// A record escapes newlines; the driver writes its paragraphs with "NVRM: " in front of each line.
static char *unescape_kmsg(const char *text, size_t len)
{
	static const char newline[] = "\\x0a", prefix[] = "NVRM: ";
	auto_str char *line = str_ndup(text, len);
	char *to = line;
	for (const char *from = line; *from;) {
		if (!str_starts(from, newline)) {
			*to++ = *from++;
			continue;
		}
		from += sizeof(newline) - 1;
		if (str_starts(from, prefix))
			from += sizeof(prefix) - 1;
		*to++ = ' ';
	}
	*to = '\0';
	return str_dup(str_trim(line));
}

// "priority,sequence,time,flags;text", then lines that start with a blank and tell of the device.
static void take_records(const char *data, size_t len, struct strv *ret)
{
	for (const char *line = data, *end = data + len, *stop; line < end; line = stop + 1) {
		stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			stop = end;
		const char *text = memchr(line, ';', (size_t)(stop - line));
		if (*line != ' ' && text && ret->count < LINES_MAX)
			strv_add(ret, unescape_kmsg(text + 1, (size_t)(stop - text - 1)));
	}
}

void kernel_log_read(int fd, struct strv *ret)
{
	char record[RECORD_MAX];
	for (int i = 0; fd >= 0 && i < LINES_MAX; i++) {
		ssize_t n = read(fd, record, sizeof(record));
		if (n > 0)
			take_records(record, (size_t)n, ret);
		else if (n == 0 || (errno != EPIPE && errno != EINTR)) // EPIPE: older records were overwritten, go on
			return;
	}
}

int kernel_log_last(const struct root *kern, const char *text, char **ret)
{
	enum { RECORDS_MOST = 100000 };
	struct err err;
	char record[RECORD_MAX];
	auto_fd int fd = root_open(kern, "dev/kmsg", O_RDONLY | O_NONBLOCK, &err);
	auto_str char *last = NULL;
	for (int i = 0; fd >= 0 && i < RECORDS_MOST; i++) {
		auto_strv struct strv lines = { 0 };
		ssize_t n = read(fd, record, sizeof(record));
		if (n == 0 || (n < 0 && errno != EPIPE && errno != EINTR))
			break;
		if (n > 0)
			take_records(record, (size_t)n, &lines);
		for (size_t k = 0; k < lines.count; k++)
			if (str_starts(lines.items[k], "NVRM: ") && strstr(lines.items[k], text)) {
				free(last);
				last = str_dup(lines.items[k]);
			}
	}
	*ret = TAKE(last);
	return *ret != NULL;
}
