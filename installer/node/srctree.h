// SPDX-License-Identifier: Apache-2.0
// The driver's sources as an exported root has them at usr/src/nvidia-DRIVER: with make there, GDS and gdrcopy get the
// Module.symvers of exactly these modules (contract 1.8). That writes, for one kernel, so each kernel has a copy of its
// own, and the payload stays what its digest says. The sources are as NVIDIA ships them: whether a patch is needed is
// told by headers, it is applied by patch(1), and a node that takes precompiled modules has neither.
#pragma once
#include "base/digest.h"
#include "base/root.h"

bool srctree_is_in(const struct root *payload, const char *driver);
// Names the tree.
void srctree_key(const char *payload, const char *release, char ret[DIGEST_HEX + 1]);
// Into the directory KEY of a store of trees, whole or not at all. 1 = made, 0 = was there. E_NO_SPACE: before a byte
// of it was written.
int srctree_make(const struct root *payload, const char *driver, const struct root *store, const char *key,
		 struct err *err);
