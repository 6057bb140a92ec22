// SPDX-License-Identifier: Apache-2.0
// Whether there is a driver for a kernel before it runs (R-F2), from a package, a driver source, or both.
#pragma once
#include "acquire/request.h"
#include "base/process/sys.h"
#include "host/gpu_support.h"
#include "kmod/kernel_tree/headers.h"
#include "kmod/source/source.h"
#include "precompiled/package/package.h"

enum verdict {
	VERDICT_OK = 0,           // the package was made for this kernel
	VERDICT_COMPATIBLE = 10,  // made for another one, every CRC is equal, and the policy allows it
	VERDICT_NEEDS_BUILD = 20, // and everything for the build is available
	VERDICT_IMPOSSIBLE = 30,  // and why
};                                // the exit status of `check`, published

struct check_request {
	const struct request *asked; // its headers, flavour, modules, reuse and options
	const char *release;
	const char *arch;                  // the kernel's, as `uname -m`; NULL = what its headers say
	const char *banner;                // that the headers' kernel must have; NULL = not known
	const struct headers_offer *offer; // asked for headers that are not on this machine; NULL = none
	const struct package *package;     // NULL = none
	const struct source *source;       // NULL = none
	const struct gpus *gpus;
	const struct node
		*node; // .sys: whose kernel is asked about signatures, if it is the running one; NULL = is not
};

struct check_result {
	enum verdict verdict;
	int code; // error code that stands in the way; 0 = none
	char *reason;
	bool is_untried;      // needs a build, and the kernel is newer than any that the driver was compiled for
	char *evidence;       // what it was compared with
	const char *compared; // proof_basis_name() of the package's proof; NULL = there was none
};

int check_kernel(const struct check_request *request, struct check_result *ret, struct err *err);
void check_result_done(struct check_result *r);
#define auto_check_result __attribute__((cleanup(check_result_done)))
