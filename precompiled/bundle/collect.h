// SPDX-License-Identifier: Apache-2.0
// Bring everything that a site without a network needs into one layout: each driver for each kernel, the headers of
// each kernel and a builder for what must be compiled there, and the payload of each driver, from the first source that
// has it and is believed. All of it is looked for before any of it is taken.
#pragma once
#include "precompiled/bundle/bundle_manifest.h"
#include "precompiled/package/fetch.h"

struct collect_request {
	struct fetch fetch;
	const struct strv *drivers, *kernels, *archs;
	const char *flavour;  // "open", "proprietary" or "both"; NULL = what is offered, at least one
	bool is_with_headers; // of each kernel, too
	bool is_with_payload; // of each driver, too
	bool is_with_builder; // of each architecture, too
	void (*brought)(void *ctx, const struct bundle_entry *p);
	void *ctx;
};
// 0 = into has it all, and the promises say what; 1 = nothing was taken, and ret_missing has "WHAT: why" for each.
int collect_bundle(const struct collect_request *g, const struct layout *into, struct bundle_manifest *ret,
		   struct strv *ret_missing, struct err *err);
