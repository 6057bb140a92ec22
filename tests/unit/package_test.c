// SPDX-License-Identifier: Apache-2.0
// A package from its making to its unpacking: create, package, find, stage.
#include "precompiled/package/package.h"
#include "precompiled/package/unpack.h"
#include "tests/unit/test.h"

#include <errno.h>

static struct package_key make_key(const char *driver, const char *release, const char *build_id)
{
	struct package_key key = { .driver = str_dup(driver),
				   .flavour = str_dup("open"),
				   .release = str_dup(release),
				   .build_id = str_dup(build_id),
				   .arch = str_dup("x86_64"),
				   .compiler = str_dup("gcc 12, with a comma") };
	strv_add(&key.modules, str_dup("nvidia"));
	strv_add(&key.modules, str_dup("nvidia-uvm"));
	strv_add(&key.patches, str_dup("a.patch 00"));
	return key;
}

// A layout with the package of two files, in the directory `where` of the folder.
static void make_package(const struct folder *f, const char *where, const struct package_key *key, const char *content,
			 struct package *ret)
{
	struct err err;
	char a[] = "nvidia.ko", b[] = "nvidia-uvm.ko", m[] = "nvidia", n[] = "nvidia-uvm", v[] = "ABC";
	struct package_file files[] = { { .name = a, .module = m, .srcversion = v }, { .name = b, .module = n } };
	auto_root struct root dir = ROOT_NONE, at = ROOT_NONE;
	auto_layout struct layout l = LAYOUT_NONE;
	folder_dir(f, where);
	folder_dir(f, "made");
	folder_file(f, "made/nvidia.ko", content);
	folder_file(f, "made/nvidia-uvm.ko", "uvm");
	assert_int_equal(root_sub(&f->root, "made", &dir, &err), 0);
	assert_int_equal(root_sub(&f->root, where, &at, &err), 0);
	assert_int_equal(layout_make(&at, &l, &err), 0);
	expect(package_create(&l, &dir, key, files, 2, ret, &err) == 0, err.text);
}

static void open_it(const struct folder *f, const char *where, struct layout *ret)
{
	struct err err;
	auto_root struct root at = ROOT_NONE;
	assert_int_equal(root_sub(&f->root, where, &at, &err), 0);
	assert_int_equal(layout_open(&at, ret, &err), 0);
}

static void a_created_package_is_found_and_unpacked(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	auto_package_key struct package_key key = make_key("535.261.03", "6.1.0-56", "aa");
	auto_package struct package made = PACKAGE_NONE, found = PACKAGE_NONE;
	auto_layout struct layout l = LAYOUT_NONE;
	auto_str char *text = NULL;
	folder_make(&f);
	make_package(&f, "l", &key, "the module", &made);
	open_it(&f, "l", &l);
	struct package_want want = {
		.driver = "535.261.03", .release = "6.1.0-56", .build_id = "aa", .arch = "x86_64"
	};
	assert_int_equal(package_find(&l, &want, &found, NULL, &err), 1);
	assert_string_equal(found.manifest.digest, made.manifest.digest);
	assert_string_equal(found.key.compiler, "gcc 12, with a comma");
	assert_null(found.key.source);
	assert_int_equal(found.key.modules.count, 2);
	assert_string_equal(found.key.patches.items[0], "a.patch 00");
	assert_int_equal(found.count, 2);
	assert_string_equal(found.files[0].srcversion, "ABC");
	assert_null(found.files[1].srcversion);
	expect(unpack_package(&l, &f.root, &found, &err) == 0, err.text);
	assert_int_equal(root_read(&found.dir, "nvidia.ko", &text, NULL, &err), 1);
	assert_string_equal(text, "the module");
	package_done(&found);
	assert_int_equal(root_exists(&f.root, ".tmp/stage.0"), false); // it goes with the package
}

// R-I2: wherever and whenever it is made.
static void the_same_files_and_key_give_the_same_digest(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_package_key struct package_key key = make_key("535.261.03", "6.1.0-56", "aa");
	auto_package struct package a = PACKAGE_NONE, b = PACKAGE_NONE, c = PACKAGE_NONE;
	folder_make(&f);
	make_package(&f, "a", &key, "the module", &a);
	make_package(&f, "b", &key, "the module", &b);
	make_package(&f, "c", &key, "another", &c);
	assert_string_equal(a.manifest.digest, b.manifest.digest);
	assert_string_not_equal(a.manifest.digest, c.manifest.digest);
}

