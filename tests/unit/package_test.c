// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package.h"
#include "tests/unit/test.h"

static struct package_key make_key(const char *release, const char *build_id)
{
	struct package_key key = { .driver = str_dup("535.261.03"),
				   .flavour = str_dup("open"),
				   .release = str_dup(release),
				   .build_id = str_dup(build_id),
				   .arch = str_dup("x86_64"),
				   .compiler = str_dup("gcc 12") };
	strv_add(&key.modules, str_dup("nvidia"));
	return key;
}

static void make_package(const struct folder *folder, const char *dir, const char *release, const char *build_id)
{
	struct err err;
	auto_root struct root root = ROOT_NONE;
	auto_package_key struct package_key key = make_key(release, build_id);
	auto_str char *name = str_dup("nvidia.ko"), *module = str_dup("nvidia"), *srcversion = str_dup("ABC");
	auto_str char *file = str_fmt("%s/nvidia.ko", dir);
	struct package_file one = { .name = name, .module = module, .srcversion = srcversion };
	folder_dir(folder, dir);
	folder_file(folder, file, "the module");
	assert_int_equal(root_sub(&folder->root, dir, &root, &err), 0);
	assert_int_equal(package_write(&root, &key, &one, 1, &err), 0);
}

static int reopen(const struct folder *folder, const char *dir, struct package *ret, struct err *err)
{
	auto_root struct root root = ROOT_NONE;
	assert_int_equal(root_sub(&folder->root, dir, &root, err), 0);
	return package_open(&root, ret, err);
}

static void what_is_written_is_read(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_package struct package p = { .dir = ROOT_NONE };
	struct err err;
	folder_make(&f);
	make_package(&f, "p", "6.1.0-56", "aa");
	assert_int_equal(reopen(&f, "p", &p, &err), 0);
	assert_string_equal(p.key.driver, "535.261.03");
	assert_string_equal(p.key.build_id, "aa");
	assert_null(p.key.source);
	assert_int_equal(p.count, 1);
	assert_string_equal(p.files[0].srcversion, "ABC");
	assert_int_equal(p.files[0].size, strlen("the module"));
	assert_int_equal(package_verify(&p, &err), 0);
}

// R-N2: one flipped bit, a cut file and a missing one are all found before anything is believed.
static void altered_files_are_found(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_package struct package p = { .dir = ROOT_NONE };
	struct err err;
	folder_make(&f);
	make_package(&f, "p", "6.1.0-56", NULL);
	assert_int_equal(reopen(&f, "p", &p, &err), 0);
	folder_file(&f, "p/nvidia.ko", "the modulf");
	assert_int_equal(package_verify(&p, &err), -1);
	assert_int_equal(err.code, E_DIGEST);
	folder_file(&f, "p/nvidia.ko", "the mod");
	assert_int_equal(package_verify(&p, &err), -1);
	assert_int_equal(err.code, E_DIGEST);
	assert_int_equal(root_unlink(&f.root, "p/nvidia.ko", &err), 1);
	assert_int_equal(package_verify(&p, &err), -1);
}

static void bad_manifests_are_refused(void **state)
{
	(void)state;
	static const char good[] =
		"{\"format\":1,\"key\":{\"driver\":\"1\",\"flavour\":\"open\",\"release\":\"r\",\"arch\":\"a\"},"
		"\"files\":[{\"name\":\"%s\",\"module\":\"m\",\"size\":%s,\"sha256\":\"%064d\"}]}";
	static const struct {
		const char *name, *file, *size;
		bool is_ok;
	} rows[] = {
		{ "sound", "a.ko", "1", true },           { "path in a name", "../a.ko", "1", false },
		{ "hidden", ".a.ko", "1", false },        { "empty name", "", "1", false },
		{ "negative size", "a.ko", "-1", false }, { "no number", "a.ko", "\"1\"", false },
	};
	auto_folder struct folder f;
	struct err err;
	folder_make(&f);
	folder_dir(&f, "p");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_package struct package p = { .dir = ROOT_NONE };
		char text[512];
		snprintf(text, sizeof(text), good, rows[i].file, rows[i].size, 0);
		folder_file(&f, "p/package.json", text);
		int r = reopen(&f, "p", &p, &err);
		expect((r == 0) == rows[i].is_ok && (r == 0 || err.code == E_STORE_CORRUPT), rows[i].name);
	}
	static const char *const garbage[] = { "", "{", "[]", "{\"format\":2}",
					       "{\"format\":1,\"key\":{},\"files\":[]}" };
	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		auto_package struct package p = { .dir = ROOT_NONE };
		folder_file(&f, "p/package.json", garbage[i]);
		expect(reopen(&f, "p", &p, &err) < 0 && err.code == E_STORE_CORRUPT, garbage[i]);
	}
}

