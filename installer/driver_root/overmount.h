// SPDX-License-Identifier: Apache-2.0
// The mount point of the driver root: a directory that keeps its inode for ever, because consumers and the kubelet
// have bound it, and in which nothing is made. Generations are mounted on it.
//
// A new generation is mounted on top of the previous one. That is one call, so there is no moment without a root,
// and it is undone by one call. It propagates to all that have bound the mount point: before there was any root
// because it is mounted on that directory, later because it is mounted on the previous root.
//
// When the new one was measured, the previous one is removed from below it (overmount_remove_lower). umount(2)
// reaches only the topmost mount. But the kernel lets an unmount that propagates from another namespace remove a
// mount below another, if nothing else is mounted in it, and puts the upper one in its place (propagate_umount() in
// fs/pnode.c, since Linux 4.12). So what is mounted in the previous one is detached first, then the previous one
// itself, in a copy of the namespace where the upper one has been taken off without propagation. Consumers that had
// bound the previous one keep it below, empty.
//
// After a kill in between both are mounted, and the upper one is complete. The next start takes off all but the
// lowest just before it mounts its own.
#pragma once
#include "driver_root/mount_ns.h"

// In the root directory parent; source: by which name in mountinfo our own mounts are known.
struct overmount {
	const struct mount_ns *mount_ns;
	const struct root *parent;
	const char *name;
	const char *source;
};

// The topmost mount is ours; if not, *ret_why (caller frees).
bool overmount_is_ours(const struct overmount *s, const struct mountinfo *now, char **ret_why);
bool overmount_is_settled(const struct overmount *s, const struct mountinfo *now); // nothing is mounted below it
// made: what is mounted there, with all below. *ret_below: the former root, for overmount_remove_lower(); -1 = there
// was none. What others have mounted there goes before.
int overmount_push(const struct overmount *s, const char *made, int *ret_below, struct err *err);
int overmount_remove_lower(const struct overmount *s, int below, struct err *err);
int overmount_pop(const struct overmount *s, struct err *err);   // the topmost, also where it has propagated to
int overmount_clear(const struct overmount *s, struct err *err); // all of them; the directory stays
