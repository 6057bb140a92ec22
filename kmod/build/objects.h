// SPDX-License-Identifier: Apache-2.0
// Objects of earlier compiles, kept by ccache where the machine (or the builder image) has it: a build that was killed
// resumes (R-H2), and a repeated one costs next to nothing.
//
// ccache runs in the sandbox, so code of the source can leave any object under any name. Each combination of source,
// kernel tree, compiler and variables therefore has a directory of its own, and the sandbox sees no other one: only the
// same compile reuses the objects of a compile. The compiler is identified by its content, because that of a builder
// root has any mtime. Directories do not matter, since no debug information is made.
#pragma once
#include "kmod/build/make.h"

#define OBJECTS_LOG "objects.log" // in the job

// A directory for the objects of exactly this compile (same: digest of all that decides it), and a lock on it until
// objects_close(). Nothing is kept when there is no ccache, the directory cannot be made, or another process compiles
// the same.
void objects_open(struct compile *c, const struct root *cache, const char *same);
void objects_close(struct compile *c);
// How many compiles of the job's make were answered from the cache.
size_t objects_count(const struct root *job);
