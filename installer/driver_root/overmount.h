// SPDX-License-Identifier: Apache-2.0
// The place where the driver root is seen: a directory that keeps its inode for ever, because consumers and the kubelet
// have it bound, and in which nothing is made. What is seen there is mounted on it.
//
// A generation is mounted on top of the one before. That is one call, so there is no instant without a root; it is
// undone by one call; and it comes to everybody who has bound the place: as a slave before there was any root, because
// it comes with what is mounted on the directory, and later, because it comes with what is mounted on the former root.
//
// When the new one was measured, the former one is taken away from beneath it (overmount_remove_lower). umount(2)
// reaches only what is on top. But the kernel lets an unmount that came from another namespace take what lies beneath a
// mount, if nothing else is mounted in it, and puts the upper one in its stead (propagate_umount() in fs/pnode.c, since
// Linux 4.12). So what is mounted in the former one is detached first, then the former one itself in a copy of the
// namespace, where the upper one has been taken off without telling anybody. Who had bound the former one keeps it
// beneath, empty.
//
// Killed in between, two lie on each other, and the upper one is whole. The next start takes off all but the lowest in
// the call before it mounts its own.
#pragma once
#include "driver_root/mount_ns.h"

// In the root directory parent; source: by which name in mountinfo our own mounts are known.
struct overmount {
	const struct mount_ns *mount_ns;
	const struct root *parent;
	const char *name;
	const char *source;
};

// What is seen there is ours; if not, *ret_why (caller frees).
bool overmount_is_ours(const struct overmount *s, const struct mountinfo *now, char **ret_why);
bool overmount_is_settled(const struct overmount *s, const struct mountinfo *now); // nothing lies beneath it
// made: what is mounted there, with all below. *ret_below: the former root, for overmount_remove_lower(); -1 = there
// was none. What others have mounted there goes before.
int overmount_push(const struct overmount *s, const char *made, int *ret_below, struct err *err);
int overmount_remove_lower(const struct overmount *s, int below, struct err *err);
int overmount_pop(const struct overmount *s, struct err *err);   // the topmost, wherever it has come to from here
int overmount_clear(const struct overmount *s, struct err *err); // all of them; the directory stays
