// SPDX-License-Identifier: Apache-2.0
#include "host/modules.h"

#include "tests/unit/tempdir.h"

static const char open_version[] = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.261.03  Release Build "
				   " (buildd@debian)  Sat Jun 14\n"
				   "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)\n";
static const char proprietary_version[] =
	"NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Sat Jun 14 16:05:50 UTC 2025\nGCC version:\n";

static void file(const struct folder *t, const char *module, const char *name, const char *text)
{
	auto_str char *path = str_fmt("sys/module/%s/%s", module, name);
	tempdir_write(t, path, text);
}

static void module(const struct folder *t, const char *name, const char *holders)
{
	auto_strv struct strv list = { 0 };
	strv_split(&list, holders, " ");
	file(t, name, "initstate", "live\n");
	file(t, name, "refcnt", "2\n");
	for (size_t i = 0; i < list.count; i++) {
		auto_str char *path = str_fmt("sys/module/%s/holders/%s", name, list.items[i]);
		auto_str char *target = str_fmt("../../%s", list.items[i]);
		tempdir_link(t, path, target);
	}
}

static void reads_what_is_loaded(void **state) // R-D1, R-Q1
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_modules struct modules l = { 0 };
	folder_make(&t);
	module(&t, "nvidia", "nvidia_uvm gdrdrv");
	file(&t, "nvidia", "version", "535.261.03\n");
	file(&t, "nvidia", "srcversion", "0D1B1A0C9D8E7F6A5B4C3D2\n");
	file(&t, "nvidia", "taint", "OE\n");
	module(&t, "nvidia_uvm", "");
	file(&t, "nvidia_uvm", "initstate", "coming\n");
	file(&t, "nvidia_uvm", "parameters/uvm_debug_prints", "0\n");
	module(&t, "gdrdrv", "");
	folder_dir(&t, "sys/module/nvidia_modeset/parameters"); // a leftover without initstate is not loaded
	tempdir_write(&t, "proc/driver/nvidia/version", open_version);
	tempdir_write(&t, "proc/driver/nvidia/params",
		      "DeviceFileMode: 438\nRegistryDwords: \"a=1;b=2\"\nGrdmaPciTopoCheckOverride: 0\n");
	tempdir_write(&t, "lib/modules/6.1.0-50/modules.dep",
		      "kernel/drivers/i2c/i2c-core.ko:\nupdates/dkms/nvidia-current.ko.xz: "
		      "kernel/x.ko\nupdates/gone/nvidia-uvm.ko: x\n/opt/gdrdrv.ko:\n");
	tempdir_write(&t, "opt/gdrdrv.ko", "");
	tempdir_write(&t, "lib/modules/6.1.0-50/updates/dkms/nvidia-current.ko.xz", "");

	assert_int_equal(modules_read(&t.root, &t.root, "6.1.0-50", &l, &err), 1);
	assert_int_equal(l.count, 3);
	assert_string_equal(l.version, "535.261.03");
	assert_int_equal(l.flavour, MODULE_TYPE_OPEN);
	assert_int_equal(l.params.count, 3);
	assert_string_equal(l.params.items[0], "DeviceFileMode=438");
	assert_string_equal(l.params.items[1], "RegistryDwords=a=1;b=2");
	const struct loaded_module *m = modules_find(&l, "nvidia");
	assert_string_equal(m->version, "535.261.03");
	assert_string_equal(m->taint, "OE");
	assert_int_equal(m->refcount, 2);
	assert_true(m->is_driver);
	assert_string_equal(m->file, "lib/modules/6.1.0-50/updates/dkms/nvidia-current.ko.xz");
	m = modules_find(&l, "nvidia-uvm");
	assert_int_equal(m->state, LOADED_COMING);
	assert_null(m->file); // listed, but not there
	assert_string_equal(m->params.items[0], "uvm_debug_prints=0");
	assert_false(modules_find(&l, "gdrdrv")->is_driver);
	assert_string_equal(modules_find(&l, "gdrdrv")->file, "opt/gdrdrv.ko");
	assert_null(modules_find(&l, "nvidia_modeset"));
}

