// SPDX-License-Identifier: Apache-2.0
// To whom files belong.
#pragma once
#include "base/file/root.h"

// dir and everything in it; of links the link itself. Takes CAP_CHOWN, nothing else where the files are ours or
// become it.
int chown_tree(const struct root *dir, uid_t uid, struct err *err);

// The directory path below dir, made when it is absent, as one that nobody else reads or enters (0700), however an
// older version left it. E_RIGHTS when it is somebody else's.
int chown_private(const struct root *dir, const char *path, struct err *err);
