// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/boot_candidates.h"
#include "tests/unit/tempdir.h"

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
	const struct CMUnitTest tests[] = { cmocka_unit_test(which_kernels_count),
					    cmocka_unit_test(deployments_count) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
