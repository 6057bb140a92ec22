// SPDX-License-Identifier: Apache-2.0
// Mounts are made in the mount namespace that the host's files belong to. That is ours, unless the host was named as
// the root of another process (--host-root /proc/1/root in a pod): a mount cannot be made from, or onto, another
// namespace. Descriptors opened before stay what they are.
#pragma once
#include "base/sys.h"
#include "node/mount.h"

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

int space_mounts(const struct space *s, struct mounts *ret, struct err *err);
char *space_path(const struct space *s, int fd); // as mounts name it; NULL = cannot be told