// R-F4: kernels with the same release are distinguished; the newest driver wins, then the latest entry.
static void packages_are_found_by_key(void **state)
{
	(void)state;
	static const struct {
		const char *driver, *release, *build_id, *content;
	} made[] = { { "535.216.03", "6.1", "aa", "old" },
		     { "535.261.03", "6.1", "aa", "first" },
		     { "535.261.03", "6.1", "bb", "other build" },
		     { "535.261.03", "6.1", "aa", "second" },
		     { "570.1", "6.12", "cc", "other kernel" } };
	auto_folder struct folder f;
	struct err err;
	char digests[ARRAY_SIZE(made)][DIGEST_HEX + 1];
	auto_layout struct layout l = LAYOUT_NONE;
	auto_str char *why = NULL;
	folder_make(&f);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		auto_package struct package p = PACKAGE_NONE;
		auto_package_key struct package_key key = make_key(made[i].driver, made[i].release, made[i].build_id);
		make_package(&f, "l", &key, made[i].content, &p);
		memcpy(digests[i], p.manifest.digest, sizeof(digests[i]));
	}
	open_it(&f, "l", &l);
	static const struct {
		struct package_want want;
		int expected; // of made, -1 = none
	} rows[] = {
		{ { .release = "6.1", .build_id = "aa" }, 3 },
		{ { .release = "6.1", .build_id = "bb" }, 2 },
		{ { .release = "6.1", .build_id = "aa", .driver = "535.216.03" }, 0 },
		{ { .release = "6.12" }, 4 },
		{ { .release = "6.12", .driver = "535.261.03" }, -1 },
		{ { .release = "6.1", .flavour = "proprietary" }, -1 },
		{ { .release = "6.1", .source = "00" }, -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_package struct package p = PACKAGE_NONE;
		int r = package_find(&l, &rows[i].want, &p, NULL, &err);
		assert_int_equal(r, rows[i].expected >= 0);
		if (r > 0)
			assert_string_equal(p.manifest.digest, digests[rows[i].expected]);
	}
	auto_package struct package none = PACKAGE_NONE;
	assert_int_equal(package_find(&l, &rows[5].want, &none, &why, &err), 0);
	assert_non_null(strstr(why, "flavour is open, wanted proprietary"));
}

// R-N2: one flipped bit, a cut blob, a longer one and a missing one are all found, and nothing unpacked stays.
static void damaged_layers_are_found(void **state)
{
	(void)state;
	static const char *const damages[] = { "flip", "cut", "longer", "empty", "missing" };
	struct err err;
	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		auto_folder struct folder f;
		auto_package_key struct package_key key = make_key("535.261.03", "6.1", "aa");
		auto_package struct package p = PACKAGE_NONE;
		auto_layout struct layout l = LAYOUT_NONE;
		auto_str char *data = NULL;
		size_t len = 0;
		folder_make(&f);
		make_package(&f, "l", &key, "the module", &p);
		auto_str char *path = layout_blob_path(p.layer.digest), *full = str_fmt("l/%s", path);
		assert_int_equal(root_read(&f.root, full, &data, &len, &err), 1);
		data = mem_grow(data, len + 1, 1);
		data[len] = 0;
		data[len / 2] ^= i == 0;
		len = i == 1 ? len - 3 : i == 2 ? len + 1 : i == 3 ? 0 : len;
		assert_int_equal(root_write(&f.root, full, data, len, 0644, &err), 0);
		if (i == 4)
			assert_int_equal(root_unlink(&f.root, full, &err), 1);
		open_it(&f, "l", &l);
		assert_int_equal(unpack_package(&l, &f.root, &p, &err), -1);
		expect(err.code == E_STORE_CORRUPT, damages[i]);
		assert_int_equal(p.dir.fd, -1);
		assert_int_equal(root_exists(&f.root, ".tmp/stage.0"), false);
	}
}

struct slow { // a part that grows by a few bytes each time the reader waits
	struct partial_blob *part;
	const char *data;
	size_t len, step;
	int fails_at, calls;
	bool is_restarted;
};

static int grow(void *ctx, struct err *err)
{
	struct slow *s = ctx;
	size_t left = s->len - s->part->have, n = left < s->step ? left : s->step;
	if (++s->calls == s->fails_at)
		return s->is_restarted ? partial_blob_restart(s->part, err) < 0 ? -1 : 1 :
					 err_set(err, E_NETWORK, "cut");
	return partial_blob_append(s->part, s->data + s->part->have, n, err) < 0 ? -1 : s->part->have < s->len;
}

