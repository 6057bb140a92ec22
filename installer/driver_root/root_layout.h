// SPDX-License-Identifier: Apache-2.0
// The contents of an exported driver root: the tree of a payload, and from the machine what its consumers look for
// (contract 1.7, 1.8): dev, proc, the top level of sysfs, the modules of the running kernel, and the sockets of the
// driver's daemons below run/.
#pragma once
#include "base/file/root.h"

struct root_entry {
	char *path; // in the root: "usr", "lib/modules/6.1.0-9-amd64"
	bool is_link;
	bool is_own;                 // a world-writable directory of the root itself, as tmp is
	const struct root *from;     // of a mount; borrowed
	char *source;                // below from; where the link leads
	bool is_read_only, is_whole; // whole: with what is mounted below
	bool is_made;                // its source is made together with the root and may be missing before
	uint64_t dev, ino;           // of what is seen there
};
struct root_layout {
	struct root_entry *items;
	size_t count;
};
void root_layout_done(struct root_layout *p);
#define auto_root_layout __attribute__((cleanup(root_layout_done)))

struct root_content {
	const struct root *payload, *host;
	const struct root *modules; // what belongs at lib/modules/RELEASE; NULL = nothing
	const struct root *sources; // at usr/src/nvidia-DRIVER, where make writes to (GDS); NULL = nothing
	const char *release, *driver;
};
// Makes the directories that mounts need and the payload lacks, in the payload's tree, because it is exported
// read-only; and on the host those below run/ that the payload's daemons write to.
int root_layout_prepare(const struct root *payload, const struct root *host, const char *release, struct err *err);
// In the order of making.
int root_layout_read(const struct root_content *c, struct root_layout *ret, struct err *err);
