// SPDX-License-Identifier: Apache-2.0
// To whom files belong.
#pragma once
#include "base/root.h"

// dir and everything in it; of links the link itself. Takes CAP_CHOWN, nothing else where the files are ours or
// become it.
int own_tree(const struct root *dir, uid_t uid, struct err *err);
