// SPDX-License-Identifier: Apache-2.0
// To whom files belong.
#pragma once
#include "base/file/root.h"

// dir and everything in it; of links the link itself. Takes CAP_CHOWN, nothing else where the files are ours or
// become it.
int chown_tree(const struct root *dir, uid_t uid, struct err *err);

// The directory path below dir, created when it is absent, closed to other users (0700) however an
// older version left it. E_RIGHTS when another user owns it.
int chown_private(const struct root *dir, const char *path, struct err *err);
