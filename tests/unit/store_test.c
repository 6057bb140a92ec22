// SPDX-License-Identifier: Apache-2.0
#include "precompiled/create.h"
#include "precompiled/store.h"
#include "tests/unit/tempdir.h"

#include <sys/file.h>
#include <utime.h>

struct setting {
	struct folder folder;
	struct store store;
	struct strv kernels;
	char hex[4][DIGEST_HEX + 1];   // manifests of the packages
	char layer[4][DIGEST_HEX + 1]; // and their layers
};

// Package i: kernel 6.i, a module of some bytes; the later it comes, the younger it is.
static void add_package(struct setting *s, int i)
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
	assert_int_equal(create_package(&s->store.layout, &dir, &key, &files, 1, &p, &err), 0);
	strv_done(&key.modules);
	memcpy(s->hex[i], p.manifest.digest, sizeof(s->hex[i]));
	memcpy(s->layer[i], p.layer.digest, sizeof(s->layer[i]));
	auto_str char *blob = layout_blob_path(s->hex[i]), *path = str_fmt("%s/%s", s->store.layout.root.name, blob);
	assert_int_equal(utime(path, &(struct utimbuf){ 1000 + i, 1000 + i }), 0);
}

static void sign(struct setting *s, int i, bool by_tag)
{
	struct err err;
	auto_descriptor struct descriptor d = { .media_type = str_dup(OCI_MANIFEST) }, empty = { 0 };
	empty.media_type = str_dup(OCI_EMPTY);
	empty.size = 2;
	assert_int_equal(layout_blob_put(&s->store.layout, "{}", 2, empty.digest, &err), 0);
	struct manifest m = { .config = empty };
	auto_str char *about = str_fmt("about %d", i), *tag = str_fmt("sha256-%s.sig", s->hex[i]);
	m.annotations = json_pack("{s:s}", "who", about);
	if (!by_tag) {
		m.subject = empty;
		memcpy(m.subject.digest, s->hex[i], sizeof(m.subject.digest));
	}
	auto_str char *text = manifest_text(&m);
	json_decref(m.annotations);
	d.size = strlen(text);
	assert_int_equal(layout_blob_put(&s->store.layout, text, d.size, d.digest, &err), 0);
	assert_int_equal(layout_publish(&s->store.layout, &d, by_tag ? tag : NULL, &err), 0);
}

static void setting_make(struct setting *s, int packages)
{
	struct err err;
	*s = (struct setting){ .store = STORE_NONE };
	folder_make(&s->folder);
	assert_int_equal(store_open(&s->folder.root, 0, &s->store, &err), 0);
	for (int i = 0; i < packages; i++)
		add_package(s, i);
}

static void setting_done(struct setting *s)
{
	strv_done(&s->kernels);
	store_done(&s->store);
	folder_done(&s->folder);
}
#define auto_setting __attribute__((cleanup(setting_done)))

static bool has(const struct setting *s, int i)
{
	struct err err;
	auto_index struct index x = { 0 };
	auto_str char *ref = oci_digest_text(s->hex[i]);
	assert_int_equal(layout_index(&s->store.layout, &x, &err), 0);
	bool is_listed = index_find(&x, ref) >= 0;
	if (is_listed)
		assert_true(layout_has(&s->store.layout, s->hex[i]) && layout_has(&s->store.layout, s->layer[i]));
	return is_listed;
}

static void expect_sound(const struct setting *s)
{
	struct err err;
	auto_store_report struct store_report report = { 0 };
	assert_int_equal(store_verify(&s->store, NULL, NULL, &report, &err), 0);
}

static void roots(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_store_roots struct store_roots r = { 0 };
	struct err err;
	setting_make(&s, 2);
	assert_int_equal(store_roots(&s.store, &r, &err), 0);
	assert_true(!r.target && !r.last_good && !r.pins.count);
	assert_int_equal(store_set_target(&s.store, s.hex[0], &err), 1);
	assert_int_equal(store_set_target(&s.store, s.hex[0], &err), 0);
	assert_int_equal(store_set_last_good(&s.store, s.hex[1], &err), 1);
	assert_int_equal(store_pin(&s.store, s.hex[1], &err), 1);
	assert_int_equal(store_pin(&s.store, s.hex[1], &err), 0);
	assert_int_equal(store_pin(&s.store, s.hex[0], &err), 1);
	assert_int_equal(store_unpin(&s.store, s.hex[1], &err), 1);
	assert_int_equal(store_unpin(&s.store, s.hex[1], &err), 0);
	assert_int_equal(store_roots(&s.store, &r, &err), 0);
	assert_string_equal(r.target, s.hex[0]);
	assert_string_equal(r.last_good, s.hex[1]);
	assert_int_equal(r.pins.count, 1);
	assert_true(store_roots_has(&r, s.hex[0]) && store_roots_has(&r, s.hex[1]));
	assert_false(store_roots_has(&r, s.layer[0]));
}