static void layers_are_unpacked_while_they_arrive(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool is_wrong;
		int fails_at;
		bool is_restarted;
		int code;
	} rows[] = {
		{ "whole", false, 0, false, 0 },
		{ "another content", true, 0, false, E_DIGEST },
		{ "cut", false, 5, false, E_NETWORK },
		{ "started over", false, 5, true, EAGAIN },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		struct err err = { 0 };
		auto_package_key struct package_key key = make_key("535.261.03", "6.1", "aa");
		auto_package struct package p = PACKAGE_NONE;
		auto_layout struct layout from = LAYOUT_NONE, to = LAYOUT_NONE;
		auto_root struct root dir = ROOT_NONE;
		auto_partial_blob struct partial_blob part = PARTIAL_BLOB_NONE;
		auto_str char *data = NULL, *text = NULL;
		folder_make(&f);
		make_package(&f, "from", &key, "the module", &p);
		open_it(&f, "from", &from);
		folder_dir(&f, "to");
		assert_int_equal(root_sub(&f.root, "to", &dir, &err), 0);
		assert_int_equal(layout_make(&dir, &to, &err), 0);
		auto_str char *path = layout_blob_path(p.layer.digest);
		assert_int_equal(root_read(&from.root, path, &data, NULL, &err), 1);
		data[60] ^= rows[i].is_wrong;
		assert_int_equal(partial_blob_open(&to, &p.layer, &part, &err), 0);
		struct slow slow = { .part = &part,
				     .data = data,
				     .len = p.layer.size,
				     .step = 7,
				     .fails_at = rows[i].fails_at,
				     .is_restarted = rows[i].is_restarted };
		struct unpack_stream feed = { .part = &part, .more = grow, .ctx = &slow };
		int r = unpack_stream(&feed, &f.root, &p, &err);
		expect(rows[i].code ? r < 0 && err.code == rows[i].code : r == 0, rows[i].name);
		assert_int_equal(layout_has(&to, p.layer.digest), rows[i].code == 0);
		assert_int_equal(root_exists(&f.root, ".tmp/stage.0"), rows[i].code == 0);
		if (r == 0) {
			assert_int_equal(root_read(&p.dir, "nvidia.ko", &text, NULL, &err), 1);
			assert_string_equal(text, "the module");
		}
	}
}

static void tags_are_only_pointers(void **state)
{
	(void)state;
	auto_package_key struct package_key a = make_key("535.261.03", "6.1+x", "aa"),
					    b = make_key("535.261.03", "6.1~x", "aa");
	auto_str char *tag_a = package_tag(&a), *tag_b = package_tag(&b);
	assert_string_equal(tag_a, "535.261.03-open-6.1_x-x86_64");
	assert_string_equal(tag_a, tag_b);
}

#define FILE_OF(name, module)                                                                             \
	"{\\\"name\\\":\\\"" name "\\\",\\\"module\\\":\\\"" module "\\\",\\\"size\\\":5,\\\"sha256\\\":" \
	"\\\"75b83788bfc2c15b0faff8c39176f5b551f8af29d6605add7023262328111991\\\"}"

