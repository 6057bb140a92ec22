// SPDX-License-Identifier: Apache-2.0
// Packages for the other kernels of this machine, while the running one serves (R-F1): the same order as an install's
// (the store, the sources that were named, a compile), each package proven against its kernel before it counts. The
// running driver is neither touched nor checked.
//
//   ready again        a package that was proven for the same files is not proven again
//   will not change    a compile that failed for a reason of the inputs is not repeated until one of them changes
//   may pass           is tried again, after a quarter of an hour, then twice as long each time, at most a day
//   removed            packages of a kernel that was removed since the last run leave the store
#pragma once
#include "acquire/acquire.h"
#include "acquire/compile.h"
#include "acquire/request.h"
#include "host/facts.h"
#include "kmod/source/source.h"
#include "next_kernel/boot_candidates.h"
#include "next_kernel/kernel_report.h"

struct prebuild_scope {
	const struct strv *only;  // releases; empty = all that there are
	const struct strv *roots; // see boot_candidates_read()
	unsigned limit;           // compiles for so many kernels at most, in their order
	uint64_t store_limit;
	bool is_gated;
	// Decides which of several nodes compiles, before each compile. acquire: of this kernel. NULL, or a NULL
	// result: this node.
	const struct compile_gate *(*share)(void *ctx, struct acquire *acquire, const struct source *source,
					    enum module_type flavour);
	void *share_ctx;
};
enum { PREBUILD_LIMIT = 4, PREBUILD_TIMEOUT_S = 4 * 60 * 60 };

struct prebuild {
	const struct request *request; // its driver is known; .modules empty = all of the source
	const struct prebuild_scope *scope;
	const struct node *node;
	const struct facts *facts;
	const struct fetch *fetch;          // sources; borrowed
	struct kernel_report kernel_report; // the result; on disk after every change
	// Of prebuild_run():
	struct kernel_report before;
	struct boot_candidates boot_candidates;
	struct strv kept; // whose packages stay
	struct scratch source_work;
	char *stored_source; // of the stored payload, unpacked when a kernel needs it; NULL = none
	bool is_stored_asked;
	struct source source; // opened when a kernel needs it
	struct err unopened;  // why it could not be
	char inputs[DIGEST_HEX + 1], source_digest[DIGEST_HEX + 1];
};
#define PREBUILD_NONE ((struct prebuild){ .source_work = SCRATCH_NONE, .source = { .root = ROOT_NONE } })

struct prebuild_drivers { // versions of drivers that could be meant, borrowed; NULL = none
	const char *requested, *of_source, *of_image;
	const struct modules *loaded;
	const char *last_good;
};
// Sets the driver of request: the requested one, else that of the named source, of what an image carries, of what this
// node runs, of what served it last. Its module type, where none is requested, is that of the loaded modules if they
// are of the same version. E_USAGE when no driver is known.
int prebuild_choose(const struct prebuild_drivers *known, struct request *request, struct err *err);

// 1 = every kernel is ready, 0 = one is not. A failure of one kernel is its verdict; negative: nothing could be
// checked, or the report not written. E_NOT_FOUND: a kernel of scope.only does not exist.
int prebuild_run(struct prebuild *p, struct err *err);
void prebuild_done(struct prebuild *p);
