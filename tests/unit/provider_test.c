// SPDX-License-Identifier: Apache-2.0
// R-P9: only what is needed is loaded, in the order of modules.dep; what is loaded already is fine.
#include "kmod/load/provider.h"
#include "tests/unit/forge.h"
#include "tests/unit/test.h"

#include "tests/unit/tempdir.h"

#define K "lib/modules/6.1.0-9-amd64/"

static void put_module(const struct folder *f, const char *path, const char *name)
{
	struct forge_module ko = { .name = name, .vermagic = "6.1.0-9-amd64 SMP" };
	size_t len;
	auto_str char *data = forge_ko(&ko, &len);
	tempdir_data(f, path, data, len);
}

static void make_host(struct folder *f)
{
	folder_make(f);
	put_module(f, K "kernel/drivers/gpu/drm/drm.ko", "drm");
	put_module(f, K "kernel/drivers/gpu/drm/drm_kms_helper.ko", "drm_kms_helper");
	put_module(f, K "kernel/drivers/i2c/i2c-core.ko", "i2c_core");
	tempdir_write(f, K "modules.dep",
		      "kernel/drivers/gpu/drm/drm_kms_helper.ko: kernel/drivers/gpu/drm/drm.ko "
		      "kernel/drivers/i2c/i2c-core.ko\n"
		      "kernel/drivers/gpu/drm/drm.ko: kernel/drivers/i2c/i2c-core.ko\nkernel/drivers/i2c/i2c-core.ko:\n"
		      "kernel/drivers/gone.ko:\n");
	folder_dir(f, "sys/module");
}

static int load(struct folder *f, const char *need, struct err *err)
{
	struct sys sys = sys_recorder(&f->root);
	return provider_load(&f->root, &f->root, &sys, "6.1.0-9-amd64", need, 0, err);
}

static void loads_what_is_needed_in_order(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder f;
	make_host(&f);
	assert_int_equal(load(&f, "drivers/gpu/drm/drm_kms_helper", &err), 1);
	folder_expect(&f, ".sys-calls", "load i2c_core \nload drm \nload drm_kms_helper \n");
	assert_int_equal(load(&f, "drivers/gpu/drm/drm_kms_helper", &err), 0);
}

// What keeps modprobe from a module, or gives it more of them, does not count: R-P9.
static void each_gets_the_options_of_the_host(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder f;
	make_host(&f);
	put_module(&f, K "kernel/drivers/backlight.ko", "backlight");
	tempdir_write(&f, "etc/modprobe.d/a.conf",
		      "options drm debug=0x1 edid=\"a b\"\noptions i2c-core slow\noptions other x=1\n"
		      "softdep drm pre: backlight post: backlight\nblacklist drm\ninstall drm /bin/false\n"
		      "alias gpu drm\noptions gpu y=1\n");
	tempdir_write(&f, "proc/cmdline", "quiet drm.debug=0x2 modprobe.blacklist=i2c_core\n");
	assert_int_equal(load(&f, "drivers/gpu/drm/drm_kms_helper", &err), 1);
	folder_expect(&f, ".sys-calls",
		      "load i2c_core slow\nload drm debug=0x1 edid=\"a b\" debug=0x2\nload drm_kms_helper \n");
}

static void options_that_cannot_be_read_stop_the_load(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder f;
	make_host(&f);
	folder_dir(&f, "etc");
	folder_link(&f, "modprobe.d", "etc/modprobe.d"); // to itself
	assert_int_equal(load(&f, "drm", &err), -1);
	assert_true(str_starts(err.text, "read the host's module options: "));
	assert_false(root_exists(&f.root, ".sys-calls"));
}

// By the kernel itself, which no way of loading gets around; asked before anything is touched.
static void what_the_kernel_forbids_is_known_before(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder f;
	make_host(&f);
	tempdir_write(&f, "proc/cmdline", "quiet module_blacklist=i2c_core,nouveau\n");
	assert_int_equal(provider_check(&f.root, &f.root, "6.1.0-9-amd64", "drivers/gpu/drm/drm_kms_helper", &err), -1);
	assert_int_equal(err.code, E_HOST_MODULES);
	assert_non_null(strstr(err.text, "the kernel command line forbids i2c_core: module_blacklist="));
	assert_non_null(strstr(err.next, "/etc/default/grub"));
	tempdir_write(&f, "sys/module/i2c_core/initstate", "live\n"); // built in, or loaded by an initrd
	assert_int_equal(provider_check(&f.root, &f.root, "6.1.0-9-amd64", "drivers/gpu/drm/drm_kms_helper", &err), 0);
}

