// SPDX-License-Identifier: Apache-2.0
// What an exported driver root is made of: the tree of a payload, and from the machine what its consumers look for
// (contract 1.7, 1.8): dev, proc, the top level of sysfs, the modules of the running kernel, and below run/ the sockets
// of the driver's daemons.
#pragma once
#include "base/file/root.h"

struct root_entry {
	char *path; // in the root: "usr", "lib/modules/6.1.0-9-amd64"
	bool is_link;
	bool is_own;                 // a directory of the root itself, that everybody may write to, as tmp is
	const struct root *from;     // of a mount; borrowed
	char *source;                // below from; where the link leads
	bool is_read_only, is_whole; // whole: with what is mounted below
	bool is_made;                // its source is made when the root is, so that it may be missing before
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
// What is mounted deeper needs a directory to lie on: those that a payload lacks are made in its tree, because what is
// exported of it cannot be written. And on the host the directories below run/ that the payload's daemons write to.
int root_layout_prepare(const struct root *payload, const struct root *host, const char *release, struct err *err);
// In the order of making.
int root_layout_read(const struct root_content *c, struct root_layout *ret, struct err *err);
