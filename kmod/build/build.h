// SPDX-License-Identifier: Apache-2.0
// Compile a driver's modules for a kernel tree.
//
// Checks that cost milliseconds come first (known-bad pair, real-time kernel, compiler), then one probe compile with
// the tree's own flags, then two canaries, then the core of an open release (core.h), then the build, all inside the
// sandbox. The same source, tree, compiler and
// patches give the same bytes, wherever and whenever (R-C2). Output is stripped of debug information and has no BTF
// (R-B6).
#pragma once
#include "kmod/build/core.h"
#include "kmod/source/build_options.h"
#include "kmod/source/patch.h"
#include "kmod/source/source.h"

struct build_request {
	const struct tree *tree;
	const struct source *source;
	enum module_type flavour;
	const struct strv *modules; // full names, from recipe_modules; NULL or empty = all of the source
	struct build_options options;
	const struct root *kern;        // for cgroup and processor numbers
	const char *path;               // where compilers are looked for; NULL = PROC_PATH
	const struct root *base;        // builder root whose compilers are taken; NULL = this machine's own
	const struct root *cache;       // what earlier builds left (probes.h); NULL = nothing is kept
	const struct core_offer *cores; // what others compiled of an open release (core.h); NULL = nothing
	bool is_core_only;         // of an open release; output/name has the cores then, below their modules' names
	const struct root *work;   // scratch; what the build makes in it is removed at the end
	const struct root *output; // receives the modules
	const char *name;          // directory in output that appears whole or not at all; replaced when it exists
	int log_fd;                // the whole output of make goes here; -1 = nowhere
	void (*progress)(void *ctx, size_t done, size_t total); // objects; may be NULL
	// The compile of a release's core begins (NULL) or has ended, before that of the modules; may be NULL.
	void (*core)(void *ctx, const struct core_outcome *made);
	void *ctx;
};

struct build_counts {
	unsigned jobs;
	long peak_kib;                    // largest resident set of one process
	size_t objects, objects_kept;     // in all; from the cache, as far as the tool that keeps them tells
	size_t probes_kept, probes_asked; // answered from the cache, by the compiler; both 0 = not counted
	size_t forked;                    // compiles by fork servers (kmod/forkserver/forkserver.h)
};

struct build_outcome {
	char *driver_version;
	enum module_type flavour;
	char *release;
	char build_id[DIGEST_HEX + 1]; // of the kernel; "" = not derivable
	char *compiler;                // first line of its --version
	struct patches patches;        // the ones applied, besides the source's own
	struct strv files;             // "nvidia.ko", ... in load order, below output/name
	struct build_counts counts;
	struct core_outcome core; // of an open release; its keys borrow from this and from the tree
	char *not_forked;         // why no fork servers were used; NULL = they were
};

// E_SOURCE_KERNEL, E_TOOLCHAIN, E_CONFTEST_BROKEN, E_PATCH, E_SANDBOX before the compile; E_BUILD with the first real
// error's file, line and text; E_BUILD_OOM after one retry with half the jobs, with the cgroup's numbers (R-M1);
// E_BUILD_TIMEOUT. On failure output is as it was.
int build_run(const struct build_request *request, struct build_outcome *ret, struct err *err);
// What build_run would report, as far as it is known before a compiler runs: the inputs, and every refusal that needs
// no compile; with is_core_only the keys of the cores, too. The parts of the request about the compile itself are not
// used.
int build_preflight(const struct build_request *request, struct build_outcome *ret, struct err *err);
void build_outcome_free(struct build_outcome *done);
#define auto_build_outcome __attribute__((cleanup(build_outcome_free)))
