// SPDX-License-Identifier: Apache-2.0
// The way back: which driver comes in again when a change fails, and its module files, whole and at hand before
// anything is touched. It needs no network: the files are those of the node's store, or the host's own.
#pragma once
#include "journal/journal.h"
#include "transaction/apply.h"

struct rollback {
	struct driver_state driver; // .version NULL = there is no way back
	struct package package;     // of the store, or none
	const struct root *shared;  // its files, where the target's package is the same; NULL = unpacked on its own
	struct strv files;          // of driver.modules, in one of these, or else below the host root
};
#define ROLLBACK_NONE ((struct rollback){ .package = PACKAGE_NONE })
void rollback_done(struct rollback *b);
#define auto_rollback __attribute__((cleanup(rollback_done)))

// What the kernel has now; of a change that was cut off in this boot, what it had before that; with no driver loaded,
// the last good one. Never the target itself. What cannot be brought back is told (progress_note) and is none.
// have: the target's package, which may be the same (other parameters); it outlives ret.
void rollback_prepare(const struct apply *a, const struct journal *j, const struct driver_state *target,
		      const struct package *have, struct rollback *ret);
// Its modules, where they are not loaded, with the parameters they had. 1 = some were loaded, 0 = all were
// there; or the first failure.
int rollback_load(const struct apply *a, const struct rollback *b, struct err *err);
