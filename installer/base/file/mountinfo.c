// SPDX-License-Identifier: Apache-2.0
#include "base/file/mountinfo.h"

#include <stdio.h>

void mountinfo_done(struct mountinfo *m)
{
	for (size_t i = 0; i < m->count; i++) {
		free(m->items[i].root);
		free(m->items[i].point);
		free(m->items[i].options);
		free(m->items[i].source);
	}
	free(m->items);
	*m = (struct mountinfo){ 0 };
}

void mountinfo_fs_dir_done(struct fs_dir *s)
{
	free(s->path);
	*s = (struct fs_dir){ 0 };
}

// The kernel writes blank, tab, newline and backslash as three octal digits.
static char *unescape_field(const char *field)
{
	char *ret = str_dup(field), *to = ret;
	for (const char *from = field; *from; to++) {
		unsigned value;
		if (*from == '\\' && strlen(from) >= 4 && sscanf(from + 1, "%3o", &value) == 1) {
			*to = (char)value;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
	return ret;
}

// "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw": what follows the options may be any number of words
// before the dash. A path of 4095 bytes is up to four times as long here.
void mountinfo_parse(const char *mountinfo, struct mountinfo *ret)
{
	enum { ROOT = 3, POINT, OPTIONS, OPTIONAL };
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, mountinfo, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		auto_strv struct strv words = { 0 };
		struct mount m = { 0 };
		size_t dash = OPTIONAL;
		strv_split(&words, lines.items[i], " ");
		while (dash < words.count && !str_eq(words.items[dash], "-"))
			dash++;
		if (dash + 2 >= words.count ||
		    sscanf(lines.items[i], "%u %u %u:%u ", &m.id, &m.parent, &m.major, &m.minor) != 4)
			continue;
		for (size_t k = dash; k-- > OPTIONAL;)
			sscanf(words.items[k], "shared:%u", &m.peers);
		m.root = unescape_field(words.items[ROOT]);
		m.point = unescape_field(words.items[POINT]);
		m.options = str_dup(words.items[OPTIONS]);
		m.source = unescape_field(words.items[dash + 2]);
		ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
		ret->items[ret->count++] = m;
	}
}

bool mountinfo_has_option(const struct mount *m, const char *option)
{
	auto_strv struct strv all = { 0 };
	strv_split(&all, m->options, ",");
	return strv_has(&all, option);
}

// Usually the last in the text; but a mount that propagated from another namespace may be under an older one.
const struct mount *mountinfo_at(const struct mountinfo *m, const char *point)
{
	for (size_t i = m->count; i-- > 0;) {
		const struct mount *at = &m->items[i];
		bool is_covered = false;
		if (!str_eq(at->point, point))
			continue;
		for (size_t k = 0; k < m->count && !is_covered; k++)
			is_covered = m->items[k].parent == at->id && str_eq(m->items[k].point, point);
		if (!is_covered)
			return at;
	}
	return NULL;
}

size_t mountinfo_depth(const struct mountinfo *m, const char *point)
{
	size_t depth = 0;
	for (size_t i = 0; i < m->count; i++)
		depth += str_eq(m->items[i].point, point);
	return depth;
}

const struct mount *mountinfo_find(const struct mountinfo *m, unsigned id)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->items[i].id == id)
			return &m->items[i];
	return NULL;
}

// Returns the rest of a path below the directory, from its slash; NULL = the path is elsewhere.
static const char *path_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);
	while (len && dir[len - 1] == '/')
		len--;
	return strncmp(path, dir, len) == 0 && (!path[len] || path[len] == '/') ? path + len : NULL;
}

bool mountinfo_path_is_below(const char *path, const char *dir)
{
	return path_below(path, dir);
}

static struct fs_dir locate_in_mount(const struct mount *at, const char *rest)
{
	return (struct fs_dir){ .major = at->major,
				.minor = at->minor,
				.path = str_fmt("%s%s", str_eq(at->root, "/") ? "" : at->root, rest) };
}

void mountinfo_locate(const struct mountinfo *m, const char *path, struct fs_dir *ret)
{
	const struct mount *best = NULL;
	for (size_t i = 0; i < m->count; i++)
		if (mountinfo_path_is_below(path, m->items[i].point) &&
		    (!best || strlen(m->items[i].point) >= strlen(best->point)))
			best = &m->items[i];
	if (!best) {
		*ret = (struct fs_dir){ .path = str_dup(path) };
		return;
	}
	*ret = locate_in_mount(best, path_below(path, best->point));
}

bool mountinfo_under(const struct mountinfo *m, const struct mount *at, struct fs_dir *ret)
{
	const struct mount *parent = mountinfo_find(m, at->parent);
	const char *rest = parent ? path_below(at->point, parent->point) : NULL;
	if (!rest)
		return false;
	*ret = locate_in_mount(parent, rest);
	return true;
}

bool mountinfo_fs_dir_same(const struct fs_dir *a, const struct fs_dir *b)
{
	return a->major == b->major && a->minor == b->minor && str_eq(a->path, b->path);
}

bool mountinfo_shows(const struct mountinfo *m, const struct fs_dir *fs_dir)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct mount *at = &m->items[i];
		if (at->major == fs_dir->major && at->minor == fs_dir->minor &&
		    mountinfo_path_is_below(at->root, fs_dir->path))
			return true;
	}
	return false;
}
