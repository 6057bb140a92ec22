// SPDX-License-Identifier: Apache-2.0
// Mounts are made in the mount namespace that the host's files belong to. That is ours, unless the host was named as
// the root of another process (--host-root /proc/1/root in a pod): a mount cannot be made from, or onto, another
// namespace. Descriptors opened before stay what they are.
#pragma once
#include "base/file/mountinfo.h"
#include "base/process/sys.h"

struct mount_ns {
	const struct root *kern;
	const struct sys *sys;
	int proc;                  // descriptor of kern's proc
	int own, root, cwd, other; // namespaces and directories to come back to; own < 0: the host's files are in ours
};
#define MOUNT_NS_NONE ((struct mount_ns){ .proc = -1, .own = -1, .root = -1, .cwd = -1, .other = -1 })
int mount_ns_open(const struct root *host, const struct root *kern, const struct sys *sys, struct mount_ns *ret,
		  struct err *err);
void mount_ns_done(struct mount_ns *s); // back to where it was opened, too
#define auto_mount_ns __attribute__((cleanup(mount_ns_done)))

// Into a copy of the namespace, until mount_ns_done(ret): what is mounted here is there, too, and what is detached
// there is detached here, as far as mounts are shared. at: a directory of it; its copy becomes the working directory,
// so that what is under another mount can be reached. Killed before it is left, it goes without a trace.
int mount_ns_copy(const struct mount_ns *s, int at, struct mount_ns *ret, struct err *err);

int mount_ns_mounts(const struct mount_ns *s, struct mountinfo *ret, struct err *err);
char *mount_ns_path(const struct mount_ns *s, int fd); // as mounts name it; NULL = cannot be told
// Of the mount that an open file was reached by.
int mount_ns_mount_id(const struct mount_ns *s, int fd, unsigned *ret, struct err *err);
// By its name in mountinfo.
int mount_ns_open_path(const struct mount_ns *s, const char *path, struct err *err);
