// SPDX-License-Identifier: Apache-2.0
// From a driver source and a kernel's headers to a proven package. Needs no GPU, no root and no network (R-I2), and is
// the same for the `build` command and for a node that finds no package.
#pragma once
#include "acquire/request.h"
#include "base/formats/json.h"
#include "base/process/node.h"
#include "host/gpu_support.h"
#include "host/module_set.h"
#include "kmod/build/build.h"
#include "kmod/kernel_tree/headers.h"
#include "kmod/module/kernel_abi.h"
#include "kmod/module/modsign.h"
#include "precompiled/oci/layout.h"
#include "precompiled/package/asset.h"

// Nodes that need the same compile agree on one of them (R-A9).
struct compile_gate {
	// Something besides the package that this compile had to make or to fetch, and that the others may need: a core
	// that was compiled, headers that a package manager brought. tree has its content, as asset_create() takes it.
	// It goes with the package, in leave(). May be NULL.
	void (*beside)(void *ctx, const struct root *tree, const struct asset_key *key);
	// 1 = another node has made it, and it is available now; 0 = compile, then leave(). Negative: it failed there,
	// and would fail here.
	int (*enter)(void *ctx, struct err *err);
	void (*tick)(void *ctx);                             // called from time to time during the compile
	void (*leave)(void *ctx, const struct package *made, // NULL = it failed,
		      const struct err *why);                // because of this
	void *ctx;
};

struct compile_request {
	const struct request *asked; // of it the headers, modules, options and key, and the source as a path
	const char *release;         // target kernel
	const char *arch;            // its architecture, as `uname -m`; NULL = what its headers say
	const char *banner;          // of the running kernel when that is the target, else NULL
	const struct source *source; // opened; NULL = that of .asked is opened
	// The root of a builder image, for a machine whose own compilers do not fit; NULL = there is none. compiler:
	// the one that is wanted, as toolchain_wanted() names it; NULL = not known.
	int (*builder)(void *ctx, const char *compiler, struct root *ret, struct err *err);
	void *builder_ctx;
	const struct headers_offer *offer; // asked when neither has them; NULL = none
	const struct core_offer *cores;    // of an open release, that others have compiled; NULL = none
	enum module_type flavour;          // decided; MODULE_TYPE_AUTO = by the source and
	const struct gpus *gpus;           // these; NULL = none known
	const struct node *node;           // .state: header store and scratch; must be writable
	bool is_core_only;                 // compile_cores() and compile_core_plan() set it
	// Where to put the package; asked when there is one.
	int (*output)(void *ctx, const struct layout **ret, struct err *err);
	void *output_ctx;
	const struct compile_gate *gate; // NULL = no other node compiles the same
};

struct compile_report { // what the package's key does not say
	char *headers_from;
	struct build_counts counts;
};
void compile_report_done(struct compile_report *r);
#define auto_compile_report __attribute__((cleanup(compile_report_done)))

// 1 = another node has made it (request->gate), ret is unchanged.
// Phases reported: headers, source, core (of an open release), compile, sign, prove, package. ret is unpacked: its
// directory is what the compiler made. On failure output is unchanged; the compiler's full output is in state/logs.
int compile_package(const struct compile_request *request, struct progress *progress, struct package *ret,
		    struct compile_report *report, struct err *err);

// The key that the package would have, without compiling it; and every refusal that needs no compile. request: with an
// opened source and a flavour.
int compile_key(const struct compile_request *request, struct package_key *ret, struct err *err);

// The cores of an open release with the compiler of the kernel, for a package of each (asset.h). Of the request gate
// and output are not used; phases reported: headers, source, core. E_SOURCE: there is no core to compile.
struct compiled_cores {
	struct scratch stage;
	struct root dir; // has key.core->file of each key
	struct tree tree;
	struct build_outcome outcome;
};
#define COMPILED_CORES_NONE \
	((struct compiled_cores){ .stage = SCRATCH_NONE, .dir = ROOT_NONE, .tree = { .root = ROOT_NONE } })
int compile_cores(const struct compile_request *request, struct progress *progress, struct compiled_cores *ret,
		  struct err *err);
struct asset_key compile_core_asset(const struct core_key *key); // borrows from the key
void compile_cores_done(struct compiled_cores *c);
#define auto_compiled_cores __attribute__((cleanup(compile_cores_done)))
// For a plan: where the cores of request->source would come from, in words. NULL = none is needed, or the compiler is
// not known. Looks at what request->cores has, and fetches nothing.
char *compile_core_plan(const struct compile_request *request, const struct tree *tree);

#define COMPILE_LOGS "logs" // below the state directory: DRIVER-FLAVOUR-RELEASE.log, what the compiler said

// The kernel that modules are made for or checked against: its headers and what it demands of a module.
//
// files (package files as a user typed them) and nothing else when there are any; else the host's tree, then what is
// offered (NULL = nothing is), the header store below state, and what is offered last. banner: of the running kernel
// when release is that one, else NULL. Errors as headers_find().
int compile_target_headers(const struct root *host, const struct root *state, const struct strv *files,
			   const struct headers_offer *offer, const char *release, const char *banner, struct tree *ret,
			   char **ret_from, struct err *err);
int compile_check_arch(const struct tree *tree, const char *arch, struct err *err); // E_ARCH; NULL = any
int compile_target_abi(const struct tree *tree, struct kernel_abi *ret, struct err *err);
// Attaches to a package what it was built from (build_inputs_predicate; NULL = not known), and what is in it.
int compile_describe(const struct layout *output, const struct package *p, const json_t *predicate,
		     const struct module_set *set, struct err *err);
