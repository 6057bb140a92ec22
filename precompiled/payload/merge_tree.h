// SPDX-License-Identifier: Apache-2.0
// One tree put together of the files of several. A file that two of them have must be the same in both; a link gives
// way to a file. Links lead to where their targets have gone, and are relative, so that they hold for whoever sees the
// tree as a directory; modes are 0755 and 0644, so that the tree's digest is that of its files.
#pragma once
#include "base/file/root.h"

struct lay {
	struct root into;
	struct lay_placed {
		char *place;
		const char *origin; // borrowed
	} * items;
	size_t count;
};
void lay_done(struct lay *l);

struct lay_part {
	const struct root *root;
	const char *origin; // the file that it came from, for messages; outlives the lay
	// Where a path of it belongs; NULL = nowhere. Caller frees.
	char *(*place)(const void *ctx, const char *path);
	int (*check)(const void *ctx, const struct root *root, const char *path, const char *place, struct err *err);
	const void *ctx;
	bool is_whole; // empty directories, too
};
int lay_tree(struct lay *l, const struct lay_part *part, struct err *err); // all of it; its files are moved away
int lay_file(struct lay *l, const struct lay_part *part, const char *path, const char *place, struct err *err);
int lay_link(struct lay *l, const struct lay_part *part, const char *target, const char *place, struct err *err);
// A link's target for the place that it goes to; NULL = it would lead to itself, or its target goes nowhere.
char *lay_target(const struct lay_part *part, const char *path, const char *target, const char *place);
