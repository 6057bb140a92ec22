// SPDX-License-Identifier: Apache-2.0
// What is mounted where: the text of proc/PID/mountinfo, see proc(5).
#pragma once
#include "base/core/str.h"

struct mount {
	unsigned id, parent;   // parent: what it lies on or in
	unsigned peers;        // of those that pass their events to each other; 0 = it is private or a slave
	unsigned major, minor; // of the file system
	char *root;            // the directory of the file system that is seen; its present path, also after a rename
	char *point;           // where, from the root directory of the process
	char *options;         // "ro,relatime": of the mount, not of the file system
	char *source;          // its name: a device, or what whoever mounted it has said
};
struct mountinfo {
	struct mount *items;
	size_t count;
};
void mountinfo_parse(const char *mountinfo, struct mountinfo *ret); // adds; lines of another form are dropped
void mountinfo_done(struct mountinfo *m);
#define auto_mountinfo __attribute__((cleanup(mountinfo_done)))

const struct mount *mountinfo_at(const struct mountinfo *m,
				 const char *point);                  // the topmost; NULL = nothing is mounted there
size_t mountinfo_depth(const struct mountinfo *m, const char *point); // so many lie there on each other
const struct mount *mountinfo_find(const struct mountinfo *m, unsigned id);
bool mountinfo_has_option(const struct mount *m, const char *option); // of those without a value
bool mountinfo_path_is_below(const char *path, const char *dir);      // or the same

// A directory as its file system knows it, whatever it is called in a mount namespace.
struct fs_dir {
	unsigned major, minor;
	char *path;
};
void mountinfo_fs_dir_done(struct fs_dir *s);
#define auto_fs_dir __attribute__((cleanup(mountinfo_fs_dir_done)))
void mountinfo_locate(const struct mountinfo *m, const char *path,
		      struct fs_dir *ret); // of a directory that is no mount point
// The directory that it lies on. False = what that belongs to is not to be seen.
bool mountinfo_under(const struct mountinfo *m, const struct mount *at, struct fs_dir *ret);
bool mountinfo_fs_dir_same(const struct fs_dir *a, const struct fs_dir *b);
bool mountinfo_shows(const struct mountinfo *m, const struct fs_dir *fs_dir); // it, or something below, is mounted
