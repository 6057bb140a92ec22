// SPDX-License-Identifier: Apache-2.0
// The root may be an image that nobody knows, and who reads it runs as root on the host: what it says has bounds, far
// above what any distribution has.
#include "base/linker/ldconf.h"

#include <ctype.h>
#include <fnmatch.h>

enum { INCLUDES = 8 /* one in the other */, FILES = 512, FILE_BYTES = 64 << 10, NAMES = 4096, DIRS = 1024 };
static const char CONF[] = "etc/ld.so.conf";

struct reading {
	const struct root *root;
	struct strv *dirs;
	unsigned files;    // read
	unsigned patterns; // followed: each is a look into a directory
};

void ldconf_add(struct strv *dirs, const char *path)
{
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, path, "/");
	auto_str char *dir = strv_join(&parts, "/");
	if (*dir && !strv_has(dirs, dir))
		strv_add(dirs, TAKE(dir));
}

static int too_many_files(const char *what, unsigned most, struct err *err)
{
	return err_set(err, E_TOO_LARGE, "/%s names more than %u %s", CONF, most, what);
}

static int read_conf(struct reading *r, const char *path, unsigned depth, struct err *err);

// Relative patterns are of the file's own directory. Directories are not matched, as no ld.so.conf needs that.
static int include_files(struct reading *r, const char *from, const char *pattern, unsigned depth, struct err *err)
{
	const char *slash = strrchr(from, '/');
	auto_str char *full =
		*pattern == '/' ? str_dup(pattern) : str_fmt("%.*s/%s", slash ? (int)(slash - from) : 0, from, pattern);
	char *last = strrchr(full, '/');
	auto_strv struct strv names = { 0 };
	*last++ = '\0';
	if (++r->patterns > FILES)
		return too_many_files("files", FILES, err);
	if (root_list_most(r->root, *full ? full : ".", NAMES, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", full, names.items[i]);
		if (fnmatch(last, names.items[i], FNM_PERIOD) == 0 && read_conf(r, path, depth + 1, err) < 0)
			return -1;
	}
	return 0;
}

static int read_conf_line(struct reading *r, const char *path, char *line, unsigned depth, struct err *err)
{
	static const char INCLUDE[] = "include";
	line[strcspn(line, "#=")] = '\0'; // a type behind "=" was of libc5
	const char *text = str_trim(line), *rest = text + strlen(INCLUDE);
	if (*text == '/')
		ldconf_add(r->dirs, text);
	if (r->dirs->count > DIRS)
		return too_many_files("directories", DIRS, err);
	if (!str_starts(text, INCLUDE) || !isspace((unsigned char)*rest))
		return 0;
	auto_strv struct strv patterns = { 0 };
	strv_split(&patterns, rest, " \t");
	for (size_t i = 0; i < patterns.count; i++)
		if (include_files(r, path, patterns.items[i], depth, err) < 0)
			return -1;
	return 0;
}

static int read_conf(struct reading *r, const char *path, unsigned depth, struct err *err)
{
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	if (depth >= INCLUDES)
		return 0;
	if (++r->files > FILES)
		return too_many_files("files", FILES, err);
	int is_there = root_read_most(r->root, path, FILE_BYTES, &text, NULL, err);
	if (is_there <= 0)
		return is_there;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++)
		if (read_conf_line(r, path, lines.items[i], depth, err) < 0)
			return -1;
	return 0;
}

int ldconf_read(const struct root *root, struct strv *dirs, struct err *err)
{
	struct reading r = { .root = root, .dirs = dirs };
	return read_conf(&r, CONF, 0, err) < 0 ? -1 : 0;
}
