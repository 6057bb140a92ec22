// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/asset.h"
#include "tests/unit/vouch.h"

#define RELEASE "6.1.0-9-amd64"
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct site { // vouch's layout offers headers; a machine with a store and a directory for trees
	struct vouch v;
	struct root trees, state;
	struct layout store;
	struct oci_descriptor headers;
	struct strv from;
};

static struct root below(const struct folder *f, const char *dir)
{
	struct err err;
	struct root root = ROOT_NONE;
	folder_dir(f, dir);
	assert_int_equal(root_sub(&f->root, dir, &root, &err), 0);
	return root;
}

static void site_make(struct site *s, const struct asset_key *key)
{
	struct err err = { 0 };
	vouch_make(&s->v);
	s->store = LAYOUT_NONE;
	s->headers = (struct oci_descriptor){ .size = 0 };
	s->from = (struct strv){ 0 };
	s->trees = below(&s->v.folder, "trees");
	s->state = below(&s->v.folder, "state");
	tempdir_write(&s->v.folder, "tree/usr/src/linux/Makefile", "all:\n");
	tempdir_link(&s->v.folder, "tree/lib/modules/" RELEASE "/build", "/usr/src/linux");
	auto_root struct root tree = below(&s->v.folder, "tree"), store = below(&s->v.folder, "store");
	assert_int_equal(layout_make(&store, &s->store, &err), 0);
	int r = asset_create(&s->v.l, &tree, key, &s->headers, &err);
	expect(r == 0, err.text);
	strv_add(&s->from, str_fmt("oci:%s", s->v.l.root.name));
}

static void site_done(struct site *s)
{
	strv_done(&s->from);
	oci_descriptor_done(&s->headers);
	layout_done(&s->store);
	root_done(&s->trees);
	root_done(&s->state);
	vouch_done(&s->v);
}
#define auto_site __attribute__((cleanup(site_done)))

static const struct asset_key KEY = {
	.kind = &ASSET_HEADERS, .release = RELEASE, .arch = "x86_64", .build_id = ID, .distro = "debian"
};

// 0, or the code of the error.
static int fetch(const struct site *s, const struct trust *trust, const struct asset_key *want)
{
	struct err err = { 0 };
	struct repository_options options = { 0 };
	struct fetch f = {
		.from = &s->from, .options = &options, .trust = trust, .state = &s->state, .now = VOUCH_NOW
	};
	char hex[DIGEST_HEX + 1];
	if (asset_fetch(&f, want, &s->store, hex, &err) < 0)
		return err.code;
	assert_string_equal(hex, s->headers.digest);
	return 0;
}

static void test_fetched_and_unpacked(void **state)
{
	(void)state;
	auto_site struct site s;
	struct err err = { 0 };
	auto_str char *why = NULL, *path = NULL, *target = NULL;
	char hex[DIGEST_HEX + 1];
	site_make(&s, &KEY);
	struct trust alice = { .keys = s.v.keys, .count = 1 };
	assert_int_equal(asset_find(&s.store, &KEY, hex, &why, &err), 0);
	assert_non_null(strstr(why, "it has no headers-" RELEASE "-x86_64"));
	assert_int_equal(fetch(&s, &alice, &KEY), E_UNSIGNED);
	vouch_sign(&s.v, &s.headers, 1);
	assert_int_equal(fetch(&s, &alice, &KEY), E_UNTRUSTED);
	vouch_sign(&s.v, &s.headers, 0);
	assert_int_equal(fetch(&s, &alice, &KEY), 0);
	assert_int_equal(asset_find(&s.store, &KEY, hex, &why, &err), 1);
	assert_string_equal(hex, s.headers.digest);
	assert_int_equal(asset_unpack(&s.store, hex, &s.trees, &err), 1);
	assert_int_equal(asset_unpack(&s.store, hex, &s.trees, &err), 0);
	path = str_fmt("%s/lib/modules/" RELEASE "/build", hex);
	assert_int_equal(root_readlink(&s.trees, path, &target, &err), 1);
	assert_string_equal(target, "/usr/src/linux");
	auto_root struct root tree = ROOT_NONE;
	assert_int_equal(root_sub(&s.v.folder.root, "tree", &tree, &err), 0);
	auto_oci_descriptor struct oci_descriptor again = { 0 };
	assert_int_equal(asset_create(&s.store, &tree, &KEY, &again, &err), 0);
	assert_string_equal(again.digest, hex); // the same tree is the same bytes
}

