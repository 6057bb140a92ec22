// SPDX-License-Identifier: Apache-2.0
#include "host/pci.h"

#include "tests/unit/tempdir.h"

static void function(const struct folder *t, const char *address, const char *vendor, const char *class,
		     const char *device, const char *driver)
{
	const char *const names[] = { "vendor", "class", "device" }, *const values[] = { vendor, class, device };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		auto_str char *path = str_fmt("sys/bus/pci/devices/%s/%s", address, names[i]);
		tempdir_write(t, path, values[i]);
	}
	auto_str char *link = str_fmt("sys/bus/pci/devices/%s/driver", address);
	auto_str char *target = str_fmt("../../../../bus/pci/drivers/%s", driver ? driver : "");
	if (driver)
		tempdir_link(t, link, target);
}

static void an_unreadable_bus_is_an_error(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err = { 0 };
	auto_gpus struct gpus g = { 0 };
	folder_make(&t);
	tempdir_link(&t, "sys/bus/pci/devices", "devices");
	assert_int_equal(gpus_read(&t.root, &g, &err), -1);
	assert_int_equal(err.code, ELOOP);
	assert_true(str_starts(err.text, "look for NVIDIA PCI functions"));
}

static void finds_gpus_and_switches_only(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	folder_make(&t);
	function(&t, "10000:01:00.0", "0x10de\n", "0x030200\n", "0x20b2\n", NULL);
	function(&t, "0000:40:00.0", "0x10de\n", "0x030200\n", "0x2330\n", "nvidia");
	function(&t, "0000:40:00.4", "0x10de\n", "0x030200\n", "0x2330\n", NULL);
	tempdir_link(&t, "sys/bus/pci/devices/0000:40:00.4/physfn", "../0000:40:00.0");
	function(&t, "0000:05:00.0", "0x10de\n", "0x068000\n", "0x22a3\n", "nvidia-nvswitch");
	function(&t, "0000:41:00.1", "0x10de\n", "0x040300\n", "0x22ba\n", "snd_hda_intel");
	function(&t, "0000:00:02.0", "0x8086\n", "0x030000\n", "0x3e92\n", "i915");

	auto_gpus struct gpus g = { 0 };
	assert_int_equal(gpus_read(&t.root, &g, &err), 1);
	assert_int_equal(g.count, 4);
	assert_string_equal(g.items[0].address, "0000:05:00.0");
	assert_int_equal(g.items[0].kind, GPU_SWITCH);
	assert_int_equal(gpu_owner(&g.items[0]), GPU_NVIDIA);
	assert_string_equal(g.items[1].address, "0000:40:00.0");
	assert_int_equal(g.items[1].class, 0x030200);
	assert_int_equal(g.items[1].device, 0x2330);
	assert_string_equal(g.items[1].driver, "nvidia");
	assert_false(g.items[1].is_vf);
	assert_true(g.items[2].is_vf);
	assert_string_equal(g.items[3].address, "10000:01:00.0");
	assert_int_equal(gpu_owner(&g.items[3]), GPU_FREE);
	assert_int_equal(gpus_count_ours(&g, GPU_DISPLAY), 2);
	assert_int_equal(gpus_count_ours(&g, GPU_SWITCH), 1);
}

static void no_gpu_is_not_an_error(void **state) // R-P11
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_gpus struct gpus g = { 0 };
	folder_make(&t);
	assert_int_equal(gpus_read(&t.root, &g, &err), 0);
	folder_dir(&t, "sys/bus/pci/devices");
	assert_int_equal(gpus_read(&t.root, &g, &err), 0);
	assert_int_equal(g.count, 0);
}

static void another_driver_is_named(void **state) // R-P8
{
	(void)state;
	static const struct {
		const char *driver;
		bool is_vf, is_released, is_error;
		const char *module;
	} cases[] = {
		{ "nouveau", false, false, true, "nouveau" },    { "nova_core", false, false, true, "nova_core" },
		{ "NovaCore", false, false, true, "nova_core" }, { "nouveau", false, true, false, NULL },
		{ "NovaCore", false, true, false, NULL },        { "my_driver", false, false, true, "my_driver" },
		{ "my_driver", false, true, true, "my_driver" }, { "pci-stub", false, false, false, NULL },
		{ "pciback", false, false, false, NULL },        { "xen-pciback", false, false, false, NULL },
		{ "vfio-pci", false, false, false, NULL },       { "nvgrace_gpu_vfio_pci", false, false, false, NULL },
		{ "nvidia", false, false, false, NULL },         { NULL, false, false, false, NULL },
		{ "nouveau", true, false, false, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = { 0 };
		auto_str char *driver = str_dup(cases[i].driver);
		struct gpu gpu = {
			.address = "0000:01:00.0", .device = 0x1db6, .is_vf = cases[i].is_vf, .driver = driver
		};
		struct gpus g = { &gpu, 1 };
		assert_int_equal(gpus_check_owner(&g, cases[i].is_released, &err), cases[i].is_error ? -1 : 0);
		if (!cases[i].is_error)
			continue;
		auto_str char *line = str_fmt("blacklist %s", cases[i].module);
		assert_int_equal(err.code, E_BOUND);
		assert_non_null(strstr(err.text, "0000:01:00.0 10de:1db6"));
		assert_non_null(strstr(err.text, line));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unreadable_bus_is_an_error),
		cmocka_unit_test(finds_gpus_and_switches_only),
		cmocka_unit_test(no_gpu_is_not_an_error),
		cmocka_unit_test(another_driver_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
