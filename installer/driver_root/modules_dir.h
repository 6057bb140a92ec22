// SPDX-License-Identifier: Apache-2.0
// The lib/modules/RELEASE of an exported driver root: the modules of a package, an index of them and of the kernel's
// own, and empty directories to mount those on (contract 1.8: modprobe works after a chroot into the root).
#pragma once
#include "precompiled/package/package.h"

// release: of the kernel that loads the modules, even if the package was made for another one.
// The name of the tree: the same for the same package and the same kernel tree.
int modules_dir_key(const struct package *p, const char *release, const struct root *host, char ret[DIGEST_HEX + 1],
		    struct err *err);
// p is unpacked. Into the directory KEY of a store of trees, whole or not at all. 1 = made, 0 = was there.
int modules_dir_make(const struct package *p, const char *release, const struct root *host, const struct root *store,
		     const char *key, struct err *err);
