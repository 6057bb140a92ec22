// SPDX-License-Identifier: Apache-2.0
// One kernel of a prebuild_run().
#pragma once
#include "next_kernel/prebuild.h"

struct ahead {
	struct prebuild *p;
	const struct coming_kernel *kernel;
	struct forecast_kernel *entry;
	char *banner;                  // of its image; NULL = not known
	char build_id[DIGEST_HEX + 1]; // of that
	struct obtain obtain;
};
#define AHEAD_NONE ((struct ahead){ .obtain = OBTAIN_NONE })
void ahead_open(struct prebuild *p, size_t at, struct ahead *ret);
void ahead_done(struct ahead *a);
#define auto_ahead __attribute__((cleanup(ahead_done)))

// Afresh: what was found for another question must not answer this one.
void ahead_open_obtain(struct ahead *a);
// Does the package, which is unpacked, fit the kernel? Negative: E_ABI, ..., or what is wrong with the kernel's own
// files.
int ahead_prove(const struct ahead *a, const struct package *package, struct err *err);
// One that is not what it says must not be found again.
void ahead_put_aside(struct ahead *a, const struct package *package, const struct err *why);
// The package of the store or the sources, proven and in the store. 1 = there is one; 0 = nobody has one that fits:
// why.
int ahead_obtain(struct ahead *a, struct err *why);
// What a compile would come to, without it: the entry's verdict.
void ahead_judge(struct ahead *a);
void ahead_compile(struct ahead *a);
