// SPDX-License-Identifier: Apache-2.0
// What to build of a driver source: module sets, and the driver x kernel pairs that are known not to compile.
#pragma once
#include "base/file/root.h"
#include "kmod/source/module_type.h"

struct source;
struct tree;

// The module set for a request such as {"uvm", "nvidia-drm"} (R-P10): full or short names ("uvm" = "nvidia-uvm"),
// together with what those need ("nvidia", and "nvidia-modeset" for "nvidia-drm"), in load order. An empty request
// means every module of the source. dir: of struct source. E_USAGE names what the source lacks.
int recipe_modules(const struct root *dir, const struct strv *requested, struct strv *ret, struct err *err);

// Number of C files that the modules are made of, by the source's own lists; the total of a build's progress.
size_t recipe_objects(const struct root *dir, const struct strv *modules);

// "newer than any kernel this driver was compiled for here: 7.3": a compile may fail, though nothing is known against
// it. NULL = the kernel is not newer. driver: NULL = any. Caller frees.
char *recipe_newer_kernel(const char *driver, const char *release);

// 0 = not known to fail. E_SOURCE_KERNEL names the reason and the first driver that works (R-B2), in milliseconds:
// it looks into a few files of the tree and compiles nothing. Pairs that a built-in patch repairs are not refused, nor
// those of which only a module fails that is not in set (as for recipe_modules).
int recipe_check(const struct source *source, enum module_type flavour, const struct strv *set, const struct tree *tree,
		 struct err *err);
