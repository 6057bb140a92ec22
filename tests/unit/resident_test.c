// SPDX-License-Identifier: Apache-2.0
// R-Q1: whose driver a node has, on machines made of files: none, the host's package (no program of the driver is
// there), what somebody left behind, ours.
#include "host/existing_driver.h"

#include "precompiled/package/package.h"
#include "precompiled/store/store.h"
#include "tests/unit/forge.h"
#include "tests/unit/tempdir.h"

#define FILE_PATH "lib/modules/6.1/updates/dkms/nvidia-current.ko"

struct row {
	const char *name;
	const char *loaded;                    // srcversion of nvidia in the kernel; NULL = not loaded, "" = not told
	unsigned refcount;                     // of it; nvidia_uvm holds it once
	const char *file, *license;            // srcversion and license of the host's file; NULL = none
	const char *stored;                    // srcversion of a package of 535.2 in the store
	enum { OWN, OTHER, TAKEN } made;       // for this kernel; for another one; for that, and taken for this one
	const char *noted;                     // srcversion at the time of our note; NULL = none was made
	bool is_note_of_other_boot, is_listed; // is_listed: in a blacklist
	bool is_foreign, is_stale;
	enum module_type flavour;
};

static const struct row rows[] = {
	{ .name = "none" },
	{ .name = "a package of the host",
	  .loaded = "H",
	  .refcount = 4,
	  .file = "H",
	  .license = "Dual MIT/GPL",
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "used by nobody it is still the host's",
	  .loaded = "H",
	  .refcount = 1,
	  .file = "H",
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "its package was upgraded meanwhile",
	  .loaded = "H",
	  .refcount = 1,
	  .file = "I",
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "left behind",
	  .loaded = "H",
	  .refcount = 1,
	  .is_foreign = true,
	  .is_stale = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "without a file, and in use",
	  .loaded = "H",
	  .refcount = 4,
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "ours by the store", .loaded = "S", .refcount = 4, .stored = "S" },
	{ .name = "ours by the store, although the host has one, too", .loaded = "S", .file = "H", .stored = "S" },
	{ .name = "not that of the store",
	  .loaded = "H",
	  .refcount = 4,
	  .stored = "S",
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "a package of another kernel has it",
	  .loaded = "S",
	  .refcount = 4,
	  .stored = "S",
	  .made = OTHER,
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "a package of another kernel that was taken",
	  .loaded = "S",
	  .refcount = 4,
	  .stored = "S",
	  .made = TAKEN },
	{ .name = "one was taken, and what is loaded is not of it",
	  .loaded = "H",
	  .refcount = 4,
	  .stored = "S",
	  .made = TAKEN,
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "ours by the note", .loaded = "N", .refcount = 4, .noted = "N" },
	{ .name = "the note is of another module",
	  .loaded = "H",
	  .refcount = 4,
	  .noted = "N",
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "the note is of another boot",
	  .loaded = "N",
	  .refcount = 4,
	  .noted = "N",
	  .is_note_of_other_boot = true,
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "a kernel that tells no srcversion, ours by the note", .loaded = "", .refcount = 4, .noted = "" },
	{ .name = "a kernel that tells no srcversion, ours by the version", .loaded = "", .stored = "S" },
	{ .name = "a kernel that tells no srcversion, not ours",
	  .loaded = "",
	  .refcount = 4,
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "installed only",
	  .file = "H",
	  .license = "NVIDIA",
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_PROPRIETARY },
	{ .name = "installed only, and the open one",
	  .file = "H",
	  .license = "Dual MIT/GPL",
	  .is_foreign = true,
	  .flavour = MODULE_TYPE_OPEN },
	{ .name = "installed, and kept from being loaded", .file = "H", .is_listed = true },
	{ .name = "installed, and the same as ours", .file = "S", .stored = "S" },
};

