// SPDX-License-Identifier: Apache-2.0
#include "host/mountinfo.h"

#include <stdio.h>

enum { FIELD_MOST = 4096 };

void mounts_done(struct mounts *m)
{
	for (size_t i = 0; i < m->count; i++) {
		free(m->items[i].root);
		free(m->items[i].point);
		free(m->items[i].source);
	}
	free(m->items);
	*m = (struct mounts){ 0 };
}

void spot_done(struct spot *s)
{
	free(s->path);
	*s = (struct spot){ 0 };
}

// The kernel writes blank, tab, newline and backslash as three octal digits.
static char *plain(const char *field)
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

static bool has_option(const char *options, const char *option)
{
	auto_strv struct strv all = { 0 };
	strv_split(&all, options, ",");
	return strv_has(&all, option);
}

// "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw": what follows the options may be any number of words
// before the dash.
static bool parse(const char *line, struct mount *ret)
{
	char root[FIELD_MOST + 1], point[FIELD_MOST + 1], options[FIELD_MOST + 1], source[FIELD_MOST + 1];
	struct mount m = { 0 };
	int end = 0;
	if (sscanf(line, "%u %u %u:%u %4096s %4096s %4096s%n", &m.id, &m.parent, &m.major, &m.minor, root, point,
		   options, &end) != 7)
		return false;
	const char *dash = strstr(line + end, " - "), *peers = strstr(line + end, " shared:");
	if (!dash || sscanf(dash, " - %*s %4096s", source) != 1)
		return false;
	if (peers && peers < dash)
		sscanf(peers, " shared:%u", &m.peers);
	m.root = plain(root);
	m.point = plain(point);
	m.source = plain(source);
	m.is_read_only = has_option(options, "ro");
	*ret = m;
	return true;
}

void mounts_parse(const char *mountinfo, struct mounts *ret)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, mountinfo, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		struct mount m = { 0 };
		if (!parse(lines.items[i], &m))
			continue;
		ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
		ret->items[ret->count++] = m;
	}
}

static bool is_covered(const struct mounts *m, const struct mount *at)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->items[i].parent == at->id && str_eq(m->items[i].point, at->point))
			return true;
	return false;
}

// Mostly the last in the text; but one that came through another namespace may lie beneath one that was there before.
const struct mount *mounts_at(const struct mounts *m, const char *point)
{
	for (size_t i = m->count; i-- > 0;)
		if (str_eq(m->items[i].point, point) && !is_covered(m, &m->items[i]))
			return &m->items[i];
	return NULL;
}

size_t mounts_depth(const struct mounts *m, const char *point)
{
	size_t depth = 0;
	for (size_t i = 0; i < m->count; i++)
		depth += str_eq(m->items[i].point, point);
	return depth;
}

const struct mount *mounts_find(const struct mounts *m, unsigned id)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->items[i].id == id)
			return &m->items[i];
	return NULL;
}

// What follows the directory in a path that is below it, from its slash; NULL = it is elsewhere.
static const char *rest_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);
	while (len && dir[len - 1] == '/')
		len--;
	return strncmp(path, dir, len) == 0 && (!path[len] || path[len] == '/') ? path + len : NULL;
}

bool path_is_below(const char *path, const char *dir)
{
	return rest_below(path, dir);
}

static struct spot spot_in(const struct mount *at, const char *rest)
{
	return (struct spot){ .major = at->major,
			      .minor = at->minor,
			      .path = str_fmt("%s%s", str_eq(at->root, "/") ? "" : at->root, rest) };
}

void mounts_spot(const struct mounts *m, const char *path, struct spot *ret)
{
	const struct mount *best = NULL;
	for (size_t i = 0; i < m->count; i++)
		if (path_is_below(path, m->items[i].point) &&
		    (!best || strlen(m->items[i].point) >= strlen(best->point)))
			best = &m->items[i];
	if (!best) {
		*ret = (struct spot){ .path = str_dup(path) };
		return;
	}
	*ret = spot_in(best, rest_below(path, best->point));
}

bool mounts_under(const struct mounts *m, const struct mount *at, struct spot *ret)
{
	const struct mount *parent = mounts_find(m, at->parent);
	const char *rest = parent ? rest_below(at->point, parent->point) : NULL;
	if (!rest)
		return false;
	*ret = spot_in(parent, rest);
	return true;
}

bool spot_same(const struct spot *a, const struct spot *b)
{
	return a->major == b->major && a->minor == b->minor && str_eq(a->path, b->path);
}

bool mounts_show(const struct mounts *m, const struct spot *spot)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct mount *at = &m->items[i];
		if (at->major == spot->major && at->minor == spot->minor && path_is_below(at->root, spot->path))
			return true;
	}
	return false;
}
