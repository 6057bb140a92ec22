// SPDX-License-Identifier: Apache-2.0
// Whether a package that was made for another kernel fits this one, without a compile.
//
// CRCs see every type that an import touches. They do not see inline functions, per-cpu layout made by macros, and what
// the configuration says of the processor: so the proof alone decides only where a policy lets it, and never across
// compilers.
#pragma once
#include "host/module_set.h"
#include "kmod/module/kernel_abi.h"
#include "precompiled/package/package.h"

enum reuse {
	REUSE_OFF,
	REUSE_SERIES, // of a kernel of the same distribution, upstream x.y and kind: 6.1.0-55-cloud-amd64 for -56
	REUSE_ON,     // of any kernel
};
bool reuse_parse(const char *text, enum reuse *ret); // "off", "series", "on"
const char *reuse_name(enum reuse r);

// The target kernel; NULL = unknown, which is never equal.
struct reuse_kernel {
	const char *release;
	const char *distro;   // kmod/kernel_tree/distro.h
	const char *compiler; // version text
};

// Returns why a package of another kernel must not be used, judged by its labels and, with set, by modules that
// contradict them (another kernel, or no object from the kernel's compiler). NULL = the proof decides. Caller frees.
char *reuse_why_not(enum reuse policy, const struct package_key *key, const struct reuse_kernel *k,
		    const struct module_set *set);
