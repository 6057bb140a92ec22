// SPDX-License-Identifier: Apache-2.0
// Objects of earlier compiles, kept by ccache where the machine (or the builder image) has it: a build that was killed
// resumes (R-H2), and a repeated one costs next to nothing.
//
// ccache runs in the sandbox, so code of the source can leave any object under any name. Each combination of
// source, kernel tree, compiler and variables therefore has a directory of its own, and the sandbox sees no other one:
// only the same compile reuses the objects of a compile. The configuration is the environment's; no file is
// read.
#pragma once
#include "base/file/digest.h"
#include "kmod/kernel_tree/toolchain.h"
#include "kmod/sandbox/sandbox.h"

enum { OBJECTS_KEPT = 4 }; // directories, those that were used last

// The compiler is known by its content, because that of a builder root has any time. Directories do not matter, since
// no debug information is made.
#define OBJECTS_LOG "objects.log"
#define OBJECTS_ENVIRONMENT                                                                     \
	("CCACHE_DIR=" SANDBOX_CACHE), ("CCACHE_CONFIGPATH=/dev/null"), "CCACHE_NOHASHDIR=1",   \
		"CCACHE_COMPILERCHECK=content", "CCACHE_MAXSIZE=512M", "CCACHE_MAXFILES=20000", \
		"CCACHE_SLOPPINESS=include_file_mtime,include_file_ctime",                      \
		("CCACHE_STATSLOG=" SANDBOX_WORK "/" OBJECTS_LOG)

// The directory of objects in cache for the compile of this digest, and a lock that keeps it ours until it is closed.
// ROOT_NONE and -1 when there is no ccache, the directory cannot be made, or another process compiles the same.
void objects_open(const struct root *cache, const char *digest, const struct toolchain *tools, struct root *ret,
		  int *ret_lock);
// How many compiles of the job's make were answered from the cache.
size_t objects_count(const struct root *job);
