// SPDX-License-Identifier: Apache-2.0
// What kbuild itself runs and links with, and comes with the headers: its programs (modpost, objtool, ...), the linker
// script of modules, the plugins of gcc. They were compiled on the machine that made the kernel, so they may want
// libraries that are not here. A compile would notice at its first object, or only at its end.
#pragma once
#include "kmod/kernel_tree/tree.h"

// E_HEADERS_NOT_FOUND: the tree is prepared for compiles, but lacks one of these.
int programs_check_tree(const struct tree *tree, struct err *err);
// E_TOOLCHAIN: a program needs what base (NULL = this machine) has not, or gcc refuses a plugin. version: first line of
// the compiler's --version.
int programs_check(const struct tree *tree, const struct root *base, const char *version, struct err *err);
