// SPDX-License-Identifier: Apache-2.0
// Files that are locked by flock(2). That call needs only an open descriptor: any process that can open the file could
// keep us out for ever. So a lock file is private to its owner, and a wait for it ends; the limit is longer than the
// garbage collection of a large store takes.
#pragma once
#include "base/file/root.h"

enum { LOCKFILE_WAIT_MS = 300000 };

// dir/name, for how = O_RDONLY or O_RDWR; made when it is absent, or no regular file (mode 0600). A file that an older
// version made readable for all is closed. fd >= 0, or -1 with errno.
int lockfile_open(int dir, const char *name, int how);

// flock(fd, how) within wait_ms; E_LOCKED when it does not get it.
int lockfile_wait(int fd, int how, int wait_ms, const char *name, struct err *err);

// Both, for locks/NAME of a state directory. The file stays, because another process may be waiting for it.
int lockfile_take(const struct root *state, const char *name, int how, int wait_ms, struct err *err);
