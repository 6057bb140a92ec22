// SPDX-License-Identifier: Apache-2.0
#include "precompiled/oci/closure.h"

enum { DEPTH_MAX = 4 }; // an index of indexes is already more than anybody writes

void blobs_done(struct blobs *b)
{
	free(b->items);
	*b = (struct blobs){ 0 };
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct blob *)a)->digest, ((const struct blob *)b)->digest);
}

void blobs_sort(struct blobs *b)
{
	size_t kept = 0;
	if (b->count)
		qsort(b->items, b->count, sizeof(*b->items), compare);
	for (size_t i = 0; i < b->count; i++)
		if (kept == 0 || compare(&b->items[kept - 1], &b->items[i]) != 0)
			b->items[kept++] = b->items[i];
		else
			b->items[kept - 1].is_broken |= b->items[i].is_broken;
	b->count = kept;
}

bool blobs_has(const struct blobs *sorted, const char *hex)
{
	struct blob key = { 0 };
	memcpy(key.digest, hex, DIGEST_HEX);
	return sorted->count && bsearch(&key, sorted->items, sorted->count, sizeof(key), compare);
}

bool blobs_names(const struct blobs *b, const char *hex)
{
	for (size_t i = 0; i < b->count; i++)
		if (str_eq(b->items[i].digest, hex))
			return true;
	return false;
}

static void add(struct blobs *b, const struct descriptor *d)
{
	b->items = mem_grow(b->items, b->count + 1, sizeof(*b->items));
	b->items[b->count] = (struct blob){ .size = d->size };
	memcpy(b->items[b->count++].digest, d->digest, sizeof(d->digest));
}

// Errors that say something about the document, not about the disk.
static bool is_damage(const struct err *err)
{
	return err->code == E_NOT_FOUND || err->code == E_DIGEST || err->code == E_MANIFEST ||
	       err->code == E_TOO_LARGE || err->code == E_STORE_CORRUPT;
}

static int visit(const struct layout *l, const struct descriptor *d, int depth, struct blobs *ret, struct err *err);

static int visit_index(const struct layout *l, const struct index *x, int depth, struct blobs *ret, struct err *err)
{
	for (size_t i = 0; i < x->count; i++)
		if (visit(l, &x->items[i], depth + 1, ret, err) < 0)
			return -1;
	return 0;
}

static int visit_text(const struct layout *l, const struct descriptor *d, const char *text, size_t len, int depth,
		      struct blobs *ret, struct err *err)
{
	auto_index struct index x = { 0 };
	auto_manifest struct manifest m = { 0 };
	if (str_eq(d->media_type, OCI_INDEX))
		return index_parse(text, len, d->digest, &x, err) < 0 ? -1 : visit_index(l, &x, depth, ret, err);
	// Writers may leave the type out of an entry: the document knows it better.
	if (manifest_parse(text, len, d->digest, &m, err) < 0) {
		struct err ignored;
		return index_parse(text, len, d->digest, &x, &ignored) < 0 ? -1 : visit_index(l, &x, depth, ret, err);
	}
	add(ret, &m.config);
	for (size_t i = 0; i < m.count; i++)
		add(ret, &m.layers[i]);
	return 0;
}

static int visit(const struct layout *l, const struct descriptor *d, int depth, struct blobs *ret, struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0, at = ret->count;
	add(ret, d);
	if (!str_eq(d->media_type, OCI_INDEX) && !str_eq(d->media_type, OCI_MANIFEST))
		return 0;
	if (depth < DEPTH_MAX && layout_blob_read(l, d, &text, &len, err) == 0 &&
	    visit_text(l, d, text, len, depth, ret, err) == 0)
		return 0;
	if (depth < DEPTH_MAX && !is_damage(err))
		return -1;
	ret->items[at].is_broken = true;
	return 0;
}

int reach(const struct layout *l, const struct descriptor *d, struct blobs *ret, struct err *err)
{
	return visit(l, d, 0, ret, err);
}
