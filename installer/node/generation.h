// SPDX-License-Identifier: Apache-2.0
// One generation of the exported driver root: a plain directory beside the place where it is seen, on the same file
// system, so that one rename exchanges the two (for that neither may be a mount point). What is in it are mounts and
// links; nothing is copied.
//
// Each mount is made in two steps, through a private one. So it is nobody's peer but that of its own copies, which
// /run/nvidia passes on to the host and to other pods: a mount that shared its events with its source would take
// /dev/pts of the machine along when it is detached. And the copies are read-only, too.
#pragma once
#include "node/pieces.h"
#include "node/space.h"

char *generation_name(const char *base, unsigned number);       // ".driver.7"
unsigned generation_number(const char *base, const char *name); // 0 = it is none
// Names in parent of all generations, and of what was left of one.
int generation_list(const struct root *parent, const char *base, struct strv *ret, struct err *err);

// An error leaves what was made so far to generation_remove().
int generation_make(const struct space *s, const struct root *parent, const char *name, const struct pieces *p,
		    struct err *err);
// 1 = parent/name has exactly these pieces, each mounted and from the right place; 0 = not, with *ret_why (caller
// frees). Believes mountinfo and inodes, no record (R-D4).
int generation_check(const struct space *s, const struct root *parent, const char *name, const struct pieces *p,
		     char **ret_why, struct err *err);

// What is mounted on parent/name itself, as NVIDIA's container does: it would hide every generation, and a mount point
// cannot be exchanged. 1 = something was, 0 = nothing.
int generation_uncover(const struct space *s, const struct root *parent, const char *name, struct err *err);
// Detaches all that is mounted in it, then removes; a directory on which something is mounted is never entered.
// 1 = removed, 0 = there was none.
int generation_remove(const struct space *s, const struct root *parent, const char *name, struct err *err);
