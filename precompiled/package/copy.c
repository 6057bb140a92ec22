// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/copy.h"

#include "precompiled/trust/catalog.h"

enum { SIDE_BY_SIDE = 6 }; // parallel transfers

struct blob_copy {
	struct partial_blob part;
	struct blob_transfer transfer;
	bool is_begun;
};

static int begin_blob_copy(struct repository *from, const struct oci_descriptor *d, const struct layout *to,
			   struct blob_copy *b, struct err *err)
{
	*b = (struct blob_copy){ .part = PARTIAL_BLOB_NONE };
	if (layout_has(to, d->digest))
		return 0;
	int r = partial_blob_open(to, d, &b->part, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	b->transfer.part = &b->part;
	if (repository_begin(from, &b->transfer, err) < 0)
		return -1;
	b->is_begun = true;
	return 0;
}

static int copy_blobs(struct repository *from, const struct oci_descriptor *const *blobs, size_t count,
		      const struct layout *to, struct err *err)
{
	struct blob_copy list[SIDE_BY_SIDE] = { 0 };
	size_t begun = 0;
	int r = 0;
	for (; begun < count && r == 0; begun++)
		r = begin_blob_copy(from, blobs[begun], to, &list[begun], err);
	for (bool is_running = true; r == 0 && is_running;) {
		is_running = false;
		for (size_t i = 0; i < begun; i++)
			is_running |= list[i].is_begun && !list[i].transfer.is_done;
		if (is_running)
			r = repository_step(from, err);
	}
	for (size_t i = 0; i < begun; i++) {
		struct blob_copy *b = &list[i];
		if (b->is_begun && r == 0 && b->transfer.err.code) {
			*err = b->transfer.err;
			r = -1;
		} else if (b->is_begun && r == 0) {
			r = partial_blob_commit(&b->part, err);
		}
		if (b->is_begun)
			repository_end(from, &b->transfer);
		partial_blob_done(&b->part);
	}
	return r;
}

static int copy_manifest_blobs(struct repository *from, const struct oci_manifest *m, const struct layout *to,
			       struct err *err)
{
	const struct oci_descriptor *blobs[SIDE_BY_SIDE];
	size_t count = 0;
	for (size_t i = 0; i <= m->count; i++) {
		const struct oci_descriptor *d = i < m->count ? &m->layers[i] : &m->config;
		bool is_among = false; // a blob that a manifest names twice is copied once
		for (size_t k = 0; k < count; k++)
			is_among |= str_eq(blobs[k]->digest, d->digest);
		if (!is_among)
			blobs[count++] = d;
		if (count < SIDE_BY_SIDE && i < m->count)
			continue;
		if (copy_blobs(from, blobs, count, to, err) < 0)
			return -1;
		count = 0;
	}
	return 0;
}

int copy_to_layout(struct repository *from, const char *ref, const struct layout *to, struct err *err)
{
	auto_str char *text = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST) };
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	int r = repository_manifest(from, ref, &text, &len, d.digest, err);
	if (r <= 0)
		return r;
	if (oci_manifest_parse(text, len, ref, &m, err) < 0 || copy_manifest_blobs(from, &m, to, err) < 0 ||
	    layout_blob_put(to, text, len, hex, err) < 0 || signature_copy(from, hex, to, err) < 0)
		return err_wrap(err, "copy %s", ref);
	d.size = len;
	d.artifact_type = str_dup(m.artifact_type);
	return layout_publish(to, &d, oci_digest_parse(ref, hex) ? NULL : ref, err) < 0 ? -1 : 1;
}

static int push_manifest(const struct layout *from, const struct oci_descriptor *d, const char *tag,
			 struct repository *to, struct err *err)
{
	auto_str char *text = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	size_t len = 0;
	if (layout_blob_read(from, d, &text, &len, err) < 0 || oci_manifest_parse(text, len, d->digest, &m, err) < 0)
		return -1;
	for (size_t i = 0; i <= m.count; i++)
		if (repository_put_blob(to, from, i < m.count ? &m.layers[i] : &m.config, err) < 0)
			return -1;
	return repository_put_manifest(to, text, len, OCI_MANIFEST, tag, err);
}

// The receiver keeps its own index under a fallback tag: only the members are pushed, and their subject lists them.
static int push_referrers(const struct layout *from, const struct oci_descriptor *d, struct repository *to,
			  struct err *err)
{
	auto_str char *text = NULL;
	auto_oci_index struct oci_index members = { 0 };
	size_t len = 0;
	if (layout_blob_read(from, d, &text, &len, err) < 0 || oci_index_parse(text, len, d->digest, &members, err) < 0)
		return -1;
	for (size_t i = 0; i < members.count; i++)
		if (push_manifest(from, &members.items[i], NULL, to, err) < 0)
			return -1;
	return 0;
}

enum pass { CONTENT, SIGNATURES, TAGS, CATALOG, PASSES };

static int push_entry(const struct layout *from, const struct oci_descriptor *d, enum pass pass, struct repository *to,
		      struct err *err)
{
	const char *tag = oci_descriptor_annotation(d, OCI_REF_NAME);
	bool is_signature = tag && str_starts(tag, "sha256-"), is_catalog = str_eq(tag, CATALOG_TAG);
	if (str_eq(d->media_type, OCI_INDEX))
		return is_signature && pass == SIGNATURES ? push_referrers(from, d, to, err) : 0;
	if (is_signature)
		return pass == SIGNATURES ? push_manifest(from, d, tag, to, err) : 0;
	if (pass == CONTENT)
		return push_manifest(from, d, NULL, to, err);
	return tag && pass == (is_catalog ? CATALOG : TAGS) ? push_manifest(from, d, tag, to, err) : 0;
}

int copy_to_repository(const struct layout *from, struct repository *to, void (*note)(void *ctx, const char *text),
		       void *ctx, struct err *err)
{
	auto_oci_index struct oci_index all = { 0 };
	if (layout_index(from, &all, err) < 0)
		return -1;
	for (enum pass pass = CONTENT; pass < PASSES; pass++)
		for (size_t i = 0; i < all.count; i++) {
			const char *tag = oci_descriptor_annotation(&all.items[i], OCI_REF_NAME);
			if (push_entry(from, &all.items[i], pass, to, err) < 0)
				return err_wrap(err, "push %s", tag ? tag : all.items[i].digest);
			if (note && tag && pass == CONTENT && !str_starts(tag, "sha256-"))
				note(ctx, tag);
		}
	return 0;
}
