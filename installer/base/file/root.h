// SPDX-License-Identifier: Apache-2.0
// Files below a root directory.
//
// No function takes an absolute host path as a string. Two roots exist: `host` (the machine's files, for instance
// /proc/1/root) and `kern` (where proc, sys and dev are seen). --root DIR sets both, so that a recorded machine is a
// folder. Paths are resolved inside the root: "..", absolute and relative links never leave it (openat2
// RESOLVE_IN_ROOT); where the kernel lacks openat2 or seccomp forbids it, a walk in user space gives the same results
// (KMODSMITH_OPENAT2=no forces it).
//
// Functions that look at something return 1 = found, 0 = absent, negative = failure.
#pragma once
#include "base/core/err.h"

#include <sys/stat.h>

struct root {
	int fd;
	char *name; // for messages and for programs that need a path
};

int root_init(struct root *root, const char *dir, struct err *err);
// A directory below as a root.
int root_make(const char *dir, struct root *ret, struct err *err); // as a user typed it; made with its parents
int root_sub(const struct root *parent, const char *path, struct root *ret, struct err *err);
// 1 = we run in a container that sees the machine's processes: *ret is the root of process 1, another directory than
// our own, in another mount namespace. 0 = our own root is the machine's, or the machine's cannot be seen: a chroot
// alone or a mount namespace alone is not a container.
int root_outside(struct root *ret, struct err *err);
void root_done(struct root *root);
#define auto_root __attribute__((cleanup(root_done)))
#define ROOT_NONE ((struct root){ .fd = -1 })

int root_open(const struct root *root, const char *path, int flags, struct err *err); // fd >= 0
// The open directory that holds path's last component, and that component. Caller closes.
int root_parent(const struct root *root, const char *path, char **ret_name, struct err *err); // fd >= 0
char *root_path(const struct root *root, const char *path); // name + path, for argv and messages only

// A NUL is added; ret_len may be NULL.
int root_read(const struct root *root, const char *path, char **ret, size_t *ret_len, struct err *err);
// Reads a file that others fill: more than `most` bytes are E_TOO_LARGE.
int root_read_most(const struct root *root, const char *path, size_t most, char **ret, size_t *ret_len,
		   struct err *err);
// Reads a file of a directory that anybody fills, where one bad entry must stop nothing: what is no regular file is as
// good as absent. A link to /dev/null masks a file on purpose; of anything else skipped gets a sentence (NULL = it is
// not asked for).
int root_read_entry(const struct root *root, const char *path, size_t most, char **ret, struct strv *skipped,
		    struct err *err);
// The trimmed text of a one-value file.
int root_line(const struct root *root, const char *path, char **ret, struct err *err);
// Of a link: the link itself.
int root_stat(const struct root *root, const char *path, struct stat *ret, struct err *err);
bool root_exists(const struct root *root, const char *path); // follows links
int root_readlink(const struct root *root, const char *path, char **ret, struct err *err);
int root_list(const struct root *root, const char *path, struct strv *ret, struct err *err); // names, sorted
// Lists a directory that others fill: more than `most` names are E_TOO_LARGE.
int root_list_most(const struct root *root, const char *path, size_t most, struct strv *ret, struct err *err);

// Events of a directory, as inotify(7) has them; the same one twice is one. 1 = watched, 0 = absent.
int root_watch(const struct root *root, const char *path, int inotify, uint32_t events, struct err *err);

int root_mkdirs(const struct root *root, const char *path, mode_t mode, struct err *err);
// A directory closed to other users (0700), also when an older version left it open. E_RIGHTS: another user owns it.
int root_mkdir_private(const struct root *root, const char *path, struct err *err);
int root_create(const struct root *root, const char *path, struct err *err); // fd >= 0: a new or emptied file, 0644
// Whole or not at all: temporary name, fsync, rename, fsync of the directory. Parents must exist.
int root_write(const struct root *root, const char *path, const void *data, size_t len, mode_t mode, struct err *err);
// The same without the syncs: for what need not survive a power cut, such as all of run/.
int root_put(const struct root *root, const char *path, const void *data, size_t len, mode_t mode, struct err *err);
// As root_put(), of a text that holds now: where it cannot be written the old one goes, because it holds no longer.
int root_put_or_remove(const struct root *root, const char *path, const char *text, struct err *err); // 0644
int root_symlink(const struct root *root, const char *target, const char *path, struct err *err);     // replaces a link
int root_rename(const struct root *root, const char *from, const char *to, struct err *err);
int root_unlink(const struct root *root, const char *path, struct err *err); // 1 = removed, 0 = was absent
int root_rmtree(const struct root *root, const char *path, struct err *err); // 1 = removed, 0 = was absent
