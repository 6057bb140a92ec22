// SPDX-License-Identifier: Apache-2.0
// Write files below a directory under names that are not to be trusted: the writing half of archive.h.
//
// Every directory on the way is opened without following links, so that nothing lands outside whatever was planted
// before.
#pragma once
#include "base/file/root.h"

struct extract {
	const struct root *dest;
	int dir;    // the directory that the last entry went into
	char *path; // its name, "" = dest itself
};

void extract_init(struct extract *x, const struct root *dest);
void extract_done(struct extract *x);

// The name without "./" and doubled slashes, "" for the root itself; NULL = absolute, or climbs with "..".
char *extract_name(const char *raw);

// Names below come from extract_name. What is there already is replaced, except that a directory stays a directory.
int extract_dir(struct extract *x, const char *name, mode_t mode, struct err *err);
int extract_file(struct extract *x, const char *name, mode_t mode, struct err *err); // fd >= 0, empty, for writing
int extract_symlink(struct extract *x, const char *name, const char *target, struct err *err);
int extract_hardlink(struct extract *x, const char *name, const char *target,
		     struct err *err); // target: from extract_name
