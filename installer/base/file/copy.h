// SPDX-License-Identifier: Apache-2.0
// Whole directory trees: copy one, name its content.
#pragma once
#include "base/file/digest.h"
#include "base/file/root.h"

// Copy the directory from/path to to/name (which must not exist): directories, files and links; modes, not owners or
// times. Several names of one file stay that.
int copy_tree(const struct root *from, const char *path, const struct root *to, const char *name, struct err *err);

// One file, directory or link; otherwise the same.
int copy_entry(const struct root *from, const char *path, const struct root *to, const char *name, struct err *err);

// SHA-256 over the sorted names, kinds, executable bits and contents of everything below the directory.
int copy_digest(const struct root *root, char ret[DIGEST_HEX + 1], struct err *err);
// The same without this entry of the directory itself.
int copy_digest_without(const struct root *root, const char *name, char ret[DIGEST_HEX + 1], struct err *err);
// The same of a part, without executable bits: counts is asked what of each counts. Of a directory COPY_NOTHING leaves
// out all that is in it.
enum copy_counts { COPY_CONTENT, COPY_NAME, COPY_NOTHING };
int copy_digest_of(const struct root *root, enum copy_counts (*counts)(void *ctx, const char *path), void *ctx,
		   char ret[DIGEST_HEX + 1], struct err *err);
// Adds what a copy takes at most of a disk with blocks of 4 KiB.
int copy_bytes(const struct root *root, const char *path, uint64_t *sum, struct err *err);
