// SPDX-License-Identifier: Apache-2.0
// Directories for work that nobody needs when the process is gone: each is locked by its owner, so that what a killed
// process left behind can be told from what another one still uses, and is removed by the next to come.
#pragma once
#include "base/file/root.h"

struct scratch {
	struct root root;
	int lock;                  // keeps the directory ours
	const struct root *parent; // borrowed
	char *name;                // below parent
};
#define SCRATCH_NONE ((struct scratch){ .root = ROOT_NONE, .lock = -1 })

// A new, empty directory .tmp/PURPOSE.N below parent, which must outlive it.
int scratch_make(const struct root *parent, const char *purpose, struct scratch *ret, struct err *err);
void scratch_done(struct scratch *s); // removes it
// It becomes a directory of its parent that stays, whole also after a power cut. 1 = kept, 0 = somebody was faster.
int scratch_keep(struct scratch *s, const char *name, struct err *err);
#define auto_scratch __attribute__((cleanup(scratch_done)))
