// SPDX-License-Identifier: Apache-2.0
// One kernel of a prebuild_run().
#pragma once
#include "next_kernel/prebuild.h"

struct prebuild_kernel {
	struct prebuild *p;
	const struct boot_candidate *kernel;
	struct kernel_report_entry *entry;
	char *banner;                  // of its image; NULL = not known
	char build_id[DIGEST_HEX + 1]; // of that
	struct acquire acquire;
};
#define PREBUILD_KERNEL_NONE ((struct prebuild_kernel){ .acquire = ACQUIRE_NONE })
void prebuild_kernel_open(struct prebuild *p, size_t at, struct prebuild_kernel *ret);
void prebuild_kernel_done(struct prebuild_kernel *a);
#define auto_prebuild_kernel __attribute__((cleanup(prebuild_kernel_done)))

// Afresh: what was found for another question must not answer this one.
void prebuild_open_acquire(struct prebuild_kernel *a);
// Does the package, which is unpacked, fit the kernel? Negative: E_ABI, ..., or what is wrong with the kernel's own
// files.
int prebuild_prove(const struct prebuild_kernel *a, const struct package *package, struct err *err);
// One that is not what it says must not be found again.
void prebuild_quarantine(struct prebuild_kernel *a, const struct package *package, const struct err *why);
// The package of the store or the sources, proven and in the store. 1 = there is one; 0 = nobody has one that fits:
// why.
int prebuild_acquire(struct prebuild_kernel *a, struct err *why);
// What a compile would come to, without it: the entry's verdict.
void prebuild_judge(struct prebuild_kernel *a);
void prebuild_compile(struct prebuild_kernel *a);
