// SPDX-License-Identifier: Apache-2.0
// What is mounted where: the text of proc/PID/mountinfo, see proc(5).
#pragma once
#include "base/file/root.h"

struct mount {
	unsigned id, parent;   // parent: what it lies on or in
	unsigned peers;        // of those that pass their events to each other; 0 = it is private or a slave
	unsigned major, minor; // of the file system
	char *root;            // the directory of the file system that is seen; its present path, also after a rename
	char *point;           // where, from the root directory of the process
	char *source;          // its name: a device, or what whoever mounted it has said
	bool is_read_only;
};
struct mounts {
	struct mount *items;
	size_t count;
};
void mounts_parse(const char *mountinfo, struct mounts *ret); // adds; lines that are none are dropped
void mounts_done(struct mounts *m);
#define auto_mounts __attribute__((cleanup(mounts_done)))

const struct mount *mounts_at(const struct mounts *m,
			      const char *point);               // the topmost; NULL = nothing is mounted there
size_t mounts_depth(const struct mounts *m, const char *point); // so many lie there on each other
const struct mount *mounts_find(const struct mounts *m, unsigned id);
bool path_is_below(const char *path, const char *dir); // or the same

// A directory as its file system knows it, whatever it is called in a mount namespace.
struct spot {
	unsigned major, minor;
	char *path;
};
void spot_done(struct spot *s);
#define auto_spot __attribute__((cleanup(spot_done)))
void mounts_spot(const struct mounts *m, const char *path, struct spot *ret); // of a directory that is no mount point
// The directory that it lies on. False = what that belongs to is not to be seen.
bool mounts_under(const struct mounts *m, const struct mount *at, struct spot *ret);
bool spot_same(const struct spot *a, const struct spot *b);
bool mounts_show(const struct mounts *m, const struct spot *spot); // it, or something below, is mounted
