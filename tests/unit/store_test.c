// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/asset.h"
#include "tests/unit/stored.h"

#include <sys/file.h>

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
	assert_int_equal(store_pin(&s.store, s.hex[1], true, &err), 1);
	assert_int_equal(store_pin(&s.store, s.hex[1], true, &err), 0);
	assert_int_equal(store_pin(&s.store, s.hex[0], true, &err), 1);
	assert_int_equal(store_pin(&s.store, s.hex[1], false, &err), 1);
	assert_int_equal(store_pin(&s.store, s.hex[1], false, &err), 0);
	assert_int_equal(store_roots(&s.store, &r, &err), 0);
	assert_string_equal(r.target, s.hex[0]);
	assert_string_equal(r.last_good, s.hex[1]);
	assert_int_equal(r.pins.count, 1);
	assert_true(store_roots_has(&r, s.hex[0]) && store_roots_has(&r, s.hex[1]));
	assert_false(store_roots_has(&r, s.layer[0]));
}

// If the list of what must stay is unreadable, nothing is removed.
static void damaged_roots(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"",
		"[]",
		"{}",
		"{\"target\":\"x\"}",
		"{\"pins\":{}}",
		"{\"pins\":[\"x\"]}",
		"{\"last-good\":7}",
		"{\"reused\":{}}",
		"{\"reused\":[{}]}",
		"{\"reused\":[{\"release\":\"6.1\",\"build-id\":\"x\",\"digest\":\"y\"}]}"
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
		expect(store_set_target(&s.store, s.hex[0], &err) == 1, rows[i]); // who knows what runs says it anew
		folder_expect(&s.folder, "roots.json.damaged", rows[i]);
		expect(store_roots(&s.store, &r, &err) == 0 && str_eq(r.target, s.hex[0]), rows[i]);
		store_roots_done(&r);
	}
}

#define BUILD_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BUILD_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

