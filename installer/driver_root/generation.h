// SPDX-License-Identifier: Apache-2.0
// One generation of the exported driver root, prepared beside the place where it will be seen: a small tmpfs with
// the directories, the links and the mounts; nothing is copied. So it is a single mount with others in it: it can be
// put in place by one call, is recognised by its source, and leaves no directory behind.
//
// Each mount in it is made in two steps, through a private one. So its only peers are its own copies, which
// /run/nvidia propagates to the host and to other pods: a mount that shared its events with its source would unmount
// the machine's /dev/pts when it is detached. And the copies are read-only, too.
#pragma once
#include "driver_root/mount_ns.h"
#include "driver_root/root_layout.h"

#define GENERATION_SOURCE "kmodsmith" // of its tmpfs

char *generation_name(const char *base, unsigned number);       // ".driver.7"
unsigned generation_number(const char *base, const char *name); // 0 = not a generation

// After an error of either, generation_remove() removes what was made so far. First the empty root.
int generation_begin(const struct mount_ns *s, const struct root *parent, const char *name, struct err *err);
int generation_make(const struct mount_ns *s, const struct root *parent, const char *name, const struct root_layout *p,
		    struct err *err);
// Removes a prepared one: detaches everything that is mounted in it, then removes it; a directory with a mount on it
// is never entered. 1 = removed, 0 = there was none.
int generation_remove(const struct mount_ns *s, const struct root *parent, const char *name, struct err *err);

// The mount point of the driver root: a directory that keeps its inode for ever, because consumers and the kubelet
// have bound it, and in which nothing is made. Generations are mounted on it.
//
// A new generation is mounted on top of the previous one. That is one call, so there is no moment without a root,
// and it is undone by one call. It propagates to all that have bound the mount point: before there was any root
// because it is mounted on that directory, later because it is mounted on the previous root.
//
// When the new one was measured, the previous one is removed from below it (generation_remove_lower). umount(2)
// reaches only the topmost mount. But the kernel lets an unmount that propagates from another namespace remove a
// mount below another, if nothing else is mounted in it, and puts the upper one in its place (propagate_umount() in
// fs/pnode.c, since Linux 4.12). So what is mounted in the previous one is detached first, then the previous one
// itself, in a copy of the namespace where the upper one has been taken off without propagation. Consumers that had
// bound the previous one keep it below, empty.
//
// After a kill in between both are mounted, and the upper one is complete. The next start takes off all but the
// lowest just before it mounts its own.
struct mount_point {
	const struct mount_ns *mount_ns;
	const struct root *parent;
	const char *name; // in parent
};

// 1 = a generation is mounted there, and has exactly these pieces, each mounted and from the right place; 0 = not, with
// *ret_why (caller frees). Relies on mountinfo and inodes, not on a record (R-D4).
int generation_check(const struct mount_point *s, const struct root_layout *p, char **ret_why, struct err *err);
bool generation_is_settled(const struct mount_point *s, const struct mountinfo *now); // nothing is mounted below it
// made: what is mounted there, with all below. *ret_below: the former root, for generation_remove_lower(); -1 = there
// was none. What others have mounted there is detached before.
int generation_push(const struct mount_point *s, const char *made, int *ret_below, struct err *err);
int generation_remove_lower(const struct mount_point *s, int below, struct err *err);
int generation_pop(const struct mount_point *s, struct err *err); // the topmost, also where it has propagated to
// Detaches all of them, or all until at most one is left, and that is ours. The directory stays. How many are left.
int generation_clear(const struct mount_point *s, bool is_one_kept, struct err *err);
