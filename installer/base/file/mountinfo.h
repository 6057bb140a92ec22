// SPDX-License-Identifier: Apache-2.0
// What is mounted where: the text of proc/PID/mountinfo, see proc(5).
#pragma once
#include "base/core/str.h"

struct mount {
	unsigned id, parent;   // parent: the mount that it is on or in
	unsigned peers;        // its peer group (shared:N); 0 = private or slave
	unsigned major, minor; // of the file system
	char *root;            // the directory of the file system that is seen; its present path, also after a rename
	char *point;           // where, from the root directory of the process
	char *options;         // "ro,relatime": of the mount, not of the file system
	char *source;          // a device, or the name that was given to mount(2)
};
struct mountinfo {
	struct mount *items;
	size_t count;
};
void mountinfo_parse(const char *mountinfo, struct mountinfo *ret); // adds; lines of another form are dropped
void mountinfo_done(struct mountinfo *m);
#define auto_mountinfo __attribute__((cleanup(mountinfo_done)))

// The topmost mount there; NULL = nothing is mounted there.
const struct mount *mountinfo_at(const struct mountinfo *m, const char *point);
size_t mountinfo_depth(const struct mountinfo *m, const char *point); // mounts stacked there
const struct mount *mountinfo_find(const struct mountinfo *m, unsigned id);
bool mountinfo_has_option(const struct mount *m, const char *option); // one without a value
bool mountinfo_path_is_below(const char *path, const char *dir);      // or the same

// A directory as its file system knows it, whatever it is called in a mount namespace.
struct fs_dir {
	unsigned major, minor;
	char *path;
};
void mountinfo_fs_dir_done(struct fs_dir *s);
#define auto_fs_dir __attribute__((cleanup(mountinfo_fs_dir_done)))
// Of a directory that is not a mount point.
void mountinfo_locate(const struct mountinfo *m, const char *path, struct fs_dir *ret);
// The directory that it is mounted on. False = the mount of that directory is not visible.
bool mountinfo_under(const struct mountinfo *m, const struct mount *at, struct fs_dir *ret);
bool mountinfo_fs_dir_same(const struct fs_dir *a, const struct fs_dir *b);
bool mountinfo_shows(const struct mountinfo *m, const struct fs_dir *fs_dir); // it, or something below, is mounted
