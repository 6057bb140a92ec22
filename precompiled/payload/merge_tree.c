// SPDX-License-Identifier: Apache-2.0
#include "precompiled/payload/merge_tree.h"

#include "base/file/digest.h"
#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

void merge_tree_done(struct merge_tree *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->items[i].place);
	free(l->items);
	root_done(&l->into);
	*l = (struct merge_tree){ .into = ROOT_NONE };
}

static void remember_origin(struct merge_tree *l, const char *place, const char *origin)
{
	l->items = mem_grow(l->items, l->count + 1, sizeof(*l->items));
	l->items[l->count++] = (struct merge_tree_item){ .place = str_dup(place), .origin = origin };
}

static const char *find_origin(const struct merge_tree *l, const char *place)
{
	for (size_t i = l->count; i-- > 0;)
		if (str_eq(l->items[i].place, place))
			return l->items[i].origin;
	return "another file";
}

static int make_parent(const struct merge_tree *l, const char *place, struct err *err)
{
	const char *slash = strrchr(place, '/');
	auto_str char *dir = slash ? str_ndup(place, (size_t)(slash - place)) : NULL;
	return dir ? root_mkdirs(&l->into, dir, 0755, err) : 0;
}

static int digest_path(const struct root *root, const char *path, char ret[DIGEST_HEX + 1], struct err *err)
{
	auto_fd int fd = root_open(root, path, O_RDONLY | O_NOFOLLOW, err);
	return fd < 0 ? -1 : digest_file(fd, path, ret, err);
}

static int refuse_directory_conflict(const struct merge_tree *l, const struct merge_tree_source *part,
				     const char *place, struct err *err)
{
	return err_set(err, E_PAYLOAD, "'%s' is a directory in only one of '%s' and '%s'", place, find_origin(l, place),
		       part->origin);
}

int merge_tree_file(struct merge_tree *l, const struct merge_tree_source *part, const char *path, const char *place,
		    struct err *err)
{
	struct stat st, old;
	auto_str char *from_name = NULL, *to_name = NULL;
	char has[DIGEST_HEX + 1], new[DIGEST_HEX + 1];
	int r = root_stat(part->root, path, &st, err);
	if (r <= 0 || !S_ISREG(st.st_mode))
		return r < 0 ? -1 : err_set(err, E_PAYLOAD, "'%s' has no file '%s'", part->origin, path);
	if (part->check && part->check(part->ctx, part->root, path, place, err) < 0)
		return err_wrap(err, "'%s'", part->origin);
	r = make_parent(l, place, err) < 0 ? -1 : root_stat(&l->into, place, &old, err);
	if (r < 0)
		return -1;
	if (r > 0 && S_ISDIR(old.st_mode))
		return refuse_directory_conflict(l, part, place, err);
	if (r > 0 && S_ISREG(old.st_mode)) {
		if (digest_path(&l->into, place, has, err) < 0 || digest_path(part->root, path, new, err) < 0)
			return -1;
		return str_eq(has, new) ?
			       0 :
			       err_set(err, E_PAYLOAD, "'%s' is in '%s' and, with different content, in '%s'", place,
				       find_origin(l, place), part->origin);
	}
	remember_origin(l, place, part->origin);
	// Both are on one file system, and the source is not needed afterwards.
	auto_fd int from = root_parent(part->root, path, &from_name, err);
	auto_fd int to = from < 0 ? -1 : root_parent(&l->into, place, &to_name, err);
	if (to < 0)
		return -1;
	if (renameat(from, from_name, to, to_name) < 0 || fchmodat(to, to_name, st.st_mode & 0111 ? 0755 : 0644, 0) < 0)
		return file_fail("install", place, err);
	return 0;
}

int merge_tree_link(struct merge_tree *l, const struct merge_tree_source *part, const char *target, const char *place,
		    struct err *err)
{
	struct stat old;
	int r = make_parent(l, place, err) < 0 ? -1 : root_stat(&l->into, place, &old, err);
	if (r < 0)
		return -1;
	if (r > 0 && S_ISDIR(old.st_mode))
		return refuse_directory_conflict(l, part, place, err);
	if (r > 0 && S_ISREG(old.st_mode))
		return 0;
	remember_origin(l, place, part->origin);
	return root_symlink(&l->into, target, place, err);
}

// Resolves a link target to a path below the root, without "." and "..".
static char *resolve_link(const char *dir, const char *path)
{
	auto_strv struct strv parts = { 0 }, kept = { 0 };
	auto_str char *all = str_fmt("%s/%s", *path == '/' ? "" : dir, path);
	strv_split(&parts, all, "/");
	for (size_t i = 0; i < parts.count; i++) {
		if (str_eq(parts.items[i], "..") && kept.count)
			free(kept.items[--kept.count]);
		else if (!str_eq(parts.items[i], ".") && !str_eq(parts.items[i], ".."))
			strv_add(&kept, str_dup(parts.items[i]));
	}
	return kept.count ? strv_join(&kept, "/") : str_dup("");
}

// The relative path from the directory of one path to another.
static char *relative_path(const char *from, const char *to)
{
	size_t same = 0, i = 0;
	for (; from[i] && from[i] == to[i]; i++)
		if (from[i] == '/')
			same = i + 1;
	auto_str char *ret = str_dup("");
	for (const char *p = from + same; (p = strchr(p, '/')); p++)
		str_add(&ret, "../");
	str_add(&ret, "%s", to + same);
	return *ret ? TAKE(ret) : str_dup(".");
}

char *merge_tree_link_target(const struct merge_tree_source *part, const char *path, const char *target,
			     const char *place)
{
	const char *slash = strrchr(path, '/');
	auto_str char *dir = slash ? str_ndup(path, (size_t)(slash - path)) : str_dup("");
	auto_str char *old = resolve_link(dir, target), *to = part->place(part->ctx, old);
	return !to || str_eq(to, place) ? NULL : relative_path(place, to);
}

int merge_tree_all(struct merge_tree *l, const struct merge_tree_source *part, const char *dir, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(part->root, *dir ? dir : ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s%s%s", dir, *dir ? "/" : "", names.items[i]), *within = NULL,
			      *place = NULL, *target = NULL, *to = NULL;
		struct stat st;
		int r = root_stat(part->root, path, &st, err);
		if (r > 0 && S_ISDIR(st.st_mode)) {
			within = str_fmt("%s/", path);
			place = part->is_whole ? part->place(part->ctx, within) : NULL;
			r = place ? root_mkdirs(&l->into, place, 0755, err) : 0;
			if (r == 0)
				r = merge_tree_all(l, part, path, err);
		} else if (r > 0) {
			place = part->place(part->ctx, path);
			if (place && S_ISLNK(st.st_mode)) {
				r = root_readlink(part->root, path, &target, err);
				to = r < 0 ? NULL : merge_tree_link_target(part, path, target, place);
				r = to ? merge_tree_link(l, part, to, place, err) : r;
			} else if (place) {
				r = merge_tree_file(l, part, path, place, err);
			}
		}
		if (r < 0)
			return -1;
	}
	return 0;
}
