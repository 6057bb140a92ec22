// SPDX-License-Identifier: Apache-2.0
// A directory and everything below it, however deep: without recursion, and with a handful of open files. Links are
// never followed, and a directory that is moved away meanwhile ends the walk with ESTALE.
#pragma once
#include <sys/stat.h>

// Removes dir/name, whatever it is. A mount point in it is EBUSY, and the mount is not entered.
// 1 = removed, 0 = was absent, -1 = errno says why; what could be removed until then is gone.
int subtree_remove(int dir, const char *name);

// Calls each() for dir/name and for all that is below it, directories before what they hold; st is of the entry itself.
// -1 = errno, of the walk or as each() has left it.
int subtree_each(int dir, const char *name, int (*each)(void *ctx, int dir, const char *name, const struct stat *st),
		 void *ctx);
