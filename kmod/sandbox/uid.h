// SPDX-License-Identifier: Apache-2.0
// A user of its own for each compile. The kernel lets processes of one uid read and change each other, through
// /proc/PID/root and by ptrace, also from another pod: so nobody else on the machine may have it, `nobody` least of
// all.
#pragma once
#include "base/core/err.h"

#include <sys/types.h>

// A uid, and a gid of the same number, that this user namespace has and that no process has at the moment; out of a
// range that the distributions give to nobody. Who is not root, or is root only in a user namespace of one user
// (`unshare --map-root-user`), gets its own. E_SANDBOX when all that were tried are in use, or that one user is root.
int uid_choose(uid_t *ret, struct err *err);
