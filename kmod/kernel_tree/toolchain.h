// SPDX-License-Identifier: Apache-2.0
// The compiler that fits a kernel tree (R-B1): the same gcc major that built the kernel, or clang where the kernel is
// clang's. Decided by the tree alone, never by `uname -r` or by what `cc` happens to be.
//
// It is this machine's, or that of a builder root: the root file system of an image that has compilers, unpacked
// somewhere. Then every program of it runs in the sandbox, on top of that root, and no record shows where the root
// is.
//
// For a kernel of another architecture than this program's it is the cross compiler, as Debian and Fedora name it, with
// the binutils of its prefix. Clang and its tools are the same for all.
#pragma once
#include "kmod/kernel_tree/tree.h"

struct toolchain {
	char *cc;      // absolute path
	char *version; // first line of `cc --version`
	bool is_clang;
	char *make;              // absolute path
	char *strip;             // absolute path; llvm-strip for clang
	char *ccache;            // absolute path; NULL = absent
	char *prefix;            // of gcc's binutils: "aarch64-linux-gnu-"; "" = they are this architecture's own
	char *path;              // the PATH that it was found in
	const struct root *base; // the builder root that all paths are in, borrowed; NULL = this machine
};

// path: colon-separated directories, NULL = PROC_PATH. base: a builder root, NULL = this machine. E_TOOLCHAIN names
// what is wanted and every compiler found, or says that the tree's own programs cannot run here.
int toolchain_find(const struct tree *tree, const char *path, const struct root *base, struct toolchain *ret,
		   struct err *err);
// The compiler that fits, by the name that distributions give the program: "gcc-12", "clang-16"; NULL = the tree does
// not tell. Caller frees.
char *toolchain_wanted(const struct tree *tree);
void toolchain_binutils(const struct toolchain *toolchain, struct strv *argv);        // as variables of make
char *toolchain_program(const struct root *base, const char *path, const char *name); // NULL = none
void toolchain_done(struct toolchain *toolchain);
#define auto_toolchain __attribute__((cleanup(toolchain_done)))
