// SPDX-License-Identifier: Apache-2.0
// Open descriptors: whole reads, whole writes, copies.
#pragma once
#include "base/core/err.h"

// The failure that errno says, as "WHAT 'NAME': reason"; a full disk or quota is E_NO_SPACE. Always -1.
int file_fail(const char *what, const char *name, struct err *err);
// To the end of the file; works for proc and sysfs files that state no size. A NUL is added after the content.
int file_read(int fd, const char *name, char **ret, size_t *ret_len, struct err *err);
int file_read_most(int fd, const char *name, size_t most, char **ret, size_t *ret_len, struct err *err); // E_TOO_LARGE
int file_write(int fd, const char *name, const void *data, size_t len, struct err *err);
// Read-only private mapping of a regular file; *ret is NULL for an empty one.
int file_map(int fd, const char *name, const void **ret, size_t *ret_len, struct err *err);
void file_unmap(const void *map, size_t len);
int file_copy(int from, int to, const char *name, struct err *err);
// For arguments that a user typed: a path relative to the working directory, outside of any root.
int file_open_arg(const char *path, int flags, struct err *err);
void file_add_stamp(char **text, const char *path); // of such a path: what another file in its place changes