// precompiled/SPEC.md: what a reader must refuse, and what it must not care about.
static void labels_that_contradict_each_other_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *name, *modules, *files;
		int result;
	} rows[] = {
		{ "sound", "a,b", FILE_OF("a.ko", "a") "," FILE_OF("b.ko", "b"), 1 },
		{ "two files of a module", "a", FILE_OF("a.ko", "a") "," FILE_OF("a2.ko", "a"), 1 },
		{ "a module without a file", "a,b", FILE_OF("a.ko", "a"), -1 },
		{ "a file without a module", "a", FILE_OF("a.ko", "a") "," FILE_OF("b.ko", "b"), -1 },
		{ "a file twice", "a,b", FILE_OF("a.ko", "a") "," FILE_OF("a.ko", "b"), -1 },
		{ "a file elsewhere", "a", FILE_OF("../a.ko", "a"), -1 },
		{ "a hidden file", "a", FILE_OF(".a.ko", "a"), -1 },
		{ "no files", "a", "", -1 },
		{ "no modules", "", FILE_OF("a.ko", "a"), -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		auto_package struct package p = PACKAGE_NONE;
		auto_str char *config =
			str_fmt("{\"unknown\":1,\"config\":{\"Labels\":{\"io.kmodsmith.format\":\"1\","
				"\"io.kmodsmith.driver\":\"1\",\"io.kmodsmith.flavour\":\"open\","
				"\"io.kmodsmith.kernel.release\":\"6.1\",\"io.kmodsmith.arch\":\"x86_64\","
				"\"io.kmodsmith.unknown\":\"1\",\"io.kmodsmith.modules\":\"%s\","
				"\"io.kmodsmith.files\":\"[%s]\"}}}",
				rows[i].modules, rows[i].files);
		char type[] = PACKAGE_TYPE, layer_type[] = OCI_LAYER;
		struct oci_descriptor layer = { .media_type = layer_type }, d = { 0 };
		struct oci_manifest m = { .artifact_type = type, .layers = &layer, .count = 1 };
		int r = package_parse(&m, &d, config, strlen(config), &p, &err);
		expect(r == rows[i].result, rows[i].name);
		if (r < 0)
			assert_int_equal(err.code, E_MANIFEST);
	}
}

static void labels_are_words(void **state)
{
	(void)state;
	static const struct {
		const char *label, *value;
		int result;
	} rows[] = {
		{ "driver", "535.261.03", 1 },
		{ "driver", "535.261.03\\nx", -1 },
		{ "driver", "../535.261.03", -1 },
		{ "driver", "535 261", -1 },
		{ "flavour", "open\\n", -1 },
		{ "arch", "x86_64\\u001b[2J", -1 },
		{ "modules", "nvidia;nvidia-uvm", -1 },
		{ "kernel.build-id", "00ff", 1 },
		{ "kernel.build-id", "00ff\\n", -1 },
		{ "kernel.build-id", "an id", -1 },
		{ "kernel.release", "6.1.0-1+~^\xc3\xa4", 1 },
		{ "kernel.release", "6.1\\t", -1 },
		{ "kernel.release", "6.1\\u007f", -1 },
		{ "compiler", "gcc (Debian 12.2.0-14) 12.2.0", 1 },
		{ "compiler", "gcc\\r", -1 },
		{ "signer", "a\\nb", -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		auto_package struct package p = PACKAGE_NONE;
		auto_json json_t *json = json_pack(
			"{s:{s:{s:s, s:s, s:s, s:s, s:s, s:s, s:s}}}", "config", "Labels", "io.kmodsmith.format", "1",
			"io.kmodsmith.driver", "1", "io.kmodsmith.flavour", "open", "io.kmodsmith.kernel.release",
			"6.1", "io.kmodsmith.arch", "x86_64", "io.kmodsmith.modules", "nvidia", "io.kmodsmith.files",
			"[{\"name\":\"a.ko\",\"module\":\"nvidia\","
			"\"size\":5,\"sha256\":\"75b83788bfc2c15b0faff8c39176f5b551f8af29d6605ad"
			"d7023262328111991\"}]");
		auto_str char *name = str_fmt("io.kmodsmith.%s", rows[i].label),
			      *text = str_fmt("\"%s\"", rows[i].value);
		json_object_set_new(json_object_get(json_object_get(json, "config"), "Labels"), name,
				    json_loads(text, JSON_DECODE_ANY, NULL));
		char *config = json_dumps(json, 0), type[] = PACKAGE_TYPE, layer_type[] = OCI_LAYER;
		struct oci_descriptor layer = { .media_type = layer_type }, d = { 0 };
		struct oci_manifest m = { .artifact_type = type, .layers = &layer, .count = 1 };
		int r = package_parse(&m, &d, config, strlen(config), &p, &err);
		free(config);
		expect(r == rows[i].result, rows[i].value);
		if (r < 0)
			assert_int_equal(err.code, E_MANIFEST);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_created_package_is_found_and_unpacked),
		cmocka_unit_test(the_same_files_and_key_give_the_same_digest),
		cmocka_unit_test(packages_are_found_by_key),
		cmocka_unit_test(damaged_layers_are_found),
		cmocka_unit_test(layers_are_unpacked_while_they_arrive),
		cmocka_unit_test(tags_are_only_pointers),
		cmocka_unit_test(labels_that_contradict_each_other_are_refused),
		cmocka_unit_test(labels_are_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
