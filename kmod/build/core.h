// SPDX-License-Identifier: Apache-2.0
// The core of NVIDIA's open modules: the part below src/ that knows nothing of a kernel. NVIDIA's open source release
// has it as sources, every other form of the driver as one object for nvidia and one for nvidia-modeset.
//
// It is compiled by the release's own Makefiles with the compiler of the modules, in a sandbox that sees nothing but
// the release: no kernel headers, no network. What they would write of this machine into it (user, host, date) is
// set to constants, and paths are relative to the sandbox, so the same release, compiler and architecture give the same
// bytes.
//
// Once: a core is kept in the cache (cores/KEY-DIGEST). The key is made of the release's content, compiler,
// architecture and variables; a file without its digest is not used. A compile that was killed goes on with the
// objects that ccache kept (objects.h).
#pragma once
#include "kmod/build/jobs.h"
#include "kmod/kernel_tree/toolchain.h"
#include "kmod/source/source.h"

struct core_request {
	const struct source *source;
	enum module_type flavour;
	const struct strv *modules; // from recipe_modules; the cores of others are not compiled
	const char *arch;           // as `uname -m`
	const struct toolchain *tools;
	const struct root *cache; // NULL = nothing is kept
	const struct root *work;  // scratch; what is made in it is removed at the end
	const struct jobs_facts *facts;
	unsigned jobs;
	long deadline_ms;                                       // on the monotonic clock
	int log_fd;                                             // -1 = nowhere
	void (*progress)(void *ctx, size_t done, size_t total); // objects; may be NULL
	void *ctx;
};

struct core_outcome {
	struct strv made, kept;       // modules whose core was compiled, and those whose core the cache had
	size_t objects, objects_kept; // of the first; of these objects, from the cache
	unsigned jobs;
	long peak_kib;
};
void core_outcome_done(struct core_outcome *o);
#define auto_core_outcome __attribute__((cleanup(core_outcome_done)))

bool core_is_needed(const struct source *source, enum module_type flavour);
// E_TOOLCHAIN names a program that only the core needs and that the toolchain lacks, such as the C++ compiler for that
// of nvidia-modeset. modules: from recipe_modules.
int core_check(const struct source *source, enum module_type flavour, const struct strv *modules,
	       const struct toolchain *tools, struct err *err);
// Puts the core of each module into `into`, a copy of the module type's directory. E_BUILD with the compiler's first
// error; E_BUILD_OOM after retries with half the jobs; E_BUILD_TIMEOUT.
int core_make(const struct core_request *request, const struct root *into, struct core_outcome *ret, struct err *err);
