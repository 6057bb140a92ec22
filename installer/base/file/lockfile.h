// SPDX-License-Identifier: Apache-2.0
// Files that are locked by flock(2). That call asks for nothing but an open descriptor: whoever else can open the file
// could keep us out for ever. So a lock file is its owner's alone, and a wait for it has an end, which is beyond what a
// collection of a large store takes.
#pragma once
#include "base/file/root.h"

enum { LOCKFILE_WAIT_MS = 300000 };

// dir/name, for how = O_RDONLY or O_RDWR; made when it is absent (mode 0600). What an older version made for all to
// read is closed to them. fd >= 0, or -1 with errno.
int lockfile_open(int dir, const char *name, int how);

// flock(fd, how) within wait_ms; E_LOCKED when it does not get it.
int lockfile_wait(int fd, int how, int wait_ms, const char *name, struct err *err);

// Both, for locks/NAME of a state directory, which stays there: whoever waits for it has opened the one that there is.
int lockfile_take(const struct root *state, const char *name, int how, int wait_ms, struct err *err);
