// SPDX-License-Identifier: Apache-2.0
// The way back: which driver comes in again when a change fails, and its module files, whole and at hand before
// anything is touched. It needs no network: the files are those of the node's store, or the host's own.
#pragma once
#include "journal/journal.h"
#include "transaction/apply.h"

struct back {
	struct driver driver;      // .version NULL = there is no way back
	struct package package;    // of the store, or none
	const struct root *shared; // its files, where the target's package is the same; NULL = unpacked on its own
	struct strv files;         // of driver.modules, in one of these, or else below the host root
};
#define BACK_NONE ((struct back){ .package = PACKAGE_NONE })
void back_done(struct back *b);
#define auto_back __attribute__((cleanup(back_done)))

// What the kernel has now; of a change that was cut off in this boot, what it had before that; with no driver loaded,
// the last good one. Never the target itself. What cannot be brought back is told (watch_note) and is none.
// have: the target's package, which may be the same (other parameters); it outlives ret.
void back_prepare(const struct apply *a, const struct journal *j, const struct driver *target,
		  const struct package *have, struct back *ret);
// Its modules, where they are not loaded, with the parameters they had. 1 = some were loaded, 0 = all were
// there; or the first failure.
int back_load(const struct apply *a, const struct back *b, struct err *err);