static void load(const struct folder *t, const struct row *row)
{
	auto_str char *refcount = str_fmt("%u\n", row->refcount);
	tempdir_write(t, "sys/module/nvidia/initstate", "live\n");
	tempdir_write(t, "sys/module/nvidia/refcnt", refcount);
	tempdir_link(t, "sys/module/nvidia/holders/nvidia_uvm", "../../nvidia_uvm");
	tempdir_write(t, "sys/module/nvidia_uvm/initstate", "live\n");
	tempdir_write(t, "sys/module/nvidia_uvm/refcnt", "0\n");
	tempdir_write(t, "proc/driver/nvidia/version",
		      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.2  Release Build\n");
}

static void tell_srcversion(const struct folder *t, const char *srcversion)
{
	if (srcversion && *srcversion)
		tempdir_write(t, "sys/module/nvidia/srcversion", srcversion);
}

static void install(const struct folder *t, const struct row *row)
{
	char extra[64];
	size_t len;
	int used = snprintf(extra, sizeof(extra), "version=535.2%csrcversion=%s", 0, row->file);
	extra[used + 1] = '\0';
	struct forge_module m = { .name = "nvidia", .vermagic = "6.1 ", .license = row->license, .extra = extra };
	auto_str char *ko = forge_ko(&m, &len);
	tempdir_data(t, FILE_PATH, ko, len);
	tempdir_write(t, "lib/modules/6.1/modules.dep", "updates/dkms/nvidia-current.ko: kernel/x.ko\n");
}

#define BUILD "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void keep(const struct folder *t, const struct row *row, struct store *store)
{
	struct err err;
	auto_root struct root dir = ROOT_NONE;
	auto_package struct package p = PACKAGE_NONE;
	char driver[] = "535.2", flavour[] = "open", release[] = "6.1", other[] = "6.0", arch[] = "x86_64",
	     module[] = "nvidia", file[] = "nvidia.ko";
	auto_str char *version = str_dup(row->stored);
	struct package_key key = {
		.driver = driver, .flavour = flavour, .release = row->made == OWN ? release : other, .arch = arch
	};
	struct package_file files = { .name = file, .module = module, .srcversion = version };
	strv_add(&key.modules, str_dup("nvidia"));
	tempdir_write(t, "new/nvidia.ko", "a module");
	assert_int_equal(root_sub(&t->root, "new", &dir, &err), 0);
	assert_int_equal(package_create(&store->layout, &dir, &key, &files, 1, &p, &err), 0);
	strv_done(&key.modules);
	if (row->made == TAKEN)
		assert_int_equal(store_set_reuse(store, release, BUILD, p.manifest.digest, &err), 1);
}

static void note(const struct folder *t, const struct row *row)
{
	struct err err;
	auto_strv struct strv modules = { 0 };
	strv_add(&modules, str_dup("nvidia"));
	tell_srcversion(t, row->noted);
	const char *boot = row->is_note_of_other_boot ? "b0" : "b1";
	assert_int_equal(existing_driver_note(&t->root, &t->root, boot, &modules, NULL, &err), 0);
}

static void check(const struct row *row, const struct existing_driver *r)
{
	expect(r->is_foreign == row->is_foreign, row->name);
	expect(r->is_loaded == (row->is_foreign && row->loaded), row->name);
	expect(r->is_stale == row->is_stale, row->name);
	expect(r->flavour == row->flavour, row->name);
	expect(str_eq(r->version, "535.2") == row->is_foreign, row->name);
	expect(str_eq(r->file, FILE_PATH) == (row->is_foreign && row->file), row->name);
}

static void check_row(const struct row *row)
{
	auto_folder struct folder t;
	auto_store struct store store = STORE_NONE;
	auto_modules struct modules loaded = { 0 };
	auto_existing_driver struct existing_driver existing_driver = { 0 };
	auto_strv struct strv blacklist = { 0 };
	char release[] = "6.1", boot[] = "b1";
	struct host facts = { .release = release, .boot_id = boot, .build_id = BUILD };
	struct err err;
	folder_make(&t);
	if (row->loaded)
		load(&t, row);
	if (row->noted)
		note(&t, row);
	tell_srcversion(&t, row->loaded);
	if (row->file)
		install(&t, row);
	if (row->is_listed)
		strv_add(&blacklist, str_dup("nvidia"));
	assert_int_equal(store_open(&t.root, 0, &store, &err), 0);
	if (row->stored)
		keep(&t, row, &store);
	assert_true(modules_read(&t.root, &t.root, "6.1", &loaded, &err) >= 0);
	expect(existing_driver_read(&t.root, &facts, &loaded, row->stored ? &store : NULL, &blacklist, &existing_driver,
				    &err) == 0,
	       row->name);
	check(row, &existing_driver);
}

static void tells_our_driver_from_the_hosts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

static void describes_it_in_one_line(void **state)
{
	(void)state;
	char version[] = "535.2", file[] = FILE_PATH;
	struct existing_driver r = { .version = version, .flavour = MODULE_TYPE_OPEN, .file = file };
	auto_str char *text = existing_driver_text(&r);
	assert_string_equal(text, "535.2 (open, from " FILE_PATH ")");
	auto_str char *nothing = existing_driver_text(&(struct existing_driver){ 0 });
	assert_string_equal(nothing, "unknown version (unknown module type, no file on the host)");
}

static void notes_accumulate(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_strv struct strv first = { 0 }, second = { 0 };
	folder_make(&t);
	tempdir_write(&t, "sys/module/nvidia/srcversion", "A\n");
	tempdir_write(&t, "sys/module/nvidia_uvm/srcversion", "B\n");
	strv_add(&first, str_dup("nvidia"));
	strv_add(&second, str_dup("nvidia-uvm"));
	assert_int_equal(existing_driver_note(&t.root, &t.root, "b1", &first, NULL, &err), 0);
	assert_int_equal(existing_driver_note(&t.root, &t.root, "b1", &second, NULL, &err), 0);
	folder_expect(&t, "run/kmodsmith/loaded.json",
		      "{\n  \"boot_id\": \"b1\",\n  \"modules\": {\n    \"nvidia\": \"A\",\n    \"nvidia_uvm\": "
		      "\"B\"\n  }\n}\n");
	assert_int_equal(existing_driver_note(&t.root, &t.root, "b2", &second, NULL, &err),
			 0); // what another boot loaded is gone
	folder_expect(&t, "run/kmodsmith/loaded.json",
		      "{\n  \"boot_id\": \"b2\",\n  \"modules\": {\n    \"nvidia_uvm\": \"B\"\n  }\n}\n");
}

// What the loaded modules were made for: only as long as they are those of the note.
static void remembers_the_kernel_of_the_package(void **state)
{
	(void)state;
	auto_folder struct folder t;
	auto_modules struct modules now = { 0 }, later = { 0 };
	auto_strv struct strv modules = { 0 };
	struct err err;
	folder_make(&t);
	load(&t, &rows[0]);
	tempdir_write(&t, "sys/module/nvidia/srcversion", "A\n");
	strv_add(&modules, str_dup("nvidia"));
	assert_int_equal(existing_driver_note(&t.root, &t.root, "b1", &modules, "6.0", &err), 0);
	assert_true(modules_read(&t.root, &t.root, "6.1", &now, &err) >= 0);
	auto_str char *made_for = existing_driver_made_for(&t.root, "b1", &now);
	assert_string_equal(made_for, "6.0");
	assert_null(existing_driver_made_for(&t.root, "b2", &now));
	assert_null(existing_driver_made_for(&t.root, "b1", &later)); // nothing is loaded
	folder_file(&t, "sys/module/nvidia/srcversion", "B\n");
	assert_true(modules_read(&t.root, &t.root, "6.1", &later, &err) >= 0);
	assert_null(existing_driver_made_for(&t.root, "b1", &later));
	assert_int_equal(existing_driver_note(&t.root, &t.root, "b1", &modules, NULL, &err), 0);
	assert_null(existing_driver_made_for(&t.root, "b1", &later));
}

static void policies(void **state)
{
	(void)state;
	static const char *const names[] = { "fail", "use", "replace" };
	enum host_policy policy;
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		assert_true(host_policy_parse(names[i], &policy));
		assert_int_equal(policy, i);
	}
	assert_false(host_policy_parse("keep", &policy));
	assert_false(host_policy_parse("", &policy));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_our_driver_from_the_hosts),
		cmocka_unit_test(describes_it_in_one_line),
		cmocka_unit_test(notes_accumulate),
		cmocka_unit_test(remembers_the_kernel_of_the_package),
		cmocka_unit_test(policies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
