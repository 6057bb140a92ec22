// SPDX-License-Identifier: Apache-2.0
// A store with packages of a few bytes, and with signatures of them.
#pragma once
#include "precompiled/package/package.h"
#include "precompiled/store/store.h"
#include "tests/unit/tempdir.h"

#include <utime.h>

struct setting {
	struct folder folder;
	struct store store;
	struct strv kernels;
	char hex[32][DIGEST_HEX + 1];   // manifests of the packages
	char layer[32][DIGEST_HEX + 1]; // and their layers
};

// Package i: kernel 6.i, a module of some bytes; the later it comes, the younger it is.
static inline void add_package(struct setting *s, int i)
{
	struct err err;
	auto_root struct root dir = ROOT_NONE;
	auto_package struct package p = PACKAGE_NONE;
	auto_str char *name = str_fmt("in%d", i), *ko = str_fmt("%s/nvidia.ko", name), *release = str_fmt("6.%d", i);
	char data[5000], driver[] = "535.1", flavour[] = "open", arch[] = "x86_64", module[] = "nvidia",
			 file[] = "nvidia.ko";
	for (size_t k = 0; k < sizeof(data); k++)
		data[k] = (char)(k * k * 7 + k * (size_t)(i + 3));
	tempdir_data(&s->folder, ko, data, sizeof(data));
	struct package_key key = { .driver = driver, .flavour = flavour, .release = release, .arch = arch };
	strv_add(&key.modules, str_dup("nvidia"));
	struct package_file files = { .name = file, .module = module };
	assert_int_equal(root_sub(&s->folder.root, name, &dir, &err), 0);
	assert_int_equal(package_create(&s->store.layout, &dir, &key, &files, 1, &p, &err), 0);
	strv_done(&key.modules);
	memcpy(s->hex[i], p.manifest.digest, sizeof(s->hex[i]));
	memcpy(s->layer[i], p.layer.digest, sizeof(s->layer[i]));
	auto_str char *blob = layout_blob_path(s->hex[i]), *path = str_fmt("%s/%s", s->store.layout.root.name, blob);
	assert_int_equal(utime(path, &(struct utimbuf){ 1000 + i, 1000 + i }), 0);
}

static inline void sign(struct setting *s, int i, bool by_tag)
{
	struct err err;
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST) }, empty = { 0 };
	empty.media_type = str_dup(OCI_EMPTY);
	empty.size = 2;
	assert_int_equal(layout_blob_put(&s->store.layout, "{}", 2, empty.digest, &err), 0);
	struct oci_manifest m = { .config = empty };
	auto_str char *about = str_fmt("about %d", i), *tag = str_fmt("sha256-%s.sig", s->hex[i]);
	m.annotations = json_pack("{s:s}", "who", about);
	if (!by_tag) {
		m.subject = empty;
		memcpy(m.subject.digest, s->hex[i], sizeof(m.subject.digest));
	}
	auto_str char *text = oci_manifest_text(&m);
	json_decref(m.annotations);
	d.size = strlen(text);
	assert_int_equal(layout_blob_put(&s->store.layout, text, d.size, d.digest, &err), 0);
	assert_int_equal(layout_publish(&s->store.layout, &d, by_tag ? tag : NULL, &err), 0);
}

static inline void setting_make(struct setting *s, int packages)
{
	struct err err;
	*s = (struct setting){ .store = STORE_NONE };
	folder_make(&s->folder);
	assert_int_equal(store_open(&s->folder.root, 0, &s->store, &err), 0);
	for (int i = 0; i < packages; i++)
		add_package(s, i);
}

static inline void setting_done(struct setting *s)
{
	strv_done(&s->kernels);
	store_done(&s->store);
	folder_done(&s->folder);
}
#define auto_setting __attribute__((cleanup(setting_done)))

static inline bool has(const struct setting *s, int i)
{
	struct err err;
	auto_oci_index struct oci_index x = { 0 };
	auto_str char *ref = oci_digest_text(s->hex[i]);
	assert_int_equal(layout_index(&s->store.layout, &x, &err), 0);
	bool is_listed = oci_index_find(&x, ref) >= 0;
	if (is_listed)
		assert_true(layout_has(&s->store.layout, s->hex[i]) && layout_has(&s->store.layout, s->layer[i]));
	return is_listed;
}

static inline void expect_sound(struct setting *s)
{
	struct err err;
	auto_store_report struct store_report report = { 0 };
	assert_int_equal(store_verify(&s->store, NULL, NULL, &report, &err), 0);
}
