// SPDX-License-Identifier: Apache-2.0
// A small layout with a package-like manifest, a signature about it and a large layer, and what every repository that
// offers it must answer.
#pragma once
#include "precompiled/repository/repository.h"
#include "tests/unit/tempdir.h"

enum { LAYER_SIZE = 700000 };

struct sample {
	struct folder folder;
	struct layout layout;
	struct oci_descriptor config, layer, manifest, signature;
	char *oci_manifest_text, *signature_text, *bytes; // bytes: of the layer
};

static inline void sample_blob(struct sample *s, const void *data, size_t len, const char *type,
			       struct oci_descriptor *d)
{
	struct err err;
	*d = (struct oci_descriptor){ .media_type = str_dup(type), .size = len };
	assert_int_equal(layout_blob_put(&s->layout, data, len, d->digest, &err), 0);
}

static inline void sample_make(struct sample *s)
{
	struct err err;
	*s = (struct sample){ .bytes = mem_alloc(LAYER_SIZE) };
	folder_make(&s->folder);
	folder_dir(&s->folder, "layout");
	auto_root struct root dir = ROOT_NONE;
	assert_int_equal(root_sub(&s->folder.root, "layout", &dir, &err), 0);
	assert_int_equal(layout_make(&dir, &s->layout, &err), 0);
	for (size_t i = 0; i < LAYER_SIZE; i++)
		s->bytes[i] = (char)(i * 31 + (i >> 8));
	sample_blob(s, "{}", 2, OCI_EMPTY, &s->config);
	sample_blob(s, s->bytes, LAYER_SIZE, OCI_LAYER, &s->layer);
	struct oci_manifest m = { .config = s->config, .layers = &s->layer, .count = 1 };
	s->oci_manifest_text = oci_manifest_text(&m);
	sample_blob(s, s->oci_manifest_text, strlen(s->oci_manifest_text), OCI_MANIFEST, &s->manifest);
	m.count = 0;
	m.subject = s->manifest;
	s->signature_text = oci_manifest_text(&m);
	sample_blob(s, s->signature_text, strlen(s->signature_text), OCI_MANIFEST, &s->signature);
	assert_int_equal(layout_publish(&s->layout, &s->manifest, "1.0+x", &err), 0);
	assert_int_equal(layout_publish(&s->layout, &s->signature, NULL, &err), 0);
}

static inline void sample_done(struct sample *s)
{
	struct oci_descriptor *all[] = { &s->config, &s->layer, &s->manifest, &s->signature };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		oci_descriptor_done(all[i]);
	free(s->oci_manifest_text);
	free(s->signature_text);
	free(s->bytes);
	layout_done(&s->layout);
	folder_done(&s->folder);
}
#define auto_sample __attribute__((cleanup(sample_done)))

static inline void sample_check_documents(const struct sample *s, struct repository *r)
{
	struct err err;
	auto_str char *text = NULL, *same = NULL, *config = NULL;
	auto_strv struct strv tags = { 0 };
	auto_oci_index struct oci_index about = { 0 }, none = { 0 };
	auto_str char *ref = oci_digest_text(s->manifest.digest);
	struct oci_descriptor absent = s->config;
	size_t len;
	assert_int_equal(r->ops->tags(r, &tags, &err), 0);
	assert_int_equal(tags.count, 1);
	assert_string_equal(tags.items[0], "1.0+x");
	assert_int_equal(r->ops->manifest(r, "1.0+x", &text, &len, &err), 1);
	assert_string_equal(text, s->oci_manifest_text);
	assert_int_equal(r->ops->manifest(r, ref, &same, &len, &err), 1);
	assert_int_equal(len, strlen(s->oci_manifest_text));
	assert_int_equal(r->ops->manifest(r, "1.0", &text, &len, &err), 0);
	assert_int_equal(r->ops->document(r, &s->config, &config, &len, &err), 1);
	assert_string_equal(config, "{}");
	memset(absent.digest, '0', DIGEST_HEX);
	assert_int_equal(r->ops->document(r, &absent, &config, &len, &err), 0);
	absent = s->config;
	absent.size = 3;
	assert_int_equal(r->ops->document(r, &absent, &config, &len, &err), -1);
	assert_int_equal(err.code, E_DIGEST);
	assert_int_equal(r->ops->has_blob(r, s->layer.digest, &err), 1);
	assert_int_equal(r->ops->referrers(r, s->manifest.digest, &about, &err), 0);
	assert_int_equal(about.count, 1);
	assert_string_equal(about.items[0].digest, s->signature.digest);
	assert_int_equal(r->ops->referrers(r, s->signature.digest, &none, &err), 0);
	assert_int_equal(none.count, 0);
}

// From what was there before; in the middle the part is emptied, as after a wrong digest.
static inline void sample_check_transfer(const struct sample *s, struct repository *r, size_t before)
{
	struct err err;
	auto_folder struct folder f;
	auto_layout struct layout into = LAYOUT_NONE;
	auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE, q = PARTIAL_BLOB_NONE;
	folder_make(&f);
	assert_int_equal(layout_make(&f.root, &into, &err), 0);
	assert_int_equal(partial_blob_open(&into, &s->layer, &p, &err), 0);
	assert_int_equal(partial_blob_append(&p, s->bytes, before, &err), 0);
	assert_int_equal(partial_blob_open(&into, &s->config, &q, &err), 0);
	struct blob_transfer t = { .part = &p }, u = { .part = &q };
	assert_int_equal(r->ops->begin(r, &t, &err), 0);
	assert_int_equal(r->ops->begin(r, &u, &err), 0);
	assert_int_equal(r->ops->step(r, &err), 0);
	assert_true(u.is_done && !u.err.code);
	r->ops->end(r, &u);
	if (!t.is_done)
		assert_int_equal(partial_blob_restart(&p, &err), 0);
	for (int i = 0; !t.is_done && i < 100; i++)
		assert_int_equal(r->ops->step(r, &err), 0);
	assert_true(t.is_done && !t.err.code);
	r->ops->end(r, &t);
	assert_int_equal(partial_blob_commit(&p, &err), 0);
	assert_int_equal(partial_blob_commit(&q, &err), 0);
}
