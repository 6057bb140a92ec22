// SPDX-License-Identifier: Apache-2.0
#include "base/own.h"

#include "base/subtree.h"

#include <errno.h>
#include <fcntl.h>

static int give(void *uid, int dir, const char *name, const struct stat *st)
{
	(void)st;
	return fchownat(dir, name, *(uid_t *)uid, *(uid_t *)uid, AT_SYMLINK_NOFOLLOW);
}

int own_tree(const struct root *dir, uid_t uid, struct err *err)
{
	return subtree_each(dir->fd, ".", give, &uid) < 0 ? err_set(err, errno, "give '%s' to uid %u", dir->name, uid) :
							    0;
}
