// SPDX-License-Identifier: Apache-2.0
// What to build of a driver source: flavours, module sets, and the driver x kernel pairs that are known not to compile.
#pragma once
#include "base/file/root.h"

struct tree;

enum flavour {
	FLAVOUR_AUTO = 0, // as a requested: decide; as a fact: not known
	FLAVOUR_OPEN = 1, // bits, so that a set of them is an unsigned
	FLAVOUR_PROPRIETARY = 2,
};

const char *flavour_name(enum flavour flavour);       // "auto", "open", "proprietary"
bool flavour_parse(const char *s, enum flavour *ret); // those names; false = none of them

// The module set for a requested such as {"uvm", "nvidia-drm"} (R-P10): full or short names ("uvm" = "nvidia-uvm"),
// together with what those need ("nvidia", and "nvidia-modeset" for "nvidia-drm"), in load order. An empty requested
// means every module of the source. dir is the flavour's directory of the source (source.h). E_USAGE names what the
// source lacks.
int recipe_modules(const struct root *dir, const struct strv *requested, struct strv *ret, struct err *err);

// Number of C files that the modules are made of, by the source's own lists; the total of a build's progress.
size_t recipe_objects(const struct root *dir, const struct strv *modules);

// 0 = not known to fail. E_SOURCE_KERNEL names the reason and the first driver that works (R-B2), in milliseconds:
// it looks into a few header files of the tree and compiles nothing. Pairs that a built-in patch repairs are no
// refusals.
int recipe_check(const char *driver_version, enum flavour flavour, const struct tree *tree, struct err *err);
