// SPDX-License-Identifier: Apache-2.0
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static int give_entry(int dir, const char *name, uid_t uid);

static int give_below(int fd, uid_t uid)
{
	struct root here = { .fd = fd, .name = (char[]){ "" } };
	auto_strv struct strv names = { 0 };
	struct err err;
	if (root_list(&here, ".", &names, &err) < 0) {
		errno = EIO;
		return -1;
	}
	for (size_t i = 0; i < names.count; i++)
		if (give_entry(fd, names.items[i], uid) < 0)
			return -1;
	return 0;
}

static int give_entry(int dir, const char *name, uid_t uid)
{
	struct stat st;
	if (fchownat(dir, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode))
		return 0;
	auto_fd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -1 : give_below(fd, uid);
}

int own_tree(const struct root *dir, uid_t uid, struct err *err)
{
	return give_entry(dir->fd, ".", uid) < 0 ? err_set(err, errno, "give '%s' to uid %u", dir->name, uid) : 0;
}
