// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/boot_candidates.h"
#include "tests/unit/tempdir.h"

#define OLD "6.1.0-50-cloud-amd64"
#define NEW "6.1.0-56-cloud-amd64"
#define SUM_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SUM_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void make_kernel(const struct folder *f, const char *root, const char *release)
{
	static const char *const files[] = { "modules.builtin", "modules.dep", "vmlinuz" };
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		auto_str char *path = str_fmt("%slib/modules/%s/%s", root, release, files[i]);
		tempdir_write(f, path, "");
	}
}

static void in_order(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	auto_boot_candidates struct boot_candidates c = { 0 }, later = { 0 };
	folder_make(&f);
	make_kernel(&f, "", OLD);
	make_kernel(&f, "", NEW);
	make_kernel(&f, "", "6.1.0-9");
	make_kernel(&f, "", "6.12.1");
	tempdir_write(&f, "lib/modules/6.13-half/kernel/fs/ext4.ko", "");
	tempdir_write(&f, "lib/modules/6.14-gone/updates/dkms/nvidia.ko", "");
	tempdir_write(&f, "lib/modules/6.15 $(reboot)/vmlinuz", "");
	assert_int_equal(boot_candidates_read(&f.root, OLD, NULL, &c, &err), 0);
	assert_int_equal(c.count, 4);
	static const char *const expected[] = { "6.13-half", "6.12.1", NEW, "6.1.0-9" };
	for (size_t i = 0; i < c.count; i++)
		expect(str_eq(c.items[i].release, expected[i]) && c.items[i].is_next == (i < 3), expected[i]);
	assert_string_equal(c.items[0].lacks, "no image");
	assert_null(c.items[1].lacks);
	tempdir_write(&f, "lib/modules/" NEW "/build/Module.symvers", "");
	assert_int_equal(boot_candidates_read(&f.root, OLD, NULL, &later, &err), 0);
	assert_string_not_equal(later.items[2].stamp, c.items[2].stamp);
	assert_string_equal(later.items[1].stamp, c.items[1].stamp);
}

// Whatever its version: the site says that it starts next.
static void of_the_next_root(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	auto_strv struct strv roots = { 0 };
	auto_boot_candidates struct boot_candidates c = { 0 };
	folder_make(&f);
	strv_split(&roots, "/run/slot-b,/run/slot-c", ","); // the second is not mounted
	make_kernel(&f, "", NEW);
	make_kernel(&f, "run/slot-b/", OLD);
	assert_int_equal(boot_candidates_read(&f.root, NEW, &roots, &c, &err), 0);
	assert_int_equal(c.count, 1);
	assert_true(c.items[0].is_next);
	assert_string_equal(c.items[0].where, "run/slot-b");
}

static void of_a_deployment(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	auto_boot_candidates struct boot_candidates c = { 0 };
	folder_make(&f);
	make_kernel(&f, "", OLD);
	make_kernel(&f, "ostree/deploy/coreos/deploy/" SUM_A ".0/usr/", OLD);
	make_kernel(&f, "ostree/deploy/coreos/deploy/" SUM_B ".1/usr/", NEW);
	tempdir_link(&f, "ostree/deploy/coreos/deploy/" SUM_B ".1/lib", "usr/lib");
	tempdir_write(&f, "ostree/deploy/coreos/deploy/" SUM_B ".1.origin", "[origin]\n");
	assert_int_equal(boot_candidates_read(&f.root, OLD, NULL, &c, &err), 0);
	assert_int_equal(c.count, 1);
	assert_true(c.items[0].is_next && !c.items[0].lacks);
	assert_string_equal(c.items[0].release, NEW);
	assert_non_null(strstr(c.items[0].where, SUM_B));
}

static void which_kernels_count(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_strv struct strv found = { 0 }, without = { 0 }, none = { 0 };
	struct err err;
	folder_make(&f);
	assert_int_equal(boot_installed_kernels(&f.root, "6.9", &none, &err), 0);
	assert_int_equal(none.count, 1); // a machine without lib/modules still runs something
	tempdir_write(&f, "lib/modules/6.1-image/vmlinuz", "");
	tempdir_write(&f, "lib/modules/6.2-dep/modules.dep", "");
	tempdir_write(&f, "lib/modules/6.3-boot/updates/x.ko", "");
	tempdir_write(&f, "boot/vmlinuz-6.3-boot", "");
	tempdir_write(&f, "lib/modules/6.4-removed/updates/dkms/nvidia.ko", "");
	tempdir_write(&f, "lib/modules/6.5-running/kernel/x.ko", "");
	assert_int_equal(boot_installed_kernels(&f.root, "6.5-running", &found, &err), 0);
	auto_str char *all = strv_join(&found, " ");
	assert_string_equal(all, "6.1-image 6.2-dep 6.3-boot 6.5-running");
	assert_int_equal(boot_installed_kernels(&f.root, NULL, &without, &err), 0);
	assert_int_equal(without.count, 3);
}

static void deployments_count(void **state)
{
	(void)state;
	static const char DEPLOYMENT[] =
		"ostree/deploy/os/deploy/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.0/usr/lib/"
		"modules";
	auto_folder struct folder f;
	auto_strv struct strv found = { 0 };
	struct err err;
	folder_make(&f);
	auto_str char *staged = str_fmt("%s/6.9-staged/vmlinuz", DEPLOYMENT),
		      *same = str_fmt("%s/6.1-own/x", DEPLOYMENT);
	tempdir_write(&f, "lib/modules/6.1-own/vmlinuz", "");
	tempdir_write(&f, staged, "");
	tempdir_write(&f, same, "");
	assert_int_equal(boot_installed_kernels(&f.root, "6.1-own", &found, &err), 0);
	auto_str char *all = strv_join(&found, " ");
	assert_string_equal(all, "6.1-own 6.9-staged");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),          cmocka_unit_test(of_the_next_root),
		cmocka_unit_test(of_a_deployment),   cmocka_unit_test(which_kernels_count),
		cmocka_unit_test(deployments_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