static void names_tell_equal_releases_apart(void **state)
{
	(void)state;
	auto_package_key struct package_key a = make_key("6.1+x", "aa"), b = make_key("6.1+x", "bb");
	auto_str char *name_a = package_name(&a), *name_b = package_name(&b);
	assert_string_not_equal(name_a, name_b); // R-F4
	assert_null(strpbrk(name_a, "+/ "));
	assert_true(str_starts(name_a, "535.261.03-open-6.1_x-x86_64-"));
}

static void kept_packages_are_found_and_whole(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	auto_package struct package p = { .dir = ROOT_NONE }, kept = { .dir = ROOT_NONE }, again = { .dir = ROOT_NONE },
				    found = { .dir = ROOT_NONE }, other = { .dir = ROOT_NONE };
	folder_make(&f);
	make_package(&f, "p", "6.1.0-56", "aa");
	folder_dir(&f, "state/packages");
	auto_root struct root store = ROOT_NONE;
	assert_int_equal(root_sub(&f.root, "state", &store, &err), 0);
	assert_int_equal(reopen(&f, "p", &p, &err), 0);
	assert_int_equal(package_keep(&store, &p, &kept, &err), 0);
	assert_int_equal(package_verify(&kept, &err), 0);
	assert_int_equal(package_keep(&store, &p, &again, &err), 0);
	assert_string_equal(again.dir.name, kept.dir.name);
	// Debris of a killed run and damaged neighbours must not hide it.
	folder_dir(&f, "state/packages/.x.1.tmp");
	folder_dir(&f, "state/packages/broken");
	folder_file(&f, "state/packages/broken/package.json", "{");
	struct package_want want = { .driver = "535.261.03", .release = "6.1.0-56", .build_id = "aa" };
	assert_int_equal(package_find(&store, &want, &found, &err), 1);
	want.build_id = "bb"; // R-F4: same release, another build
	assert_int_equal(package_find(&store, &want, &other, &err), 0);
}

static void another_content_of_the_same_key_replaces_it(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	auto_package struct package a = { .dir = ROOT_NONE }, b = { .dir = ROOT_NONE }, kept = { .dir = ROOT_NONE },
				    again = { .dir = ROOT_NONE };
	auto_root struct root store = ROOT_NONE;
	folder_make(&f);
	make_package(&f, "a", "6.1.0-56", "aa");
	make_package(&f, "b", "6.1.0-56", "aa");
	assert_int_equal(reopen(&f, "a", &a, &err), 0);
	assert_int_equal(reopen(&f, "b", &b, &err), 0);
	folder_file(&f, "b/nvidia.ko", "another module");
	digest_data("another module", strlen("another module"), b.files[0].sha256);
	b.files[0].size = strlen("another module");
	auto_root struct root dir = ROOT_NONE;
	assert_int_equal(root_sub(&f.root, "b", &dir, &err), 0);
	assert_int_equal(package_write(&dir, &b.key, b.files, b.count, &err), 0);
	folder_dir(&f, "state/packages");
	assert_int_equal(root_sub(&f.root, "state", &store, &err), 0);
	assert_int_equal(package_keep(&store, &a, &kept, &err), 0);
	assert_int_equal(package_keep(&store, &b, &again, &err), 0);
	assert_string_equal(again.files[0].sha256, b.files[0].sha256);
	assert_int_equal(package_verify(&again, &err), 0);
}

static void an_altered_package_is_not_kept(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	auto_package struct package p = { .dir = ROOT_NONE }, kept = { .dir = ROOT_NONE };
	auto_root struct root store = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	folder_make(&f);
	make_package(&f, "p", "6.1.0-56", "aa");
	folder_dir(&f, "state/packages");
	assert_int_equal(root_sub(&f.root, "state", &store, &err), 0);
	assert_int_equal(reopen(&f, "p", &p, &err), 0);
	folder_file(&f, "p/nvidia.ko", "something else");
	assert_int_equal(package_keep(&store, &p, &kept, &err), -1);
	assert_int_equal(err.code, E_DIGEST);
	assert_int_equal(root_list(&store, "packages", &names, &err), 1);
	assert_int_equal(names.count, 0); // nothing half-written stays
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(altered_files_are_found),
		cmocka_unit_test(bad_manifests_are_refused),
		cmocka_unit_test(names_tell_equal_releases_apart),
		cmocka_unit_test(kept_packages_are_found_and_whole),
		cmocka_unit_test(another_content_of_the_same_key_replaces_it),
		cmocka_unit_test(an_altered_package_is_not_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
