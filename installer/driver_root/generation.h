// SPDX-License-Identifier: Apache-2.0
// One generation of the exported driver root, prepared beside the place where it will be seen: a small tmpfs with
// the directories, the links and the mounts; nothing is copied. So it is a single mount with others in it: it can be
// put in place by one call, is recognised by its source, and leaves no directory behind.
//
// Each mount in it is made in two steps, through a private one. So its only peers are its own copies, which
// /run/nvidia propagates to the host and to other pods: a mount that shared its events with its source would unmount
// the machine's /dev/pts when it is detached. And the copies are read-only, too.
#pragma once
#include "driver_root/overmount.h"
#include "driver_root/root_layout.h"

#define GENERATION_SOURCE "kmodsmith" // of its tmpfs

char *generation_name(const char *base, unsigned number);       // ".driver.7"
unsigned generation_number(const char *base, const char *name); // 0 = not a generation
// Names in parent of all generations, also of incomplete ones.
int generation_list(const struct root *parent, const char *base, struct strv *ret, struct err *err);

// After an error of either, generation_remove() removes what was made so far. First the empty root.
int generation_begin(const struct mount_ns *s, const struct root *parent, const char *name, struct err *err);
int generation_make(const struct mount_ns *s, const struct root *parent, const char *name, const struct root_layout *p,
		    struct err *err);
// 1 = parent/name is a generation, alone in its place, and has exactly these pieces, each mounted and from the right
// place; 0 = not, with *ret_why (caller frees). Relies on mountinfo and inodes, not on a record (R-D4).
int generation_check(const struct mount_ns *s, const struct root *parent, const char *name, const struct root_layout *p,
		     char **ret_why, struct err *err);

// Removes a prepared one: detaches everything that is mounted in it, then removes it; a directory with a mount on it
// is never entered. 1 = removed, 0 = there was none.
int generation_remove(const struct mount_ns *s, const struct root *parent, const char *name, struct err *err);
