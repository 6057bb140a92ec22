// SPDX-License-Identifier: Apache-2.0
// What happens when the state directory cannot be written (full, over quota, read-only or failing disk) but its
// store has the package: a node without a driver gets it anyway. It is unpacked below run/kmodsmith of the host,
// which is memory, and so is the journal of the run (journal_keep). Replacing a loaded driver waits until the disk
// works.
#pragma once
#include "base/process/node.h"
#include "precompiled/package/unpack.h"

struct state_dir {
	const struct node *node; // borrowed
	struct root root;        // run/kmodsmith, once something was unpacked there
	bool is_allowed;
};
#define STATE_DIR_NONE ((struct state_dir){ .root = ROOT_NONE })
void state_dir_done(struct state_dir *m);
#define auto_state_dir __attribute__((cleanup(state_dir_done)))

#define STATE_DIR_NEXT "look at `df` and `dmesg`, then free space or `mount -o remount,rw`"

// is_allowed: no driver is loaded.
void state_dir_init(struct state_dir *m, const struct node *node, bool is_allowed);
// The write failed because of the disk, not because of the data.
bool state_dir_is_disk_error(const struct err *err);
// unpack_package() in state, or in memory if that cannot be written and memory is allowed. m must outlive the
// package.
int state_dir_stage(struct state_dir *m, const struct layout *from, const struct root *state, struct package *p,
		    struct err *err);
uint64_t state_dir_package_bytes(const struct package *p); // of its files
// E_NO_SPACE unless run/kmodsmith and the memory have this much room.
int state_dir_memory_room(const struct state_dir *m, uint64_t bytes, struct err *err);
// E_NO_SPACE unless the state directory has room for the journal and this much beside it. E_READ_ONLY.
int state_dir_space(const struct root *state, uint64_t bytes, struct err *err);
