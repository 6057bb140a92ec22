// SPDX-License-Identifier: Apache-2.0
// Mounts are made in the mount namespace of the host's files. That is ours, unless the host was given as the root of
// another process (--host-root /proc/1/root in a pod): a mount cannot be made from, or onto, another namespace.
// Descriptors opened before stay valid.
#pragma once
#include "base/file/mountinfo.h"
#include "base/process/node.h"

struct mount_ns {
	const struct root *kern;
	const struct sys *sys;
	int proc;                  // descriptor of kern's proc
	int own, root, cwd, other; // namespaces and directories to come back to; own < 0: the host's files are in ours
};
#define MOUNT_NS_NONE ((struct mount_ns){ .proc = -1, .own = -1, .root = -1, .cwd = -1, .other = -1 })
int mount_ns_open(const struct node *node, struct mount_ns *ret, struct err *err);
void mount_ns_done(struct mount_ns *s); // also returns to where it was opened
#define auto_mount_ns __attribute__((cleanup(mount_ns_done)))

// Enters a copy of the namespace, until mount_ns_done(ret): mounts and unmounts propagate between the two as far as
// mounts are shared. at: a directory of it; its copy becomes the working directory, so that what is under another
// mount can be reached. If we are killed in it, it leaves no trace.
int mount_ns_copy(const struct mount_ns *s, int at, struct mount_ns *ret, struct err *err);

int mount_ns_mounts(const struct mount_ns *s, struct mountinfo *ret, struct err *err);
// As mountinfo names it: of fd, or of name in the directory fd. NULL = unknown.
char *mount_ns_path(const struct mount_ns *s, int fd, const char *name);

// What still uses a directory that is about to be removed: mounts of it in any mount namespace, and processes in it.
// mountinfo shows the present path of a mount's root, so a consumer that bound an earlier generation is found even
// after that was renamed.
struct mount_users {
	struct mountinfo *items; // of each mount namespace that has a process, once
	size_t count;
	struct strv namespaces; // their names, parallel to items
	struct strv places;     // root and working directories of processes, each once
	bool is_partial;        // something could not be read
};
int mount_users_read(const struct root *kern, struct mount_users *ret, struct err *err);
void mount_users_done(struct mount_users *v);
#define auto_mount_users __attribute__((cleanup(mount_users_done)))

// path: the same directory as our mount namespace names it.
bool mount_users_has(const struct mount_users *v, const struct fs_dir *fs_dir, const char *path);
