// SPDX-License-Identifier: Apache-2.0
// Objects of earlier compiles, kept by ccache where the machine (or the builder image) has it: a build that was killed
// goes on (R-H2), and another version of the driver costs what is new in it.
//
// ccache runs in the sandbox, so its directory belongs to the sandbox's user and a source could leave objects there
// that a later build of the same state directory takes. Who may have a source compiled into a kernel module may do
// more than that; sources that do not trust each other need state directories of their own, or --no-cache.
#pragma once
#include "kmod/sandbox.h"
#include "kmod/toolchain.h"

// ccache's own file is not read (no HOME has one). The compiler is known by its content, because that of a builder root
// has any time. Directories do not matter, since no debug information is made.
#define OBJECTS_LOG "objects.log"
#define OBJECTS_ENVIRONMENT                                                                                       \
	("CCACHE_DIR=" SANDBOX_CACHE), ("CCACHE_CONFIGPATH=" SANDBOX_CACHE "/ccache.conf"), "CCACHE_NOHASHDIR=1", \
		"CCACHE_COMPILERCHECK=content", "CCACHE_MAXSIZE=512M", "CCACHE_MAXFILES=20000",                   \
		"CCACHE_SLOPPINESS=include_file_mtime,include_file_ctime",                                        \
		("CCACHE_STATSLOG=" SANDBOX_WORK "/" OBJECTS_LOG)

// The directory of objects in cache; ROOT_NONE when there is no ccache or the directory cannot be made.
void objects_open(const struct root *cache, const struct toolchain *tools, struct root *ret);
// How many compiles of the job's make were answered from the cache.
size_t objects_count(const struct root *job);
