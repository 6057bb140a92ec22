// SPDX-License-Identifier: Apache-2.0
#include "base/file/chown.h"

#include "base/file/file.h"
#include "base/file/subtree.h"

#include <errno.h>
#include <fcntl.h>

static int chown_entry(void *uid, int dir, const char *name, const struct stat *st)
{
	(void)st;
	return fchownat(dir, name, *(uid_t *)uid, *(uid_t *)uid, AT_SYMLINK_NOFOLLOW);
}

int chown_tree(const struct root *dir, uid_t uid, struct err *err)
{
	return subtree_each(dir->fd, ".", chown_entry, &uid) < 0 ?
		       err_set(err, errno, "give '%s' to uid %u", dir->name, uid) :
		       0;
}

int chown_private(const struct root *dir, const char *path, struct err *err)
{
	if (root_mkdirs(dir, path, 0700, err) < 0)
		return -1;
	auto_fd int fd = root_open(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, err);
	struct stat st;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", path, err);
	if (st.st_uid != geteuid())
		return err_set(err, E_RIGHTS, "'%s/%s' belongs to uid %u", dir->name, path, st.st_uid);
	return st.st_mode & 077 && fchmod(fd, 0700) < 0 ? file_fail("close to others", path, err) : 0;
}
