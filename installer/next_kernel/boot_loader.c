// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/boot_internal.h"

#include "base/file/file.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

enum { TEXT_MAX = 4 << 20, VARIABLE_MAX = 4096 };

void boot_choice_done(struct boot_choice *b)
{
	free(b->release);
	free(b->by);
	*b = (struct boot_choice){ 0 };
}

void boot_choice_set(struct boot_choice *ret, char *take_release, const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	*ret = (struct boot_choice){ .release = take_release, .by = str_dup(text) };
}

static char *read_bounded(const struct root *root, const char *path, off_t most, size_t *ret_len)
{
	struct err ignored;
	struct stat st;
	char *text = NULL;
	auto_fd int fd = root_open(root, path, O_RDONLY | O_NONBLOCK, &ignored);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > most)
		return NULL;
	return file_read(fd, path, &text, ret_len, &ignored) < 0 ? NULL : text;
}

char *boot_file_text(const struct root *root, const char *path)
{
	return read_bounded(root, path, TEXT_MAX, NULL);
}

// Four bytes of attributes, then UTF-16; identifiers are ASCII, and what is not is no answer.
char *boot_efi_variable(const struct boot_query *ask, const char *name)
{
	enum { ATTRIBUTES = 4 };
	size_t len = 0, used = 0;
	auto_str char *path = str_fmt("sys/firmware/efi/efivars/%s-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f", name),
		      *data = read_bounded(ask->kern, path, VARIABLE_MAX, &len);
	if (!data || len < ATTRIBUTES)
		return NULL;
	auto_str char *text = mem_alloc(len);
	for (size_t i = ATTRIBUTES; i + 1 < len && (data[i] || data[i + 1]); i += 2) {
		if (data[i + 1] || !isprint((unsigned char)data[i]))
			return NULL;
		text[used++] = data[i];
	}
	return used ? TAKE(text) : NULL;
}

char *boot_file_value(const char *text, const char *key, char separator)
{
	size_t len = strlen(key);
	for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		const char *at = line + strspn(line, " \t");
		bool is_end =
			separator == '=' ? at[strnlen(at, len)] == '=' : isblank((unsigned char)at[strnlen(at, len)]);
		if (strncmp(at, key, len) != 0 || !is_end)
			continue;
		auto_str char *value = str_ndup(at + len + 1, strcspn(at + len + 1, "\n"));
		char *trimmed = str_trim(value);
		return *trimmed ? str_dup(trimmed) : NULL;
	}
	return NULL;
}

static bool is_release_char(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("._+~", c));
}

// "6.1.0-5" does not stand in "vmlinuz-6.1.0-56", and does in "vmlinuz-6.1.0-5", "ID-6.1.0-5.efi", "/ID/6.1.0-5/linux".
static bool path_has_release(const char *path, const char *release)
{
	size_t len = strlen(release);
	for (const char *at = path; (at = strstr(at, release)); at++) {
		const char *after = at + len;
		bool is_start = at == path || strchr("-/", at[-1]);
		if (is_start &&
		    (!*after || *after == '/' || str_eq(after, ".efi") || (*after == '+' && isdigit(after[1]))))
			return true;
	}
	return false;
}

// The longest one: a release may be the beginning of another one's.
char *boot_release_in(const struct boot_query *ask, const char *path)
{
	const char *best = NULL;
	for (size_t i = 0; path && i < ask->releases->count; i++) {
		const char *release = ask->releases->items[i];
		if (is_release_char(*release) && path_has_release(path, release) &&
		    (!best || strlen(release) > strlen(best)))
			best = release;
	}
	return str_dup(best);
}

static bool read_vmlinuz_link(const struct boot_query *ask, struct boot_choice *ret)
{
	static const char *const links[] = { "vmlinuz", "boot/vmlinuz", "boot/vmlinux", "boot/Image" };
	struct err ignored;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		auto_str char *target = NULL;
		if (root_readlink(ask->host, links[i], &target, &ignored) <= 0)
			continue;
		char *release = boot_release_in(ask, target);
		if (release) {
			boot_choice_set(ret, release, "the link /%s", links[i]);
			return true;
		}
	}
	return false;
}

bool boot_choice_read(const struct root *host, const struct root *kern, const struct strv *releases,
		      struct boot_choice *ret)
{
	static bool (*const readers[])(const struct boot_query *ask,
				       struct boot_choice *ret) = { boot_choice_ostree, boot_choice_systemd,
								    boot_choice_grub, read_vmlinuz_link };
	const struct boot_query ask = { .host = host, .kern = kern, .releases = releases };
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		if (readers[i](&ask, ret))
			return true;
	return false;
}
