// SPDX-License-Identifier: Apache-2.0
// R-P9: only what is needed is loaded, in the order of modules.dep; what is loaded already is fine.
#include "kmod/provider.h"
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
	assert_int_equal(err.code, E_SYMBOL);
	assert_non_null(strstr(err.text, "ib_core"));
	assert_int_equal(load(&f, "gone", &err), -1); // listed, and its file was deleted
	assert_int_equal(err.code, ENOENT);
	assert_false(root_exists(&f.root, ".sys-calls"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loads_what_is_needed_in_order),
		cmocka_unit_test(a_bare_name_will_do),
		cmocka_unit_test(what_the_host_lacks_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
