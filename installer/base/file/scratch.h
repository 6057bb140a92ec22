// SPDX-License-Identifier: Apache-2.0
// Directories for work that is useless once the process is gone. Each is locked by its owner, so that the leftovers of
// a killed process can be told from directories in use; the next process removes them.
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
// It becomes a lasting directory of its parent, complete even after a power cut. 1 = kept, 0 = another one was faster.
int scratch_keep(struct scratch *s, const char *name, struct err *err);
#define auto_scratch __attribute__((cleanup(scratch_done)))

// dir and everything in it belong to uid; of links the link itself. Takes CAP_CHOWN, nothing else where the files are
// ours or become ours.
int scratch_chown(const struct root *dir, uid_t uid, struct err *err);
