// SPDX-License-Identifier: Apache-2.0
// The compiler that fits a kernel tree (R-B1): the same gcc major that built the kernel, or clang where the kernel is
// clang's. Decided by the tree alone, never by `uname -r` or by what `cc` happens to be.
#pragma once
#include "kmod/tree.h"

struct toolchain {
	char *cc;      // absolute path
	char *version; // first line of `cc --version`
	unsigned major;
	bool is_clang;
	char *make;  // absolute path
	char *strip; // absolute path; llvm-strip for clang
	char *path;  // the PATH that it was found in
};

// path: colon-separated directories, NULL = PROC_PATH. E_TOOLCHAIN names what is wanted and every compiler found.
int toolchain_find(const struct tree *tree, const char *path, struct toolchain *ret, struct err *err);
void toolchain_done(struct toolchain *toolchain);
#define auto_toolchain __attribute__((cleanup(toolchain_done)))
