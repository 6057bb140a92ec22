// SPDX-License-Identifier: Apache-2.0
#include "base/ldconf.h"

#include <ctype.h>
#include <fnmatch.h>

enum { INCLUDES = 8 }; // one in the other
static const char CONF[] = "etc/ld.so.conf";

void ldconf_add(struct strv *dirs, const char *path)
{
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, path, "/");
	auto_str char *dir = strv_join(&parts, "/");
	if (*dir && !strv_has(dirs, dir))
		strv_add(dirs, TAKE(dir));
}

static int read_conf(const struct root *root, const char *path, unsigned depth, struct strv *dirs, struct err *err);

// Relative patterns are of the file's own directory. Directories are not matched, as no ld.so.conf needs that.
static int include(const struct root *root, const char *from, const char *pattern, unsigned depth, struct strv *dirs,
		   struct err *err)
{
	const char *slash = strrchr(from, '/');
	auto_str char *full =
		*pattern == '/' ? str_dup(pattern) : str_fmt("%.*s/%s", slash ? (int)(slash - from) : 0, from, pattern);
	char *last = strrchr(full, '/');
	auto_strv struct strv names = { 0 };
	*last++ = '\0';
	if (root_list(root, *full ? full : ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", full, names.items[i]);
		if (fnmatch(last, names.items[i], FNM_PERIOD) == 0 && read_conf(root, path, depth + 1, dirs, err) < 0)
			return -1;
	}
	return 0;
}

static int read_line(const struct root *root, const char *path, char *line, unsigned depth, struct strv *dirs,
		     struct err *err)
{
	static const char INCLUDE[] = "include";
	line[strcspn(line, "#=")] = '\0'; // a type behind "=" was of libc5
	const char *text = str_trim(line), *rest = text + strlen(INCLUDE);
	if (*text == '/')
		ldconf_add(dirs, text);
	if (!str_starts(text, INCLUDE) || !isspace((unsigned char)*rest))
		return 0;
	auto_strv struct strv patterns = { 0 };
	strv_split(&patterns, rest, " \t");
	for (size_t i = 0; i < patterns.count; i++)
		if (include(root, path, patterns.items[i], depth, dirs, err) < 0)
			return -1;
	return 0;
}

static int read_conf(const struct root *root, const char *path, unsigned depth, struct strv *dirs, struct err *err)
{
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	int r = depth < INCLUDES ? root_read(root, path, &text, NULL, err) : 0;
	if (r <= 0)
		return r;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++)
		if (read_line(root, path, lines.items[i], depth, dirs, err) < 0)
			return -1;
	return 0;
}

int ldconf_read(const struct root *root, struct strv *dirs, struct err *err)
{
	return read_conf(root, CONF, 0, dirs, err) < 0 ? -1 : 0;
}