// Who cannot read what must stay takes nothing away.
static void damaged_roots(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"", "[]", "{\"target\":\"x\"}", "{\"pins\":{}}", "{\"pins\":[\"x\"]}", "{\"last-good\":7}"
	};
	auto_setting struct setting s;
	setting_make(&s, 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_store_garbage struct store_garbage g = { 0 };
		struct store_roots r;
		struct err err = { 0 };
		folder_file(&s.folder, "roots.json", rows[i]);
		expect(store_roots(&s.store, &r, &err) == -1 && err.code == E_STORE_CORRUPT, rows[i]);
		expect(store_gc(&s.store, &s.kernels, false, &g, &err) == -1, rows[i]);
		expect(has(&s, 0), rows[i]);
	}
}

static void sizes(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t size;
	} rows[] = { { "0", 0 }, { "1", 1 }, { "3K", 3072 }, { "500M", 500ull << 20 }, { "2G", 2ull << 30 } };
	static const char *const bad[] = {
		"", "K", "-1", "1.5G", "5k", "5MB", "1 G", "99999999999999999999", "18446744073709551615K"
	};
	uint64_t size;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(store_size_parse(rows[i].text, &size) && size == rows[i].size, rows[i].text);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect(!store_size_parse(bad[i], &size), bad[i]);
}

static void gc_takes_what_nothing_holds(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_store_garbage struct store_garbage dry = { 0 }, g = { 0 }, again = { 0 };
	auto_index struct index x = { 0 };
	struct err err;
	setting_make(&s, 4);
	sign(&s, 0, true);
	sign(&s, 0, false);
	sign(&s, 3, true);
	sign(&s, 3, false);
	assert_int_equal(store_set_target(&s.store, s.hex[0], &err), 1);
	assert_int_equal(store_pin(&s.store, s.hex[1], &err), 1);
	strv_add(&s.kernels, str_dup("6.2"));
	folder_file(&s.folder, "store/blobs/sha256/.left.part", "123");
	assert_int_equal(store_gc(&s.store, &s.kernels, true, &dry, &err), 0);
	assert_true(has(&s, 3));
	assert_int_equal(store_gc(&s.store, &s.kernels, false, &g, &err), 0);
	assert_true(has(&s, 0) && has(&s, 1) && has(&s, 2) && !has(&s, 3));
	assert_false(layout_has(&s.store.layout, s.layer[3]));
	assert_int_equal(g.packages.count, 1);
	assert_non_null(strstr(g.packages.items[0], s.hex[3]));
	assert_int_equal(g.blobs, 5); // manifest, configuration, layer, two signatures
	assert_int_equal(g.parts, 1);
	assert_true(g.bytes > 3 && dry.bytes == g.bytes && dry.blobs == g.blobs && dry.parts == g.parts);
	assert_int_equal(layout_index(&s.store.layout, &x, &err), 0);
	assert_int_equal(x.count, 5); // three packages, two signatures of the first
	assert_int_equal(store_gc(&s.store, &s.kernels, false, &again, &err), 0);
	assert_int_equal(again.blobs + again.parts + again.packages.count, 0);
	expect_sound(&s);
}

// What a transfer writes stays, and nothing goes while somebody else has the store open.
static void gc_leaves_others_alone(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_store_garbage struct store_garbage g = { 0 };
	auto_store struct store other = STORE_NONE;
	struct err err;
	setting_make(&s, 1);
	folder_file(&s.folder, "store/blobs/sha256/.busy.part", "123");
	auto_fd int fd = root_open(&s.store.layout.root, "blobs/sha256/.busy.part", O_RDWR, &err);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(store_open(&s.folder.root, 0, &other, &err), 0);
	assert_int_equal(store_gc(&s.store, &s.kernels, false, &g, &err), -1);
	assert_int_equal(err.code, E_LOCKED);
	assert_true(has(&s, 0));
	store_done(&other);
	assert_int_equal(store_gc(&s.store, &s.kernels, false, &g, &err), 0);
	assert_false(has(&s, 0));
	assert_true(root_exists(&s.store.layout.root, "blobs/sha256/.busy.part"));
	assert_int_equal(store_open(&s.folder.root, 0, &other, &err), 0); // it is shared again
}

