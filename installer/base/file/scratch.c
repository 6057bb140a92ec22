// SPDX-License-Identifier: Apache-2.0
#include "base/file/scratch.h"

#include "base/file/file.h"
#include "base/file/subtree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#define PLACE ".tmp"
enum { TRIES = 1000 };

static int chown_entry(void *uid, int dir, const char *name, const struct stat *st)
{
	(void)st;
	return fchownat(dir, name, *(uid_t *)uid, *(uid_t *)uid, AT_SYMLINK_NOFOLLOW);
}

int scratch_chown(const struct root *dir, uid_t uid, struct err *err)
{
	return subtree_each(dir->fd, ".", chown_entry, &uid) < 0 ?
		       err_set(err, errno, "give '%s' to uid %u", dir->name, uid) :
		       0;
}

// Whether the name is still that of the open directory. A lock also comes free when its owner keeps the directory under
// its last name, or when another process has swept it: the name may then be that of a new one.
static bool is_named(const struct root *parent, const char *name, int fd)
{
	struct err err;
	struct stat st, named;
	auto_fd int now = root_open(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, &err);
	return now >= 0 && fstat(fd, &st) == 0 && fstat(now, &named) == 0 && st.st_ino == named.st_ino &&
	       st.st_dev == named.st_dev;
}

// Leftovers of killed processes: their locks are free.
static void sweep_leftovers(const struct root *parent)
{
	struct err err;
	auto_strv struct strv names = { 0 };
	root_list(parent, PLACE, &names, &err);
	for (size_t i = 0; i < names.count; i++) {
		auto_root struct root dir = ROOT_NONE;
		auto_str char *path = str_fmt(PLACE "/%s", names.items[i]);
		auto_fd int fd = root_open(parent, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, &err);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_named(parent, path, fd) ||
		    root_rmtree(parent, path, &err) >= 0)
			continue;
		// A compile may have given its files to another user.
		if (geteuid() == 0 && root_sub(parent, path, &dir, &err) == 0 && scratch_chown(&dir, 0, &err) == 0)
			root_rmtree(parent, path, &err);
	}
}

// 1 = made and locked, 0 = the name is taken or was swept away before it was locked.
static int try_name(const struct root *parent, const char *name, struct scratch *s, struct err *err)
{
	auto_str char *last = NULL;
	auto_fd int dir = root_parent(parent, name, &last, err);
	if (dir < 0)
		return -1;
	if (mkdirat(dir, last, 0755) < 0)
		return errno == EEXIST ? 0 : file_fail("make the directory", name, err);
	auto_fd int fd = openat(dir, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_named(parent, name, fd))
		return 0;
	if (root_sub(parent, name, &s->root, err) < 0)
		return -1;
	s->lock = TAKE_FD(fd);
	s->parent = parent;
	s->name = str_dup(name);
	return 1;
}

int scratch_make(const struct root *parent, const char *purpose, struct scratch *ret, struct err *err)
{
	struct scratch s = SCRATCH_NONE;
	if (root_mkdir_private(parent, PLACE, err) < 0) // a compile's files are another user's meanwhile, and readable
		return -1;
	sweep_leftovers(parent);
	for (int i = 0, r = 0; i < TRIES; i++) {
		auto_str char *name = str_fmt(PLACE "/%s.%d", purpose, i);
		r = try_name(parent, name, &s, err);
		if (r < 0)
			return -1;
		if (r > 0) {
			*ret = s;
			return 0;
		}
	}
	return err_set(err, EBUSY, "%d directories for '%s' are in use in '%s'", TRIES, purpose, parent->name);
}

void scratch_done(struct scratch *s)
{
	struct err ignored;
	root_done(&s->root);
	if (s->name)
		root_rmtree(s->parent, s->name, &ignored);
	free(s->name);
	if (s->lock >= 0)
		close(s->lock);
	*s = SCRATCH_NONE;
}

int scratch_keep(struct scratch *s, const char *name, struct err *err)
{
	if (syncfs(s->lock) < 0)
		return file_fail("write to the disk", s->name, err);
	if (root_rename(s->parent, s->name, name, err) == 0) {
		free(s->name); // from now on that may be somebody else's, and is not ours to remove
		s->name = NULL;
		return 1;
	}
	return err->code == ENOTEMPTY || err->code == EEXIST ? 0 : -1;
}
