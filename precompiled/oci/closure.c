// SPDX-License-Identifier: Apache-2.0
#include "precompiled/oci/closure.h"

enum { DEPTH_MAX = 4 }; // an index of indexes is already unusual

static int by_digest(const void *a, const void *b)
{
	const struct closure_blob *x = a, *y = b;
	int r = memcmp(x->digest, y->digest, DIGEST_HEX);
	return r ? r : x->added < y->added ? -1 : x->added > y->added;
}

void closure_sort(struct closure *b)
{
	size_t kept = 0;
	if (b->count)
		qsort(b->items, b->count, sizeof(*b->items), by_digest);
	for (size_t i = 0; i < b->count; i++) {
		bool is_again = kept && str_eq(b->items[kept - 1].digest, b->items[i].digest);
		if (is_again)
			b->items[kept - 1].is_broken |= b->items[i].is_broken;
		else
			b->items[kept++] = b->items[i];
	}
	b->count = kept;
}

bool closure_has(const struct closure *b, const char *hex)
{
	size_t low = 0, high = b->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		int r = strcmp(b->items[middle].digest, hex);
		if (r == 0)
			return true;
		if (r < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

// Its position.
static size_t add_blob(struct closure *b, const struct oci_descriptor *d)
{
	if (b->count == b->room) {
		b->room = 2 * b->room + 16;
		b->items = mem_grow(b->items, b->room, sizeof(*b->items));
	}
	b->items[b->count] = (struct closure_blob){ .size = d->size, .added = b->count };
	memcpy(b->items[b->count].digest, d->digest, sizeof(d->digest));
	return b->count++;
}

static int add_reachable(const struct layout *l, const struct oci_descriptor *d, int depth, struct closure *ret,
			 struct err *err);

static int add_document_blobs(const struct layout *l, const struct oci_descriptor *d, const char *text, size_t len,
			      int depth, struct closure *ret, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_oci_manifest struct oci_manifest m = { 0 };
	struct err ignored;
	// Some writers omit the type of an entry, so the document decides.
	bool is_index = str_eq(d->media_type, OCI_INDEX);
	if (is_index && oci_index_parse(text, len, d->digest, &x, err) < 0)
		return -1;
	if (!is_index && oci_manifest_parse(text, len, d->digest, &m, err) < 0 &&
	    oci_index_parse(text, len, d->digest, &x, &ignored) < 0)
		return -1;
	for (size_t i = 0; i < x.count; i++)
		if (add_reachable(l, &x.items[i], depth + 1, ret, err) < 0)
			return -1;
	if (m.config.media_type)
		add_blob(ret, &m.config);
	for (size_t i = 0; i < m.count; i++)
		add_blob(ret, &m.layers[i]);
	return 0;
}

static int add_reachable(const struct layout *l, const struct oci_descriptor *d, int depth, struct closure *ret,
			 struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0;
	size_t at = add_blob(ret, d);
	if (!str_eq(d->media_type, OCI_INDEX) && !str_eq(d->media_type, OCI_MANIFEST))
		return 0;
	if (depth < DEPTH_MAX && layout_blob_read(l, d, &text, &len, err) == 0 &&
	    add_document_blobs(l, d, text, len, depth, ret, err) == 0)
		return 0;
	// Errors caused by the document and not by the disk.
	bool is_damaged = depth == DEPTH_MAX || err->code == E_NOT_FOUND || err->code == E_DIGEST ||
			  err->code == E_MANIFEST || err->code == E_TOO_LARGE || err->code == E_STORE_CORRUPT;
	if (!is_damaged)
		return -1;
	ret->items[at].is_broken = true;
	return 0;
}

int closure_add(const struct layout *l, const struct oci_descriptor *d, struct closure *ret, struct err *err)
{
	return add_reachable(l, d, 0, ret, err);
}