static void test_compared_labels(void **state)
{
	(void)state;
	static const char other_id[] = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	static const struct {
		const char *what, *release, *arch, *build_id; // wanted
		bool is_id_unknown;                           // in the offered asset
		int code;
	} rows[] = {
		{ "the same", RELEASE, "x86_64", ID, false, 0 },
		{ "build id not known here", RELEASE, "x86_64", NULL, false, 0 },
		{ "nor there", RELEASE, "x86_64", ID, true, 0 },
		{ "the release, built again", RELEASE, "x86_64", other_id, false, E_NO_PACKAGE },
		{ "another release", "6.1.0-10-amd64", "x86_64", ID, false, E_NO_PACKAGE },
		{ "the same tag, another release", "6.1.0-9_amd64", "x86_64", NULL, false, E_NO_PACKAGE },
		{ "another architecture", RELEASE, "aarch64", ID, false, E_NO_PACKAGE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_site struct site s;
		struct asset_key has = KEY, want = { .kind = &ASSET_HEADERS,
						     .release = rows[i].release,
						     .arch = rows[i].arch,
						     .build_id = rows[i].build_id };
		has.build_id = rows[i].is_id_unknown ? NULL : ID;
		site_make(&s, &has);
		expect(fetch(&s, NULL, &want) == rows[i].code, rows[i].what);
	}
}

static void test_builder_of_a_compiler(void **state)
{
	(void)state;
	static const struct {
		const char *what, *offered, *wanted; // NULL = not named
		bool is_pinned;
		int code;
		const char *tag; // of the copy
	} rows[] = {
		{ "several for any", NULL, NULL, false, 0, "builder-x86_64" },
		{ "several for one", NULL, "gcc-12", false, 0, "builder-x86_64" },
		{ "the one", "gcc-12", "gcc-12", false, 0, "builder-gcc-12-x86_64" },
		{ "another one", "gcc-13", "gcc-12", false, E_NO_PACKAGE, NULL },
		{ "one for any", "gcc-12", NULL, false, E_NO_PACKAGE, NULL },
		{ "several, by digest", NULL, "gcc-12", true, 0, "builder-pinned-gcc-12-x86_64" },
		{ "the one, by digest", "gcc-12", "gcc-12", true, 0, "builder-pinned-gcc-12-x86_64" },
		{ "another one, by digest", "gcc-13", "gcc-12", true, E_NO_PACKAGE, NULL },
		{ "one for any, by digest", "gcc-12", NULL, true, 0, "builder-pinned-x86_64" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_site struct site s;
		struct err err;
		auto_str char *why = NULL;
		char hex[DIGEST_HEX + 1];
		const struct asset_key has = { .kind = &ASSET_BUILDER, .arch = "x86_64", .compiler = rows[i].offered };
		site_make(&s, &has);
		struct asset_key want = { .kind = &ASSET_BUILDER, .arch = "x86_64", .compiler = rows[i].wanted };
		want.digest = rows[i].is_pinned ? s.headers.digest : NULL;
		expect(fetch(&s, NULL, &want) == rows[i].code, rows[i].what);
		if (rows[i].code)
			continue;
		auto_oci_index struct oci_index x = { 0 };
		assert_int_equal(layout_index(&s.store, &x, &err), 0);
		expect(oci_index_find(&x, rows[i].tag) >= 0, rows[i].what);
		expect(asset_find(&s.store, &want, hex, &why, &err) == 1, rows[i].what);
		want.arch = "aarch64";
		expect(asset_find(&s.store, &want, hex, &why, &err) == 0, rows[i].what);
	}
}

static void test_core_of_a_key(void **state)
{
	(void)state;
	static const char OTHER[] = "0123456789abcdee0123456789abcdef0123456789abcdef0123456789abcdef",
			  SAME_TAG[] = "0123456789abcdef1123456789abcdef0123456789abcdef0123456789abcdef",
			  GCC[] = "gcc-12 (Debian 12.2.0-14) 12.2.0";
	static const struct asset_key has = { .kind = &ASSET_CORE,
					      .driver = "595.45.04",
					      .arch = "x86_64",
					      .module = "nvidia",
					      .compiler = GCC,
					      .core = ID };
	static const struct {
		const char *what, *driver, *module, *arch, *core; // wanted
		int code;
	} rows[] = {
		{ "the same", "595.45.04", "nvidia", "x86_64", ID, 0 },
		{ "another key", "595.45.04", "nvidia", "x86_64", OTHER, E_NO_PACKAGE },
		{ "its tag, another key", "595.45.04", "nvidia", "x86_64", SAME_TAG, E_NO_PACKAGE },
		{ "another driver", "595.45.05", "nvidia", "x86_64", ID, E_NO_PACKAGE },
		{ "another module", "595.45.04", "nvidia-modeset", "x86_64", ID, E_NO_PACKAGE },
		{ "another architecture", "595.45.04", "nvidia", "aarch64", ID, E_NO_PACKAGE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_site struct site s;
		const struct asset_key want = { .kind = &ASSET_CORE,
						.driver = rows[i].driver,
						.arch = rows[i].arch,
						.module = rows[i].module,
						.compiler = GCC,
						.core = rows[i].core };
		site_make(&s, &has);
		expect(fetch(&s, NULL, &want) == rows[i].code, rows[i].what);
	}
	auto_str char *tag = asset_tag(&has);
	assert_string_equal(tag, "core-595.45.04-nvidia-0123456789abcdef-x86_64");
}

static void test_names_by_digest(void **state)
{
	(void)state;
	static const struct {
		const char *text, *name; // "" = refused
	} rows[] = {
		{ "sha256:" ID, NULL },
		{ "docker://h/n@sha256:" ID, "docker://h/n" },
		{ "docker://user@h:5000/n@sha256:" ID, "docker://user@h:5000/n" },
		{ "oci:/a@b@sha256:" ID, "oci:/a@b" },
		{ "@sha256:" ID, "" },
		{ "docker://h/n:tag", "" },
		{ "docker://h/n@sha256:0123", "" },
		{ ID, "" },
		{ "", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *name = NULL;
		char hex[DIGEST_HEX + 1];
		bool is_good = !rows[i].name || *rows[i].name;
		expect(asset_parse_pin(rows[i].text, &name, hex) == is_good, rows[i].text);
		expect(!is_good || ((rows[i].name ? str_eq(name, rows[i].name) : !name) && str_eq(hex, ID)),
		       rows[i].text);
	}
}

// A name that maps to the tag of another kernel is only a pointer.
static void test_misleading_tag(void **state)
{
	(void)state;
	auto_site struct site s;
	struct err err;
	struct asset_key plus = { .kind = &ASSET_HEADERS, .release = "6.1.0+x", .arch = "x86_64" },
			 low = { .kind = &ASSET_HEADERS, .release = "6.1.0_x", .arch = "x86_64" };
	site_make(&s, &plus);
	assert_int_equal(fetch(&s, NULL, &low), E_NO_PACKAGE);
	assert_int_equal(fetch(&s, NULL, &plus), 0);
	assert_int_equal(layout_publish(&s.v.l, &s.v.package, "headers-6.1.0_x-x86_64", &err), 0);
	assert_int_equal(fetch(&s, NULL, &plus), E_MANIFEST);
}

static void test_damage_is_found_before_unpacking(void **state)
{
	(void)state;
	auto_site struct site s;
	struct err err = { 0 };
	site_make(&s, &KEY);
	assert_int_equal(fetch(&s, NULL, &KEY), 0);
	auto_strv struct strv names = { 0 };
	assert_int_equal(root_list(&s.store.root, "blobs/sha256", &names, &err), 1);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = layout_blob_path(names.items[i]), *data = NULL;
		size_t len;
		assert_int_equal(root_read(&s.store.root, path, &data, &len, &err), 1);
		if (*data == '{')
			continue;
		data[len / 2] ^= 1;
		assert_int_equal(root_write(&s.store.root, path, data, len, 0644, &err), 0);
	}
	assert_int_equal(asset_unpack(&s.store, s.headers.digest, &s.trees, &err), -1);
	assert_int_equal(err.code, E_STORE_CORRUPT);
	assert_false(root_exists(&s.trees, s.headers.digest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fetched_and_unpacked),
		cmocka_unit_test(test_compared_labels),
		cmocka_unit_test(test_builder_of_a_compiler),
		cmocka_unit_test(test_names_by_digest),
		cmocka_unit_test(test_core_of_a_key),
		cmocka_unit_test(test_misleading_tag),
		cmocka_unit_test(test_damage_is_found_before_unpacking),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
