// SPDX-License-Identifier: Apache-2.0
// The index of a layout with what is looked up in it: tags and subjects, each sorted. A layout keeps one, and reads it
// again once index.json is another file, so that a question for each of thousands of packages costs no search of all.
#pragma once
#include "precompiled/oci/layout.h"

struct layout_tag {
	const char *tag; // of the index
	size_t at;       // position in the index
};
struct layout_subject {
	char hex[DIGEST_HEX + 1];
	size_t at; // of the manifest that has this subject
};
struct layout_view {
	char *kept;       // text of an index that could not be written and is used all the same; NULL = none
	int fd;           // of the index.json that was read: as long as it is open, no other file gets its inode number
	struct stat seen; // of it
	struct oci_index index;
	struct layout_tag *tags;
	size_t tag_count;
	struct layout_subject *subjects;
	size_t subject_count;
	bool has_subjects, has_tagged; // .subjects was read; also of entries with a tag
};
struct layout_view *layout_view_new(void);
void layout_view_free(struct layout_view *v);

// From now on this is the index of l, until one is written.
void layout_view_keep(const struct layout *l, const struct oci_index *x);

// Borrowed until the next call.
int layout_view(const struct layout *l, const struct layout_view **ret, struct err *err);
int layout_view_find(const struct layout_view *v, const char *tag); // position in the index, -1 = absent
// The manifests of the index with this subject, in its order; with_tagged: also those that have a tag. Unreadable ones
// have none. Borrowed until the next call.
int layout_referrers(const struct layout *l, const char *hex, bool with_tagged, const struct layout_view **ret_view,
		     const struct layout_subject **ret, size_t *ret_count, struct err *err);
