// SPDX-License-Identifier: Apache-2.0
// Merges several trees into one. A file in two of them must be identical in both; a file replaces a link. Links are
// rewritten to the new place of their target, and are relative, so that they work wherever the tree is mounted; modes
// are 0755 and 0644, so that the tree's digest depends on its files only.
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
	const char *origin; // the file it came from, for messages; must outlive the merge_tree
	// The place of a path in the merged tree; NULL = left out. Caller frees.
	char *(*place)(const void *ctx, const char *path);
	int (*check)(const void *ctx, const struct root *root, const char *path, const char *place, struct err *err);
	const void *ctx;
	bool is_whole; // empty directories as well
};
// All below a directory of it, "" = the root; its files are moved away.
int merge_tree_all(struct merge_tree *l, const struct merge_tree_source *part, const char *dir, struct err *err);
int merge_tree_file(struct merge_tree *l, const struct merge_tree_source *part, const char *path, const char *place,
		    struct err *err);
int merge_tree_link(struct merge_tree *l, const struct merge_tree_source *part, const char *target, const char *place,
		    struct err *err);
// The target of a link at its new place; NULL = it would point to itself, or its target is left out.
char *merge_tree_link_target(const struct merge_tree_source *part, const char *path, const char *target,
			     const char *place);
