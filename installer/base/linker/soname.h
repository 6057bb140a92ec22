// SPDX-License-Identifier: Apache-2.0
// What a dynamic linker checks before it accepts a file as a library.
#pragma once
#include "base/file/root.h"

struct soname {
	char *name;       // DT_SONAME; NULL = it has none
	unsigned machine; // EM_X86_64, ...
	bool is_64;
};
void soname_done(struct soname *s);
#define auto_soname __attribute__((cleanup(soname_done)))

// 1 = a shared object, little-endian; 0 = something else, or damaged: such a file is not a library.
int soname_read(int fd, const char *name, struct soname *ret, struct err *err);

// What a program or library needs to start, and the versions that it has for others.
struct needs {
	char *interpreter;       // NULL = none: static, or a library
	char *runpath;           // DT_RUNPATH or DT_RPATH; NULL = none
	struct strv libraries;   // DT_NEEDED
	struct strv versions;    // of those: "libc.so.6:GLIBC_2.38"
	struct strv definitions; // its own: "GLIBC_2.38"
};
void linker_needs_done(struct needs *n);
#define auto_needs __attribute__((cleanup(linker_needs_done)))

// 1 = a little-endian ELF program or library; 0 = something else, such as a script.
int linker_needs_read(int fd, const char *name, struct needs *ret, struct err *err);
// The first thing that a program lacks in a root which the linker is to start it in without etc/ld.so.cache: a library,
// a version of one ("GLIBC_2.38 of libc.so.6"), or the linker itself; NULL = nothing, or nobody can tell. ret_library
// is the name of the library if all of it is missing, else NULL. What the libraries need in turn comes with them.
int linker_missing(const struct root *root, const struct needs *needs, char **ret, const char **ret_library,
		   struct err *err);
