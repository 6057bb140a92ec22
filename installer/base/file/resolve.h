// SPDX-License-Identifier: Apache-2.0
// Open a path inside a directory tree that acts as its root; the engine below root.h.
#pragma once

// As openat2(RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS): fd, or -1 with errno. Never creates: O_CREAT is EINVAL.
int resolve_open(int root, const char *path, int flags);
