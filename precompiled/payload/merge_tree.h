// SPDX-License-Identifier: Apache-2.0
// One tree put together of the files of several. A file that two of them have must be the same in both; a link gives
// way to a file. Links lead to where their targets have gone, and are relative, so that they hold for whoever sees the
// tree as a directory; modes are 0755 and 0644, so that the tree's digest is that of its files.
#pragma once
#include "base/file/root.h"

struct merge_tree {
	struct root into;
	struct merge_tree_item {
		char *place;
		const char *origin; // borrowed
	} * items;
	size_t count;
};
void merge_tree_done(struct merge_tree *l);

struct merge_tree_source {
	const struct root *root;
	const char *origin; // the file that it came from, for messages; outlives the lay
	// Where a path of it belongs; NULL = nowhere. Caller frees.
	char *(*place)(const void *ctx, const char *path);
	int (*check)(const void *ctx, const struct root *root, const char *path, const char *place, struct err *err);
	const void *ctx;
	bool is_whole; // empty directories, too
};
int merge_tree_all(struct merge_tree *l, const struct merge_tree_source *part,
		   struct err *err); // all of it; its files are moved away
int merge_tree_file(struct merge_tree *l, const struct merge_tree_source *part, const char *path, const char *place,
		    struct err *err);
int merge_tree_link(struct merge_tree *l, const struct merge_tree_source *part, const char *target, const char *place,
		    struct err *err);
// A link's target for the place that it goes to; NULL = it would lead to itself, or its target goes nowhere.
char *merge_tree_link_target(const struct merge_tree_source *part, const char *path, const char *target,
			     const char *place);
