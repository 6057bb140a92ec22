// SPDX-License-Identifier: Apache-2.0
// What an exported driver root has at lib/modules/RELEASE: the modules of a package, an index that knows them and the
// kernel's own, and empty directories for those (contract 1.8: modprobe works after a chroot into the root).
#pragma once
#include "precompiled/package/package.h"

// release: of the kernel that the modules are loaded by, whatever the package was made for.
// Names the tree: made of the same package for the same kernel tree, it is the same.
int modules_dir_key(const struct package *p, const char *release, const struct root *host, char ret[DIGEST_HEX + 1],
		    struct err *err);
// p is unpacked. Into the directory KEY of a store of trees, whole or not at all. 1 = made, 0 = was there.
int modules_dir_make(const struct package *p, const char *release, const struct root *host, const struct root *store,
		     const char *key, struct err *err);