static void tells_the_flavours_apart(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_modules struct modules l = { 0 };
	folder_make(&t);
	assert_int_equal(modules_read(&t.root, &t.root, "6.1.0-50", &l, &err), 0);
	assert_null(l.version);
	module(&t, "nvidia", "");
	tempdir_write(&t, "proc/driver/nvidia/version", proprietary_version);
	assert_int_equal(modules_read(&t.root, &t.root, "6.1.0-50", &l, &err), 1);
	assert_string_equal(l.version, "470.256.02");
	assert_int_equal(l.flavour, MODULE_TYPE_PROPRIETARY);
}

static void unload_order_follows_holders(void **state) // R-D3
{
	(void)state;
	static const struct {
		const char *modules; // "name:holder holder,..."
		const char *order;
	} cases[] = {
		{ "nvidia:", "nvidia" },
		{ "nvidia:nvidia_uvm nvidia_modeset,nvidia_uvm:,nvidia_modeset:nvidia_drm,nvidia_drm:",
		  "nvidia_drm nvidia_modeset nvidia_uvm nvidia" },
		{ "nvidia:nvidia_uvm,nvidia_uvm:,nvidia_drm:", "nvidia_drm nvidia_uvm nvidia" },
		{ "nvidia:gdrdrv nvidia_peermem,gdrdrv:,nvidia_peermem:", "gdrdrv nvidia_peermem nvidia" },
		{ "nvidia:vendor_x,vendor_x:vendor_y,vendor_y:", "vendor_y vendor_x nvidia" },
		{ "nvidia:nvidia_fs,nvidia_fs:", "nvidia_fs nvidia" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_folder struct folder t;
		struct err err;
		auto_strv struct strv list = { 0 }, order = { 0 };
		auto_modules struct modules l = { 0 };
		folder_make(&t);
		strv_split(&list, cases[i].modules, ",");
		for (size_t j = 0; j < list.count; j++) {
			size_t len = strcspn(list.items[j], ":");
			auto_str char *name = str_ndup(list.items[j], len);
			module(&t, name, list.items[j] + len + 1);
		}
		assert_int_equal(modules_read(&t.root, &t.root, "x", &l, &err), 1);
		assert_int_equal(modules_unload_order(&l, &order, &err), 0);
		auto_str char *got = strv_join(&order, " ");
		assert_string_equal(got, cases[i].order);
	}
}

static void a_cycle_is_an_error(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err = { 0 };
	auto_strv struct strv order = { 0 };
	auto_modules struct modules l = { 0 };
	folder_make(&t);
	module(&t, "nvidia", "nvidia_uvm");
	module(&t, "nvidia_uvm", "nvidia");
	assert_int_equal(modules_read(&t.root, &t.root, "x", &l, &err), 1);
	assert_int_equal(modules_unload_order(&l, &order, &err), -1);
	assert_int_equal(err.code, E_IN_USE);
	assert_int_equal(order.count, 0);
}

static void names_are_canonical(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "nvidia", "nvidia" },
		{ "nvidia-uvm", "nvidia_uvm" },
		{ "nvidia-current", "nvidia" },
		{ "nvidia-current-uvm", "nvidia_uvm" },
		{ "nvidia-tesla-470-modeset", "nvidia_modeset" },
		{ "nvidia-tesla", "nvidia" },
		{ "nvidia-legacy-390xx-drm", "nvidia_drm" },
		{ "gdrdrv", "gdrdrv" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_str char *name = module_canonical(cases[i][0]);
		assert_string_equal(name, cases[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_is_loaded),         cmocka_unit_test(tells_the_flavours_apart),
		cmocka_unit_test(unload_order_follows_holders), cmocka_unit_test(a_cycle_is_an_error),
		cmocka_unit_test(names_are_canonical),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
