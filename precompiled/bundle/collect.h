// SPDX-License-Identifier: Apache-2.0
// Copies everything an offline site needs into one layout: each driver for each kernel, the headers of each kernel, a
// builder for local compiles, the payload and the cores of each driver, each from the first trusted source that has it.
// Everything is located before anything is downloaded.
#pragma once
#include "precompiled/bundle/bundle_manifest.h"
#include "precompiled/package/fetch.h"

struct collect_request {
	struct fetch fetch;
	const struct strv *drivers, *kernels, *archs;
	const char *flavour;  // "open", "proprietary" or "both"; NULL = whatever is available, at least one
	bool is_with_headers; // of each kernel
	bool is_with_payload; // of each driver
	bool is_with_builder; // of each architecture
	bool is_with_cores;   // of each driver, for whatever compilers the sources have them
	void (*brought)(void *ctx, const struct bundle_entry *p);
	void *ctx;
};
// 0 = into has everything, and ret lists it; 1 = nothing was copied, and ret_missing has "WHAT: why" for each gap.
int collect_bundle(const struct collect_request *g, const struct layout *into, struct bundle_manifest *ret,
		   struct strv *ret_missing, struct err *err);
