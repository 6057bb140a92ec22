// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/local.h"

static struct repository *open_dir(const struct folder *f, const char *name)
{
	struct err err;
	struct repository *r = NULL;
	auto_str char *dir = str_fmt("%s/%s", f->path, name);
	assert_int_equal(repository_open_layout(dir, NULL, &r, &err), 0);
	return r;
}

static void an_existing_layout_is_served(void **state)
{
	(void)state;
	static const size_t rows[] = { 0, 1, 300000, LAYER_SIZE - 1, LAYER_SIZE };
	auto_sample struct sample s;
	sample_make(&s);
	struct repository *r = open_dir(&s.folder, "layout");
	sample_check_documents(&s, r);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		sample_check_transfer(&s, r, rows[i]);
	r->ops->free(r);
}

static void reading_needs_an_existing_layout(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	folder_make(&f);
	char *text = NULL;
	size_t len;
	struct repository *r = open_dir(&f, "none");
	assert_int_equal(r->ops->manifest(r, "x", &text, &len, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	assert_int_equal(r->ops->has_blob(r, "x", &err), 0);
	assert_false(root_exists(&f.root, "none"));
	r->ops->free(r);
	assert_int_equal(repository_open_layout("", NULL, &r, &err), -1);
	assert_int_equal(err.code, E_USAGE);
}

static void copy(const struct sample *s, struct repository *to)
{
	struct err err;
	assert_int_equal(to->ops->put_blob(to, &s->layout, &s->layer, &err), 0);
	assert_int_equal(to->ops->put_blob(to, &s->layout, &s->config, &err), 0);
	assert_int_equal(to->ops->put_blob(to, &s->layout, &s->config, &err), 0); // twice is fine
	assert_int_equal(to->ops->put_manifest(to, s->oci_manifest_text, strlen(s->oci_manifest_text), OCI_MANIFEST,
					       "1.0+x", &err),
			 0);
	assert_int_equal(
		to->ops->put_manifest(to, s->signature_text, strlen(s->signature_text), OCI_MANIFEST, NULL, &err), 0);
}

// What was written can be read; signatures also under the fallback tag, for servers that can only be asked by tag.
static void written_content_can_be_read(void **state)
{
	(void)state;
	auto_sample struct sample s;
	sample_make(&s);
	struct repository *to = open_dir(&s.folder, "new/deep"), *again = open_dir(&s.folder, "new/deep");
	auto_str char *tag = str_fmt("sha256-%s", s.manifest.digest), *text = NULL;
	auto_oci_index struct oci_index listed = { 0 }, about = { 0 };
	auto_strv struct strv tags = { 0 };
	struct err err;
	size_t len;
	copy(&s, to);
	copy(&s, again);
	assert_int_equal(to->ops->manifest(to, tag, &text, &len, &err), 1);
	assert_int_equal(oci_index_parse(text, len, tag, &listed, &err), 0);
	assert_int_equal(listed.count, 1);
	assert_string_equal(listed.items[0].digest, s.signature.digest);
	assert_string_equal(listed.items[0].artifact_type, OCI_EMPTY);
	assert_int_equal(to->ops->referrers(to, s.manifest.digest, &about, &err), 0);
	assert_int_equal(about.count, 1);
	assert_int_equal(to->ops->tags(to, &tags, &err), 0);
	assert_int_equal(tags.count, 2);
	sample_check_transfer(&s, to, 5);
	to->ops->free(to);
	again->ops->free(again);
}

static void an_invalid_manifest_is_not_published(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	folder_make(&f);
	struct repository *r = open_dir(&f, "l");
	assert_int_equal(r->ops->put_manifest(r, "{}", 2, OCI_MANIFEST, "x", &err), -1);
	assert_int_equal(err.code, E_MANIFEST);
	assert_false(root_exists(&f.root, "l"));
	r->ops->free(r);
}

// A layer with other content than its descriptor states fails only its own transfer.
static void damaged_layers(void **state)
{
	(void)state;
	auto_sample struct sample s;
	struct err err;
	sample_make(&s);
	auto_folder struct folder f;
	auto_layout struct layout into = LAYOUT_NONE;
	auto_str char *path = layout_blob_path(s.layer.digest), *full = str_fmt("%s/layout/%s", s.folder.path, path);
	folder_make(&f);
	assert_int_equal(truncate(full, 10), 0);
	assert_int_equal(layout_make(&f.root, &into, &err), 0);
	auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE;
	assert_int_equal(partial_blob_open(&into, &s.layer, &p, &err), 0);
	struct repository *r = open_dir(&s.folder, "layout");
	struct blob_transfer t = { .part = &p };
	assert_int_equal(r->ops->begin(r, &t, &err), 0);
	for (int i = 0; !t.is_done && i < 10; i++)
		assert_int_equal(r->ops->step(r, &err), 0);
	assert_true(t.is_done);
	assert_int_equal(t.err.code, E_DIGEST);
	r->ops->end(r, &t);
	assert_int_equal(p.have, 10);
	assert_int_equal(unlink(full), 0);
	assert_int_equal(r->ops->begin(r, &t, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	auto_str char *manifest = layout_blob_path(s.manifest.digest);
	assert_int_equal(root_unlink(&s.layout.root, manifest, &err), 1);
	char *text = NULL;
	size_t len;
	assert_int_equal(r->ops->manifest(r, "1.0+x", &text, &len, &err), -1);
	assert_int_equal(err.code, E_INCOMPLETE);
	r->ops->free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_existing_layout_is_served),
		cmocka_unit_test(reading_needs_an_existing_layout),
		cmocka_unit_test(written_content_can_be_read),
		cmocka_unit_test(an_invalid_manifest_is_not_published),
		cmocka_unit_test(damaged_layers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
