// SPDX-License-Identifier: Apache-2.0
// Mounts are made in the mount namespace that the host's files belong to. That is ours, unless the host was named as
// the root of another process (--host-root /proc/1/root in a pod): a mount cannot be made from, or onto, another
// namespace. Descriptors opened before stay what they are.
#pragma once
#include "base/process/sys.h"
#include "host/mountinfo.h"

struct space {
	const struct root *kern;
	const struct sys *sys;
	int proc;                  // descriptor of kern's proc
	int own, root, cwd, other; // namespaces and directories to come back to; own < 0: the host's files are in ours
};
#define SPACE_NONE ((struct space){ .proc = -1, .own = -1, .root = -1, .cwd = -1, .other = -1 })
int space_open(const struct root *host, const struct root *kern, const struct sys *sys, struct space *ret,
	       struct err *err);
void space_done(struct space *s); // back to where it was opened, too
#define auto_space __attribute__((cleanup(space_done)))

// Into a copy of the namespace, until space_done(ret): what is mounted here is there, too, and what is detached there
// is detached here, as far as mounts are shared. at: a directory of it; its copy becomes the working directory, so that
// what is under another mount can be reached. Killed before it is left, it goes without a trace.
int space_copy(const struct space *s, int at, struct space *ret, struct err *err);

int space_mounts(const struct space *s, struct mounts *ret, struct err *err);
char *space_path(const struct space *s, int fd); // as mounts name it; NULL = cannot be told
// Of the mount that an open file was reached by.
int space_mount_id(const struct space *s, int fd, unsigned *ret, struct err *err);
// By its name in mountinfo.
int space_open_path(const struct space *s, const char *path, struct err *err);
