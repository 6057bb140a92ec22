// SPDX-License-Identifier: Apache-2.0
// A kernel's build tree (headers), seen inside a root: the host's files, or headers unpacked into the store.
//
// All paths are those of the kernel's own file system ("/usr/src/linux-headers-K"), free of links, to be looked up in
// root; the compile sees the tree at exactly these paths (sandbox.h).
#pragma once
#include "base/file/digest.h"
#include "base/file/root.h"

struct tree {
	struct root root; // owned
	char *release;    // `uname -r` of the kernel
	char *arch;       // `uname -m` of the kernel: x86_64, aarch64, ppc64le
	char *build;      // the configured tree: make's O=
	char *source;     // the tree that holds the Makefile and include/linux; often the same as build
	struct strv dirs; // every directory that a compile needs: build, source, and where scripts and tools lead
	char *config;     // text of .config
	char *compiler;   // CONFIG_CC_VERSION_TEXT, "" = not stated
	unsigned compiler_major; // of it; 0 = unknown
	bool is_clang;           // the kernel was built with clang
	bool is_rt;              // PREEMPT_RT (R-B8)
	bool has_dwarf_crcs;     // the CRCs of exports are computed from an object's debug information
	char *banner; // "Linux version ...", as /proc/version shows it, without the newline; NULL = not derivable
	char build_id[DIGEST_HEX + 1]; // SHA-256 of the banner; "" = not derivable
	char *symvers;                 // path of Module.symvers; NULL = absent
};

// Look in root for the tree of release: /lib/modules/K/build, /usr/src/linux-headers-K, /usr/src/kernels/K; links may
// be absolute or relative and never leave the root (R-A7). Debian's split trees are followed through the `include` line
// of their Makefile and the `source` link. E_HEADERS_NOT_FOUND names the searched places and what an incomplete tree
// lacks; E_HEADERS_MISMATCH names the wanted and the found release (R-A6). banner: text of the kernel's /proc/version,
// to tell builds of one release apart where the tree's banner is derivable (E_HEADERS_MISMATCH names both); NULL = any
// build.
int tree_open(const struct root *root, const char *release, const char *banner, struct tree *ret, struct err *err);
void tree_done(struct tree *tree);
#define auto_tree __attribute__((cleanup(tree_done)))

// Releases of the trees that root seems to have, sorted.
int tree_releases(const struct root *root, struct strv *ret, struct err *err);

bool tree_is_set(const struct tree *tree, const char *option); // CONFIG_<option>=y

// Does a file below the source or the build tree match an extended regular expression? 1 yes, 0 no or no such file.
int tree_matches(const struct tree *tree, const char *file, const char *regex, struct err *err);

// What an ELF file was compiled for, as `uname -m`; NULL = it is none, or of an architecture that is not served.
const char *tree_file_arch(const struct root *root, const char *path);
// kbuild's programs (fixdep, modpost) come with the headers, compiled for the machines that the distribution expects to
// build modules on; NULL = not known.
const char *tree_scripts_arch(const struct tree *tree);
const char *tree_own_arch(void); // of the programs that can run here, as `uname -m`

// Hex SHA-256 of a "Linux version ..." line without blanks and newlines at its ends: two kernels may share a release,
// never this.
void kernel_build_id(const char *banner, char ret[DIGEST_HEX + 1]);
