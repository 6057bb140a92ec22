// SPDX-License-Identifier: Apache-2.0
// How a user wants a driver compiled: passed on as it is, from the command to make. Which modules, and of which module
// type, is not here: that is decided on the way, by the source and the GPUs.
#pragma once
#include "base/file/root.h"

struct tree;

struct build_options {
	const struct root *patches; // a user's directory of patches; NULL = only the built-in ones
	unsigned jobs;              // 0 = choose
	unsigned timeout_s;         // of the whole compile; 0 = one hour
	bool is_rt_allowed;         // --allow-rt (R-B8)
	bool is_cache_off;          // --no-cache: cores are compiled, too
};

// Whether they allow a build for this kernel at all. E_SOURCE_KERNEL.
int build_options_check(const struct build_options *options, const struct tree *tree, struct err *err);