// What serves a kernel that it was not made for is found for that build of it, and stays as long as the kernel does.
static void reuses(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_store_roots struct store_roots r = { 0 };
	auto_store_garbage struct store_garbage first = { 0 }, second = { 0 };
	auto_package struct package of = PACKAGE_NONE, taken = PACKAGE_NONE, none = PACKAGE_NONE;
	struct package_want want = { .driver = "535.1", .release = "6.9", .build_id = BUILD_A };
	struct err err;
	setting_make(&s, 3);
	assert_int_equal(store_set_reuse(&s.store, "6.9", BUILD_A, NULL, &err), 0);
	assert_int_equal(store_set_reuse(&s.store, "6.9", BUILD_A, s.hex[0], &err), 1);
	assert_int_equal(store_set_reuse(&s.store, "6.9", BUILD_A, s.hex[0], &err), 0);
	assert_int_equal(store_set_reuse(&s.store, "6.8", BUILD_A, s.hex[1], &err), 1);
	assert_int_equal(store_roots(&s.store, &r, &err), 0);
	assert_int_equal(r.reuse_count, 2);
	assert_string_equal(store_roots_reuse(&r, "6.9", BUILD_A), s.hex[0]);
	assert_null(store_roots_reuse(&r, "6.9", BUILD_B));
	assert_null(store_roots_reuse(&r, "6.9", NULL));
	assert_int_equal(store_find(&s.store, &want, &taken, &err), 1);
	assert_string_equal(taken.manifest.digest, s.hex[0]);
	want.digest = s.hex[1]; // that one and no other
	assert_int_equal(store_find_reused(&s.store, &want, &none, &err), 0);
	want.digest = NULL;
	want.build_id = BUILD_B;
	assert_int_equal(store_find(&s.store, &want, &none, &err), 0);
	want.release = "6.1";
	assert_int_equal(store_find(&s.store, &want, &of, &err), 1);
	assert_string_equal(of.manifest.digest, s.hex[1]);
	strv_add(&s.kernels, str_dup("6.9"));
	assert_int_equal(store_gc(&s.store, &s.kernels, false, &first, &err), 0);
	assert_true(has(&s, 0) && !has(&s, 1) && !has(&s, 2));
	assert_int_equal(store_set_reuse(&s.store, "6.9", BUILD_B, NULL, &err), 1); // another build came instead
	assert_int_equal(store_gc(&s.store, &s.kernels, false, &second, &err), 0);
	assert_false(has(&s, 0));
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

static void gc_removes_what_nothing_needs(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_store_garbage struct store_garbage dry = { 0 }, g = { 0 }, again = { 0 };
	auto_oci_index struct oci_index x = { 0 };
	struct err err;
	setting_make(&s, 4);
	sign(&s, 0, true);
	sign(&s, 0, false);
	sign(&s, 3, true);
	sign(&s, 3, false);
	assert_int_equal(store_set_target(&s.store, s.hex[0], &err), 1);
	assert_int_equal(store_pin(&s.store, s.hex[1], true, &err), 1);
	strv_add(&s.kernels, str_dup("6.2"));
	folder_file(&s.folder, "store/blobs/sha256/.left.part", "123");
	assert_int_equal(store_gc(&s.store, &s.kernels, true, &dry, &err), 0);
	assert_true(has(&s, 3));
	assert_int_equal(store_gc(&s.store, &s.kernels, false, &g, &err), 0);
	assert_true(has(&s, 0) && has(&s, 1) && has(&s, 2) && !has(&s, 3));
	assert_false(layout_has(&s.store.layout, s.layer[3]));
	assert_int_equal(g.packages.count, 1);
	assert_non_null(strstr(g.packages.items[0], s.hex[3]));
	assert_int_equal(g.blobs, 6); // manifest, configuration, layer, two signatures, how it came
	assert_int_equal(g.parts, 1);
	assert_true(g.bytes > 3 && dry.bytes == g.bytes && dry.blobs == g.blobs && dry.parts == g.parts);
	assert_int_equal(layout_index(&s.store.layout, &x, &err), 0);
	assert_int_equal(x.count, 8); // three packages and how they came, two signatures of the first
	assert_int_equal(store_gc(&s.store, &s.kernels, false, &again, &err), 0);
	assert_int_equal(again.blobs + again.parts + again.packages.count, 0);
	expect_sound(&s);
}

// The files of running transfers stay, and nothing is removed while another process has the store open.
static void gc_refuses_while_the_store_is_used(void **state)
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
	assert_int_equal(store_gc(&other, &s.kernels, false, &g, &err), -1); // it still uses the store
	assert_int_equal(err.code, E_LOCKED);
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
	assert_int_equal(store_pin(&s.store, s.hex[0], true, &err), 1);
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

struct replacing {
	struct setting *s;
	char *good;
	size_t len;
	bool is_done;
};

// Another process brings the damaged layer of package 1 anew, once it has been read. That of package 0 stays damaged.
static void replace_layer(void *ctx, uint64_t done, uint64_t total)
{
	struct replacing *r = ctx;
	auto_str char *path = layout_blob_path(r->s->layer[1]);
	struct err err;
	if (r->is_done || done < total)
		return;
	r->is_done = true;
	assert_int_equal(root_put(&r->s->store.layout.root, path, r->good, r->len, 0644, &err), 0);
}

static void verify_spares_what_was_replaced(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_store_report struct store_report report = { 0 };
	struct replacing r = { .s = &s };
	struct err err;
	setting_make(&s, 3);
	auto_str char *path = layout_blob_path(s.layer[1]);
	assert_int_equal(root_read(&s.store.layout.root, path, &r.good, &r.len, &err), 1);
	damage(&s, s.layer[0], 0);
	damage(&s, s.layer[1], 0);
	assert_int_equal(store_verify(&s.store, replace_layer, &r, &report, &err), 1);
	assert_true(r.is_done);
	assert_int_equal(report.count, 1);
	assert_string_equal(report.damage[0].digest, s.layer[0]);
	assert_true(!has(&s, 0) && has(&s, 1) && has(&s, 2));
	expect_sound(&s);
	free(r.good);
}

// What several damaged blobs belong to is lost once, and what none of them belongs to stays.
static void verify_finds_all_damage(void **state)
{
	(void)state;
	enum { PACKAGES = 6 };
	auto_setting struct setting s;
	auto_store_report struct store_report report = { 0 };
	struct err err;
	size_t lost = 0;
	setting_make(&s, PACKAGES);
	for (int i = 0; i < PACKAGES; i += 2) {
		damage(&s, s.layer[i], i % 3);
		damage(&s, s.hex[i], 1);
	}
	assert_int_equal(store_verify(&s.store, NULL, NULL, &report, &err), 1);
	for (size_t i = 0; i < report.count; i++)
		lost += report.damage[i].lost.count;
	assert_int_equal(lost, PACKAGES / 2);
	for (int i = 0; i < PACKAGES; i++)
		expect(has(&s, i) == (i % 2 == 1), s.hex[i]);
	expect_sound(&s);
}

// What the disk has in place of a blob is no file of ours.
static void verify_removes_what_is_no_file(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_store_report struct store_report report = { 0 };
	struct err err;
	setting_make(&s, 2);
	auto_str char *path = layout_blob_path(s.layer[1]);
	assert_int_equal(root_unlink(&s.store.layout.root, path, &err), 1);
	assert_int_equal(root_mkdirs(&s.store.layout.root, path, 0755, &err), 0);
	assert_int_equal(store_verify(&s.store, NULL, NULL, &report, &err), 1);
	assert_int_equal(report.count, 1);
	assert_true(has(&s, 0) && !has(&s, 1));
	expect_sound(&s);
}

static void index_is_rebuilt(void **state)
{
	(void)state;
	static const char *const rows[] = { "", "<html>", "{}", "[1]", NULL };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setting struct setting s;
		auto_store_report struct store_report report = { 0 };
		auto_oci_index struct oci_index x = { 0 };
		struct err err;
		setting_make(&s, 2);
		sign(&s, 1, false);
		if (rows[i])
			folder_file(&s.folder, "store/index.json", rows[i]);
		else
			assert_int_equal(root_unlink(&s.folder.root, "store/index.json", &err), 1);
		expect(store_verify(&s.store, NULL, NULL, &report, &err) == 1, rows[i]);
		expect(report.count == 1 && str_eq(report.damage[0].digest, "index.json"), rows[i]);
		expect(has(&s, 0) && has(&s, 1), rows[i]);
		expect(layout_index(&s.store.layout, &x, &err) == 0 && x.count == 5, rows[i]);
		expect(oci_index_find(&x, "535.1-open-6.1-x86_64") >= 0, rows[i]);
		expect_sound(&s);
	}
}