static void a_bare_name_will_do(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder f;
	make_host(&f);
	assert_int_equal(load(&f, "i2c_core", &err), 1);
	folder_expect(&f, ".sys-calls", "load i2c_core \n");
}

static void what_the_host_lacks_is_named(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder f;
	make_host(&f);
	assert_int_equal(load(&f, "drivers/infiniband/core/ib_core", &err), -1);
	assert_int_equal(err.code, E_HOST_MODULES);
	assert_non_null(strstr(err.text, "'drivers/infiniband/core/ib_core' is needed, and '"));
	assert_non_null(strstr(err.text, "modules.dep' does not list it"));
	assert_int_equal(load(&f, "gone", &err), -1); // listed, and its file was deleted
	assert_int_equal(err.code, E_HOST_MODULES);
	assert_non_null(strstr(err.text, "lib/modules/6.1.0-9-amd64/kernel/drivers/gone.ko' is not there"));
	assert_false(root_exists(&f.root, ".sys-calls"));
}

// Asked before anything is touched: of a whole chain, and of nothing that the kernel has already.
static void what_is_missing_is_known_before(void **state)
{
	(void)state;
	static const struct {
		const char *need, *deleted, *loaded, *want; // want: NULL = nothing is missing
		bool has;
	} rows[] = {
		{ "drivers/gpu/drm/drm_kms_helper", NULL, NULL, NULL, true },
		{ "drivers/gpu/drm/drm_kms_helper", "kernel/drivers/i2c/i2c-core.ko", NULL,
		  "kernel/drivers/i2c/i2c-core.ko' is not there", false },
		{ "drivers/gpu/drm/drm_kms_helper", "kernel/drivers/i2c/i2c-core.ko", "i2c_core", NULL, false },
		{ "drm", "kernel/drivers/gpu/drm/drm.ko", NULL, "kernel/drivers/gpu/drm/drm.ko' is not there", false },
		{ "drm", "modules.dep", NULL, "modules.dep' is not there", false },
		{ "drivers/gpu/drm/drm", "modules.dep", "drm", NULL, false },
		{ "i2c_core", "kernel/drivers/gpu/drm/drm.ko", NULL, NULL, true },
		{ "unheard_of", NULL, NULL, "modules.dep' does not list it", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_folder struct folder f;
		auto_str char *deleted = str_fmt(K "%s", rows[i].deleted);
		auto_str char *loaded = str_fmt("sys/module/%s", rows[i].loaded);
		make_host(&f);
		if (rows[i].deleted)
			assert_int_equal(root_unlink(&f.root, deleted, &err), 1);
		if (rows[i].loaded)
			folder_dir(&f, loaded);
		int r = provider_check(&f.root, &f.root, "6.1.0-9-amd64", rows[i].need, &err);
		expect(r == (rows[i].want ? -1 : 0), rows[i].need);
		if (rows[i].want && (err.code != E_HOST_MODULES || !strstr(err.text, rows[i].want)))
			fail_msg("%s: '%s'", rows[i].need, err.text);
		expect(provider_has(&f.root, "6.1.0-9-amd64", rows[i].need) == rows[i].has, rows[i].need);
	}
}

// A module of the host's that the kernel refuses is the host's, a kernel without memory nobody's.
static void what_the_kernel_refuses_of_the_host_is_the_hosts(void **state)
{
	(void)state;
	static const struct {
		const char *refused;
		int code;
	} rows[] = {
		{ "EINVAL load drm", E_HOST_MODULES },
		{ "ENOKEY load drm", E_HOST_MODULES },
		{ "ENOMEM load drm", E_SYSTEM },
		{ "EBUSY load drm", E_IN_USE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_folder struct folder f;
		make_host(&f);
		folder_file(&f, ".sys-refused", rows[i].refused);
		expect(load(&f, "drm", &err) == -1 && err.code == rows[i].code, rows[i].refused);
		expect(str_starts(err.text, "the kernel's module 'drm' is needed: load 'drm': "), err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loads_what_is_needed_in_order),
		cmocka_unit_test(each_gets_the_options_of_the_host),
		cmocka_unit_test(options_that_cannot_be_read_stop_the_load),
		cmocka_unit_test(what_the_kernel_forbids_is_known_before),
		cmocka_unit_test(a_bare_name_will_do),
		cmocka_unit_test(what_the_host_lacks_is_named),
		cmocka_unit_test(what_is_missing_is_known_before),
		cmocka_unit_test(what_the_kernel_refuses_of_the_host_is_the_hosts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
