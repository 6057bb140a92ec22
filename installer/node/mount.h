// SPDX-License-Identifier: Apache-2.0
// What is mounted where: the text of proc/PID/mountinfo, see proc(5).
#pragma once
#include "base/root.h"

struct mount {
	unsigned major, minor; // of the file system
	char *root;            // the directory of the file system that is seen; its present path, also after a rename
	char *point;           // where, from the root directory of the process
	bool is_read_only;
};
struct mounts {
	struct mount *items; // a mount comes after the one that it lies on or in
	size_t count;
};
void mounts_parse(const char *mountinfo, struct mounts *ret); // adds; lines that are none are dropped
void mounts_done(struct mounts *m);
#define auto_mounts __attribute__((cleanup(mounts_done)))

const struct mount *mounts_at(const struct mounts *m,
			      const char *point);      // the topmost; NULL = nothing is mounted there
bool path_is_below(const char *path, const char *dir); // or the same

// A directory as its file system knows it, whatever it is called in a mount namespace.
struct spot {
	unsigned major, minor;
	char *path;
};
void spot_done(struct spot *s);
#define auto_spot __attribute__((cleanup(spot_done)))
void mounts_spot(const struct mounts *m, const char *path, struct spot *ret); // of a directory that is no mount point
bool mounts_show(const struct mounts *m, const struct spot *spot);            // it, or something below, is mounted