static void spoil(const struct setting *s, const char *path, int how)
{
	struct err err;
	auto_str char *full = str_fmt("%s/%s", s->folder.path, path);
	assert_int_equal(root_rmtree(&s->folder.root, path, &err), 1);
	switch (how) {
	case 0:
		folder_file(&s->folder, path, "");
		break;
	case 1:
		assert_int_equal(root_write(&s->folder.root, path, (char[300]){ 0 }, 300, 0644, &err), 0);
		break;
	case 2:
		folder_file(&s->folder, path, "{\"imageLayoutVersion\":\"2.0.0\",\"manifests\":7}");
		break;
	case 3:
		assert_int_equal(mkdir(full, 0755), 0);
		break;
	case 4:
		folder_link(&s->folder, "nowhere", path);
		break;
	case 5:
		assert_int_equal(mkfifo(full, 0644), 0);
		break;
	default: // absent
		break;
	}
}

// What the store's own files say, its blobs say, too.
static void own_files_are_made_again(void **state)
{
	(void)state;
	static const char *const files[] = { "index.json", "oci-layout" }, *const kinds[] = {
		"empty", "zeros", "version", "dir", "link", "pipe", "absent"
	};
	for (int i = 0; i < 14; i++) {
		auto_setting struct setting s;
		auto_oci_index struct oci_index x = { 0 };
		struct err err;
		const char *file = files[i % 2];
		auto_str char *path = str_fmt("store/%s", file), *aside = str_fmt("quarantine/%s", file);
		setting_make(&s, 2);
		add_package(&s, 1); // again: nothing new
		sign(&s, 1, false);
		store_done(&s.store);
		spoil(&s, path, i / 2);
		alarm(30);
		expect(store_open(&s.folder.root, 0, &s.store, &err) == 0, kinds[i / 2]);
		alarm(0);
		expect(s.store.repaired.count == 1 && str_starts(s.store.repaired.items[0], file), kinds[i / 2]);
		expect(has(&s, 0) && has(&s, 1), kinds[i / 2]);
		expect(layout_index(&s.store.layout, &x, &err) == 0, kinds[i / 2]);
		expect(oci_index_find(&x, "535.1-open-6.1-x86_64") >= 0, kinds[i / 2]);
		struct stat st;
		expect(root_stat(&s.folder.root, aside, &st, &err) == (i / 2 < 6), kinds[i / 2]);
		folder_expect(&s.folder, "store/oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
		store_done(&s.store);
		assert_int_equal(store_open(&s.folder.root, 0, &s.store, &err), 0);
		assert_int_equal(s.store.repaired.count, 0);
		expect_sound(&s);
	}
}

// Of two packages with one tag the later one has it, as before; and no payload is forgotten.
static void a_new_index_is_as_the_old_one(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_oci_index struct oci_index before = { 0 }, after = { 0 };
	auto_oci_descriptor struct oci_descriptor payload = { 0 };
	auto_root struct root tree = ROOT_NONE;
	struct err err;
	setting_make(&s, 3);
	tempdir_write(&s.folder, "tree/usr/lib/libcuda.so.535.1", "a library");
	assert_int_equal(root_sub(&s.folder.root, "tree", &tree, &err), 0);
	const struct asset_key key = { .kind = &ASSET_PAYLOAD, .driver = "535.1", .arch = "x86_64" };
	assert_int_equal(asset_create(&s.store.layout, &tree, &key, &payload, &err), 0);
	assert_int_equal(layout_index(&s.store.layout, &before, &err), 0);
	assert_true(oci_index_find(&before, "payload-535.1-x86_64") >= 0);
	store_done(&s.store);
	spoil(&s, "store/index.json", 0);
	assert_int_equal(store_open(&s.folder.root, 0, &s.store, &err), 0);
	assert_int_equal(layout_index(&s.store.layout, &after, &err), 0);
	assert_int_equal(after.count, before.count);
	for (size_t i = 0; i < before.count; i++) {
		auto_str char *ref = oci_digest_text(before.items[i].digest);
		int at = oci_index_find(&after, ref);
		assert_true(at >= 0);
		const char *tag = oci_descriptor_annotation(&before.items[i], OCI_REF_NAME);
		assert_true(!tag || str_eq(oci_descriptor_annotation(&after.items[at], OCI_REF_NAME), tag));
	}
}

// Of a process killed between the write of the index and its rename.
static void leftovers_of_a_killed_writer_are_removed(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_store_garbage struct store_garbage dry = { 0 }, done = { 0 };
	struct err err;
	setting_make(&s, 1);
	strv_add(&s.kernels, str_dup("6.0"));
	assert_int_equal(root_put(&s.store.layout.root, ".index.json.4711.tmp", "{", 1, 0644, &err), 0);
	assert_int_equal(store_gc(&s.store, &s.kernels, true, &dry, &err), 0);
	assert_true(root_exists(&s.store.layout.root, ".index.json.4711.tmp"));
	assert_int_equal(store_gc(&s.store, &s.kernels, false, &done, &err), 0);
	assert_false(root_exists(&s.store.layout.root, ".index.json.4711.tmp"));
	assert_true(has(&s, 0));
	expect_sound(&s);
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
	// what stands in its place there does not keep it here
	auto_str char *other = str_fmt("quarantine/%s/other", s.layer[1]);
	assert_int_equal(root_mkdirs(&s.store.state, other, 0755, &err), 0);
	assert_int_equal(store_quarantine(&s.store, s.layer[1], NULL, &err), 0);
	assert_false(has(&s, 1));
	auto_str char *blob = layout_blob_path(s.layer[1]);
	assert_false(root_exists(&s.store.layout.root, blob));
	expect_sound(&s);
}

// Calls that read, of this process so far.
static unsigned long reads(void)
{
	unsigned long count = 0;
	FILE *f = fopen("/proc/self/io", "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "rchar: %*u wchar: %*u syscr: %lu", &count), 1);
	fclose(f);
	return count;
}

static void look_at_each(struct setting *s, int packages)
{
	struct err err;
	const struct trust_now now = { .is_absent = true };
	for (int i = 0; i < packages; i++)
		assert_int_equal(provenance_check(&s->store.layout, s->hex[i], &now, NULL, &err), 0);
}

static void collect(struct setting *s, int packages)
{
	struct err err;
	auto_store_garbage struct store_garbage g = { 0 };
	assert_int_equal(store_gc(&s->store, &s->kernels, true, &g, &err), 0);
	assert_int_equal(g.packages.count, packages);
}

static void make_room(struct setting *s, int packages)
{
	struct err err;
	s->store.limit = 30000;
	assert_int_equal(store_room(&s->store, 29900, &s->kernels, &err), 0); // takes all of them
	assert_false(has(s, packages - 1));
}

static void verify_damaged(struct setting *s, int packages)
{
	struct err err;
	auto_store_report struct store_report report = { 0 };
	for (int i = 0; i < packages; i++)
		damage(s, s->layer[i], 1);
	assert_int_equal(store_verify(&s->store, NULL, NULL, &report, &err), 1);
	assert_int_equal(report.count, packages);
}

// Eight times the packages: at most n log n as many calls, where one search of all for each would be 64 times.
static void test_growth(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		void (*run)(struct setting *s, int packages);
	} rows[] = { { "origins", look_at_each },
		     { "collection", collect },
		     { "room", make_room },
		     { "verify", verify_damaged } };
	enum { FEW = 4, MANY = 32, MOST = 8 * 5 / 2 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned long used[2];
		for (int k = 0; k < 2; k++) {
			auto_setting struct setting s;
			setting_make(&s, k ? MANY : FEW);
			unsigned long before = reads();
			rows[i].run(&s, k ? MANY : FEW);
			used[k] = reads() - before;
		}
		expect(used[1] <= MOST * used[0], rows[i].what);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roots),
		cmocka_unit_test(damaged_roots),
		cmocka_unit_test(reuses),
		cmocka_unit_test(sizes),
		cmocka_unit_test(gc_removes_what_nothing_needs),
		cmocka_unit_test(gc_refuses_while_the_store_is_used),
		cmocka_unit_test(room),
		cmocka_unit_test(verify_finds_damage),
		cmocka_unit_test(verify_spares_what_was_replaced),
		cmocka_unit_test(verify_finds_all_damage),
		cmocka_unit_test(verify_removes_what_is_no_file),
		cmocka_unit_test(index_is_rebuilt),
		cmocka_unit_test(own_files_are_made_again),
		cmocka_unit_test(a_new_index_is_as_the_old_one),
		cmocka_unit_test(leftovers_of_a_killed_writer_are_removed),
		cmocka_unit_test(readers_can_quarantine),
		cmocka_unit_test(test_growth),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
