// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/copy.h"

#include "precompiled/trust/catalog.h"

enum { SIDE_BY_SIDE = 6 }; // transfers at once

struct bringing {
	struct part part;
	struct transfer transfer;
	bool is_begun;
};

static int begin(struct repository *from, const struct descriptor *d, const struct layout *to, struct bringing *b,
		 struct err *err)
{
	*b = (struct bringing){ .part = PART_NONE };
	if (layout_has(to, d->digest))
		return 0;
	int r = part_open(to, d, &b->part, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	b->transfer.part = &b->part;
	if (repository_begin(from, &b->transfer, err) < 0)
		return -1;
	b->is_begun = true;
	return 0;
}

static bool is_running(const struct bringing *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (b[i].is_begun && !b[i].transfer.is_done)
			return true;
	return false;
}

static int finish(struct bringing *b, struct err *err)
{
	if (!b->is_begun)
		return 0;
	if (b->transfer.err.code) {
		*err = b->transfer.err;
		return -1;
	}
	return part_commit(&b->part, err);
}

static int bring(struct repository *from, const struct descriptor *const *blobs, size_t count, const struct layout *to,
		 struct err *err)
{
	struct bringing list[SIDE_BY_SIDE] = { 0 };
	size_t begun = 0;
	int r = 0;
	for (; begun < count && r == 0; begun++)
		r = begin(from, blobs[begun], to, &list[begun], err);
	while (r == 0 && is_running(list, begun))
		r = repository_step(from, err);
	for (size_t i = 0; i < begun; i++) {
		if (r == 0)
			r = finish(&list[i], err);
		if (list[i].is_begun)
			repository_end(from, &list[i].transfer);
		part_done(&list[i].part);
	}
	return r;
}

// A blob that a manifest names twice is brought once.
static bool is_among(const struct descriptor *const *blobs, size_t count, const struct descriptor *d)
{
	for (size_t i = 0; i < count; i++)
		if (str_eq(blobs[i]->digest, d->digest))
			return true;
	return false;
}

static int bring_all(struct repository *from, const struct manifest *m, const struct layout *to, struct err *err)
{
	const struct descriptor *blobs[SIDE_BY_SIDE];
	size_t count = 0;
	for (size_t i = 0; i <= m->count; i++) {
		const struct descriptor *d = i < m->count ? &m->layers[i] : &m->config;
		if (!is_among(blobs, count, d))
			blobs[count++] = d;
		if (count < SIDE_BY_SIDE && i < m->count)
			continue;
		if (bring(from, blobs, count, to, err) < 0)
			return -1;
		count = 0;
	}
	return 0;
}

int mirror_take(struct repository *from, const char *ref, const struct layout *to, struct err *err)
{
	auto_str char *text = NULL;
	auto_manifest struct manifest m = { 0 };
	auto_descriptor struct descriptor d = { .media_type = str_dup(OCI_MANIFEST) };
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	int r = repository_manifest(from, ref, &text, &len, d.digest, err);
	if (r <= 0)
		return r;
	if (manifest_parse(text, len, ref, &m, err) < 0 || bring_all(from, &m, to, err) < 0 ||
	    layout_blob_put(to, text, len, hex, err) < 0 || signature_copy(from, hex, to, err) < 0)
		return err_wrap(err, "copy %s", ref);
	d.size = len;
	d.artifact_type = str_dup(m.artifact_type);
	return layout_publish(to, &d, oci_digest_parse(ref, hex) ? NULL : ref, err) < 0 ? -1 : 1;
}

static int give_manifest(const struct layout *from, const struct descriptor *d, const char *tag, struct repository *to,
			 struct err *err)
{
	auto_str char *text = NULL;
	auto_manifest struct manifest m = { 0 };
	size_t len = 0;
	if (layout_blob_read(from, d, &text, &len, err) < 0 || manifest_parse(text, len, d->digest, &m, err) < 0)
		return -1;
	for (size_t i = 0; i <= m.count; i++)
		if (repository_put_blob(to, from, i < m.count ? &m.layers[i] : &m.config, err) < 0)
			return -1;
	return repository_put_manifest(to, text, len, OCI_MANIFEST, tag, err);
}

// The index under a fallback tag is the receiver's own: its members are pushed, and list themselves by their subject.
static int give_referrers(const struct layout *from, const struct descriptor *d, struct repository *to, struct err *err)
{
	auto_str char *text = NULL;
	auto_index struct index members = { 0 };
	size_t len = 0;
	if (layout_blob_read(from, d, &text, &len, err) < 0 || index_parse(text, len, d->digest, &members, err) < 0)
		return -1;
	for (size_t i = 0; i < members.count; i++)
		if (give_manifest(from, &members.items[i], NULL, to, err) < 0)
			return -1;
	return 0;
}

enum pass { CONTENT, SIGNATURES, TAGS, CATALOG, PASSES };

static int give(const struct layout *from, const struct descriptor *d, enum pass pass, struct repository *to,
		struct err *err)
{
	const char *tag = descriptor_note(d, OCI_REF_NAME);
	bool is_signature = tag && str_starts(tag, "sha256-"), is_catalog = str_eq(tag, CATALOG_TAG);
	if (str_eq(d->media_type, OCI_INDEX))
		return is_signature && pass == SIGNATURES ? give_referrers(from, d, to, err) : 0;
	if (is_signature)
		return pass == SIGNATURES ? give_manifest(from, d, tag, to, err) : 0;
	if (pass == CONTENT)
		return give_manifest(from, d, NULL, to, err);
	return tag && pass == (is_catalog ? CATALOG : TAGS) ? give_manifest(from, d, tag, to, err) : 0;
}

int mirror_give(const struct layout *from, struct repository *to, void (*note)(void *ctx, const char *text), void *ctx,
		struct err *err)
{
	auto_index struct index all = { 0 };
	if (layout_index(from, &all, err) < 0)
		return -1;
	for (enum pass pass = CONTENT; pass < PASSES; pass++)
		for (size_t i = 0; i < all.count; i++) {
			const char *tag = descriptor_note(&all.items[i], OCI_REF_NAME);
			if (give(from, &all.items[i], pass, to, err) < 0)
				return err_wrap(err, "push %s", tag ? tag : all.items[i].digest);
			if (note && tag && pass == CONTENT && !str_starts(tag, "sha256-"))
				note(ctx, tag);
		}
	return 0;
}
