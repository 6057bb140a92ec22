// SPDX-License-Identifier: Apache-2.0
#include "base/file/subtree.h"

#include "base/core/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { OPEN_DIR = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

// A directory on the way down: its identity, to check the way up by "..", and its entries that are still to be visited.
struct level {
	char *name; // in the level above
	dev_t dev;
	ino_t ino;
	struct strv names;
	size_t next_entry;
};

struct descent {
	int here; // the last of levels; above is the parent of the first one
	int above;
	struct level *levels;
	size_t depth;
};

static void level_done(struct level *l)
{
	free(l->name);
	strv_done(&l->names);
}

static void descent_done(struct descent *d)
{
	int problem = errno;
	while (d->depth)
		level_done(&d->levels[--d->depth]);
	free(d->levels);
	close_fdp(&d->here);
	errno = problem;
}
#define auto_descent __attribute__((cleanup(descent_done)))

static int current_dir(const struct descent *d)
{
	return d->depth ? d->here : d->above;
}

static int enter_level(struct descent *d, const char *name)
{
	auto_fd int fd = openat(current_dir(d), name, OPEN_DIR);
	struct stat st;
	struct level l = { 0 };
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	int copy = openat(fd, ".", OPEN_DIR);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	if (!dir) {
		close_fdp(&copy);
		return -1;
	}
	errno = 0;
	for (struct dirent *e; (e = readdir(dir)); errno = 0)
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			strv_add(&l.names, str_dup(e->d_name));
	int problem = errno;
	closedir(dir);
	if (problem) {
		strv_done(&l.names);
		errno = problem;
		return -1;
	}
	l.name = str_dup(name);
	l.dev = st.st_dev;
	l.ino = st.st_ino;
	if ((d->depth & (d->depth - 1)) == 0) // 0 or a power of two: it is full
		d->levels = mem_grow(d->levels, d->depth ? d->depth * 2 : 1, sizeof(*d->levels));
	d->levels[d->depth++] = l;
	close_fdp(&d->here);
	d->here = TAKE_FD(fd);
	return 0;
}

// Out of the last level, which is freed; *ret_name is its name.
static int leave_level(struct descent *d, char **ret_name)
{
	struct level *l = &d->levels[d->depth - 1];
	auto_fd int up = -1;
	if (d->depth > 1) {
		struct stat st;
		up = openat(d->here, "..", OPEN_DIR);
		if (up < 0 || fstat(up, &st) < 0)
			return -1;
		if (st.st_dev != l[-1].dev || st.st_ino != l[-1].ino) {
			errno = ESTALE;
			return -1;
		}
	}
	*ret_name = TAKE(l->name);
	level_done(l);
	d->depth--;
	close_fdp(&d->here);
	d->here = TAKE_FD(up);
	return 0;
}

// The next entry of the last level; NULL = no more.
static const char *next_entry(struct descent *d)
{
	struct level *l = &d->levels[d->depth - 1];
	return l->next_entry < l->names.count ? l->names.items[l->next_entry++] : NULL;
}

// The kernel refuses to remove a mount point before it looks whether the directory is empty, so none is ever entered.
// 1 = removed, 0 = it was absent, or is a directory with something in it: that one is entered.
static int remove_entry(struct descent *d, const char *name)
{
	int at = current_dir(d);
	if (unlinkat(at, name, 0) == 0)
		return 1;
	if (errno == ENOENT)
		return 0;
	if (errno != EISDIR || unlinkat(at, name, AT_REMOVEDIR) == 0)
		return errno == EISDIR ? 1 : -1;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -1;
	return enter_level(d, name);
}

int subtree_remove(int dir, const char *name)
{
	auto_descent struct descent d = { .here = -1, .above = dir };
	int r = remove_entry(&d, name);
	if (r != 0 || !d.depth)
		return r;
	while (d.depth) {
		auto_str char *left = NULL;
		const char *entry = next_entry(&d);
		if (entry ? remove_entry(&d, entry) < 0 :
			    leave_level(&d, &left) < 0 || unlinkat(current_dir(&d), left, AT_REMOVEDIR) < 0)
			return -1;
	}
	return 1;
}

static int visit_entry(struct descent *d, const char *name,
		       int (*each)(void *ctx, int dir, const char *name, const struct stat *st), void *ctx)
{
	struct stat st;
	if (fstatat(current_dir(d), name, &st, AT_SYMLINK_NOFOLLOW) < 0 || each(ctx, current_dir(d), name, &st) < 0)
		return -1;
	return S_ISDIR(st.st_mode) ? enter_level(d, name) : 0;
}

int subtree_each(int dir, const char *name, int (*each)(void *ctx, int dir, const char *name, const struct stat *st),
		 void *ctx)
{
	auto_descent struct descent d = { .here = -1, .above = dir };
	if (visit_entry(&d, name, each, ctx) < 0)
		return -1;
	while (d.depth) {
		auto_str char *left = NULL;
		const char *entry = next_entry(&d);
		if (entry ? visit_entry(&d, entry, each, ctx) < 0 : leave_level(&d, &left) < 0)
			return -1;
	}
	return 0;
}