static void room(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_store_garbage struct store_garbage g = { 0 };
	struct err err;
	setting_make(&s, 4);
	assert_int_equal(store_pin(&s.store, s.hex[0], &err), 1);
	assert_int_equal(store_gc(&s.store, &s.kernels, true, &g, &err), 0);
	uint64_t each = g.bytes / 3; // all of about the same size
	s.store.limit = 4 * each + each / 2;
	assert_int_equal(store_room(&s.store, each / 4, &s.kernels, &err), 0);
	assert_true(has(&s, 1));
	assert_int_equal(store_room(&s.store, each, &s.kernels, &err), 0);
	assert_true(has(&s, 0) && !has(&s, 1) && has(&s, 2)); // the oldest, and only as much as it takes
	strv_add(&s.kernels, str_dup("6.2"));
	assert_int_equal(store_room(&s.store, 3 * each, &s.kernels, &err), -1);
	assert_int_equal(err.code, E_STORE_FULL);
	assert_non_null(strstr(err.text, " bytes"));
	assert_true(has(&s, 0) && has(&s, 2) && has(&s, 3)); // in vain takes nothing
	s.store.limit = 0;
	assert_int_equal(store_room(&s.store, UINT64_MAX / 2, &s.kernels, &err), -1); // the disk
	assert_int_equal(err.code, E_STORE_FULL);
	expect_sound(&s);
}

static void damage(struct setting *s, const char *hex, int how)
{
	auto_str char *blob = layout_blob_path(hex), *path = str_fmt("%s/%s", s->store.layout.root.name, blob);
	char byte;
	auto_fd int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	switch (how) {
	case 0:
		assert_int_equal(pread(fd, &byte, 1, 20), 1);
		byte ^= 4;
		assert_int_equal(pwrite(fd, &byte, 1, 20), 1);
		break;
	case 1:
		assert_int_equal(ftruncate(fd, 7), 0);
		break;
	default:
		assert_int_equal(unlink(path), 0);
	}
}

static void verify_finds_damage(void **state)
{
	(void)state;
	static const char *const what[] = { "flipped", "cut", "missing" };
	for (int how = 0; how < 3; how++) {
		for (int of = 0; of < 2; of++) { // layer, manifest
			auto_setting struct setting s;
			auto_store_report struct store_report report = { 0 };
			struct err err;
			setting_make(&s, 2);
			const char *hex = of ? s.hex[1] : s.layer[1];
			auto_str char *aside = str_fmt("quarantine/%s", hex);
			damage(&s, hex, how);
			expect(store_verify(&s.store, NULL, NULL, &report, &err) == 1, what[how]);
			expect(report.count == 1 && str_eq(report.damage[0].digest, hex), what[how]);
			expect(report.damage[0].lost.count == 1, what[how]);
			expect(str_eq(report.damage[0].lost.items[0], "535.1-open-6.1-x86_64"), what[how]);
			expect(has(&s, 0) && !has(&s, 1) && !layout_has(&s.store.layout, hex), what[how]);
			expect(root_exists(&s.folder.root, aside) == (how < 2), what[how]);
			expect_sound(&s);
			add_package(&s, 1); // it can be brought again
			expect_sound(&s);
			expect(has(&s, 1), what[how]);
		}
	}
}

static void readers_can_quarantine(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_strv struct strv lost = { 0 };
	struct err err;
	setting_make(&s, 2);
	assert_int_equal(store_quarantine(&s.store, s.layer[0], &lost, &err), 0);
	assert_int_equal(lost.count, 1);
	assert_true(!has(&s, 0) && has(&s, 1));
	assert_int_equal(store_quarantine(&s.store, s.layer[0], NULL, &err), 0); // gone already
	expect_sound(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roots),
		cmocka_unit_test(damaged_roots),
		cmocka_unit_test(sizes),
		cmocka_unit_test(gc_takes_what_nothing_holds),
		cmocka_unit_test(gc_leaves_others_alone),
		cmocka_unit_test(room),
		cmocka_unit_test(verify_finds_damage),
		cmocka_unit_test(readers_can_quarantine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
