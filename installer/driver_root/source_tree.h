// SPDX-License-Identifier: Apache-2.0
// The driver's sources as an exported root has them at usr/src/nvidia-DRIVER: GDS and gdrcopy run make there to get
// the Module.symvers of exactly these modules (contract 1.8). That writes, for one kernel, so each kernel has its
// own copy, and the payload stays as its digest says. The sources are NVIDIA's, unpatched: finding out which patch
// is needed takes headers, applying it patch(1), and a node with precompiled modules has neither.
//
// Of a payload with sources of both module types only those of the loaded one are shown: gdrcopy's Makefile takes
// the first nv-p2p.c that find(1) meets, and what it compiles with the open ones does not load beside a proprietary
// driver.
#pragma once
#include "base/file/digest.h"
#include "kmod/source/recipe.h"

#define SOURCE_TREE_DIR "usr/src/nvidia-%s" // of a driver version, in a payload and in the exported root

// The name of the tree.
void source_tree_key(const char *payload, const char *release, enum module_type flavour, char ret[DIGEST_HEX + 1]);
// Into the directory KEY of a store of trees, whole or not at all. 1 = made, 0 = was there. E_NO_SPACE: before a byte
// of it was written.
int source_tree_make(const struct root *payload, const char *driver, enum module_type flavour, const struct root *store,
		     const char *key, struct err *err);
