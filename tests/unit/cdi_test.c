// SPDX-License-Identifier: Apache-2.0
// The CDI specification of made-up machines: what it names, and what it leaves out. A whole one is compared byte for
// byte in tests/cli/cdi.bats.
#include "devices/cdi.h"
#include "devices/nodes.h"

#include "tests/unit/tempdir.h"

#define V "535.261.03"
#define LIB "usr/lib/x86_64-linux-gnu"
#define FOUR "\?\?\?\?"
#define UNKNOWN "GPU-" FOUR FOUR "-" FOUR "-" FOUR "-" FOUR "-" FOUR FOUR FOUR // as the driver writes it

static const char table[] =
	"Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n242 nvidia-uvm\n245 nvidia-caps\n\n"
	"Block devices:\n  7 loop\n";

static void gpu(const struct folder *t, unsigned slot, const char *minor, const char *uuid, const char *excluded)
{
	auto_str char *path = str_fmt("proc/driver/nvidia/gpus/0000:%02x:00.0/information", slot);
	auto_str char *text =
		str_fmt("Model: \t\t NVIDIA H100\nGPU UUID: \t %s\nDevice Minor: \t %s\nGPU Excluded:\t %s\n", uuid,
			minor, excluded);
	tempdir_write(t, path, text);
}

static void capability(const struct folder *t, const char *path, unsigned minor)
{
	auto_str char *full = str_fmt("proc/driver/nvidia/capabilities/%s", path);
	auto_str char *text = str_fmt("DeviceFileMinor: %u\nDeviceFileMode: 292\nDeviceFileModify: 1\n", minor);
	tempdir_write(t, full, text);
}

static void user_space(const struct folder *t, const char *dir, const char *version)
{
	static const char *const names[] = { "cuda", "nvidia-ml" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		auto_str char *name = str_fmt("lib%s.so.%s", names[i], version);
		auto_str char *path = str_fmt("%s/" LIB "/%s", dir, name);
		auto_str char *link = str_fmt("%s/" LIB "/lib%s.so.1", dir, names[i]);
		tempdir_write(t, path, "");
		tempdir_link(t, link, name);
	}
	auto_str char *hook = str_fmt("%s/usr/libexec/kmodsmith", dir);
	tempdir_write(t, hook, "");
}

static void machine(struct folder *t)
{
	folder_make(t);
	tempdir_write(t, "proc/devices", table);
	tempdir_write(t, "proc/driver/nvidia/params", "DeviceFileMode: 432\nDeviceFileGID: 44\nModifyDeviceFiles: 1\n");
	tempdir_write(t, "proc/driver/nvidia/version",
		      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " V "  Release Build\n");
	tempdir_write(t, "sys/module/nvidia/initstate", "live\n");
	tempdir_write(t, "sys/module/nvidia/refcnt", "0\n");
	folder_dir(t, "dev");
}

static int make(const struct folder *t, const char *export, json_t **ret, struct err *err)
{
	struct sys sys = sys_recorder(&t->root);
	auto_devices struct devices d = { 0 };
	const struct node node = { .host = &t->root, .kern = &t->root, .dev_root = &t->root, .sys = &sys };
	assert_true(devices_want(&t->root, 0, &d, err) >= 0);
	assert_true(devices_apply(&t->root, &sys, false, &d, err) >= 0);
	if (cdi_spec(&node, export, ret, err) < 0)
		return -1;
	assert_non_null(*ret);
	return 0;
}

// Names of all devices, and of one of them the paths of its nodes.
static char *names_of(const json_t *spec)
{
	char *ret = NULL;
	size_t i;
	json_t *device;
	json_array_foreach(json_object_get(spec, "devices"), i, device)
	{
		str_add(&ret, "%s%s", i ? " " : "", json_string_value(json_object_get(device, "name")));
	}
	return ret;
}

static const json_t *edits_of(const json_t *spec, const char *name)
{
	size_t i;
	json_t *device;
	json_array_foreach(json_object_get(spec, "devices"), i, device)
	{
		if (str_eq(json_string_value(json_object_get(device, "name")), name))
			return json_object_get(device, "containerEdits");
	}
	return NULL;
}

static char *nodes_of(const json_t *spec, const char *name)
{
	char *ret = NULL;
	size_t i;
	json_t *node;
	json_array_foreach(json_object_get(edits_of(spec, name), "deviceNodes"), i, node)
	{
		str_add(&ret, "%s%s", i ? " " : "", json_string_value(json_object_get(node, "path")) + 5);
	}
	return ret;
}

static void names_of_gpus(void **state)
{
	(void)state;
	static const struct {
		unsigned gpus;
		const char *uuid, *names, *all;
	} rows[] = {
		{ 1, UNKNOWN, "0 all", "nvidia0" },
		{ 1, "GPU-01234567-89ab-cdef-0123-456789abcdef", "0 GPU-01234567-89ab-cdef-0123-456789abcdef all",
		  "nvidia0" },
		{ 1, "GPU-01234567-89ab-cdef-0123-456789abcde/", "0 all", "nvidia0" },
		{ 1, "GPU-01234567", "0 all", "nvidia0" },
		{ 8, "", "0 1 2 3 4 5 6 7 all", "nvidia0 nvidia1 nvidia2 nvidia3 nvidia4 nvidia5 nvidia6 nvidia7" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t = { .path = "" };
		struct err err = { 0 };
		auto_json json_t *spec = NULL;
		machine(&t);
		user_space(&t, "run/nvidia/driver", V);
		for (unsigned k = 0; k < rows[i].gpus; k++) {
			auto_str char *minor = str_fmt("%u", k);
			gpu(&t, 0x40 + k, minor, rows[i].uuid, "No");
		}
		expect(make(&t, "run/nvidia/driver", &spec, &err) == 0, err.text);
		auto_str char *names = names_of(spec), *all = nodes_of(spec, "all");
		expect(str_eq(names, rows[i].names), names);
		expect(str_eq(all, rows[i].all), all);
	}
}

// An index is of the PCI addresses, as NVML counts, and not of the minors; a GPU that the driver leaves out has none.
static void an_index_is_not_a_minor(void **state)
{
	(void)state;
	auto_folder struct folder t = { .path = "" };
	struct err err = { 0 };
	auto_json json_t *spec = NULL;
	machine(&t);
	user_space(&t, "run/nvidia/driver", V);
	gpu(&t, 0x40, "2", "", "No");
	gpu(&t, 0x50, "0", "", "Yes");
	gpu(&t, 0x60, "1", "", "No");
	expect(make(&t, "run/nvidia/driver", &spec, &err) == 0, err.text);
	auto_str char *names = names_of(spec), *first = nodes_of(spec, "0"), *second = nodes_of(spec, "1");
	assert_string_equal(names, "0 1 all");
	assert_string_equal(first, "nvidia2");
	assert_string_equal(second, "nvidia1");
}

static void partitions_have_their_capabilities(void **state)
{
	(void)state;
	auto_folder struct folder t = { .path = "" };
	struct err err = { 0 };
	auto_json json_t *spec = NULL;
	machine(&t);
	user_space(&t, "run/nvidia/driver", V);
	gpu(&t, 0x40, "1", "", "No");
	gpu(&t, 0x50, "0", "", "No");
	capability(&t, "mig/config", 1);
	capability(&t, "gpu1/mig/gi10/access", 30);
	capability(&t, "gpu1/mig/gi10/ci0/access", 31);
	capability(&t, "gpu1/mig/gi2/access", 12);
	capability(&t, "gpu1/mig/gi2/ci0/access", 13);
	capability(&t, "gpu1/mig/gi2/ci1/access", 14);
	capability(&t, "gpu1/mig/gi3/access", 15); // without a compute instance nobody can use it
	expect(make(&t, "run/nvidia/driver", &spec, &err) == 0, err.text);
	auto_str char *names = names_of(spec), *all = nodes_of(spec, "all"), *one = nodes_of(spec, "0-gi2-ci1");
	assert_string_equal(names, "0 0-gi2-ci0 0-gi2-ci1 0-gi10-ci0 1 all");
	assert_string_equal(one, "nvidia1 nvidia-caps/nvidia-cap12 nvidia-caps/nvidia-cap14");
	assert_string_equal(all, "nvidia1 nvidia0 nvidia-caps/nvidia-cap12 nvidia-caps/nvidia-cap13 "
				 "nvidia-caps/nvidia-cap14 nvidia-caps/nvidia-cap30 nvidia-caps/nvidia-cap31");
}

static char *hooks_of(const json_t *spec, const char *name)
{
	char *ret = NULL;
	size_t i, k;
	json_t *hook, *arg;
	json_array_foreach(json_object_get(edits_of(spec, name), "hooks"), i, hook)
	{
		json_array_foreach(json_object_get(hook, "args"), k, arg)
		{
			str_add(&ret, "%s%s", ret ? " " : "", json_string_value(arg));
		}
	}
	return ret;
}

// The nodes of graphics are the kernel's: each has the number that sysfs names, or a container does without.
static void nodes_of_graphics(void **state)
{
	(void)state;
	auto_folder struct folder t = { .path = "" };
	struct err err = { 0 };
	auto_json json_t *spec = NULL;
	machine(&t);
	user_space(&t, "run/nvidia/driver", V);
	gpu(&t, 0x40, "0", "", "No");
	gpu(&t, 0x50, "1", "", "No");
	capability(&t, "gpu0/mig/gi1/access", 12);
	capability(&t, "gpu0/mig/gi1/ci0/access", 13);
	static const struct {
		const char *slot, *name, *number, *node; // number: of sysfs; node: what is below dev/dri
	} rows[] = {
		{ "40", "card1", "226:1", "c 226:1 0660 0:44" },
		{ "40", "renderD128", "226:128", "c 226:128 0666 0:44" },
		{ "40", "card1-HDMI-A-1", NULL, NULL }, // a connector
		{ "40", "controlD64", "226:64", "c 226:64 0660 0:44" },
		{ "50", "card2", "226:2", "c 226:9 0660 0:44" }, // another device's
		{ "50", "renderD129", "226:129", NULL },
		{ "50", "renderD130", "none", "c 226:130 0666 0:44" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *dev = str_fmt("sys/bus/pci/devices/0000:%s:00.0/drm/%s/%s", rows[i].slot, rows[i].name,
					     rows[i].number ? "dev" : "status");
		auto_str char *node = str_fmt("dev/dri/%s", rows[i].name);
		auto_str char *number = str_fmt("%s\n", rows[i].number ? rows[i].number : "connected");
		tempdir_write(&t, dev, number);
		if (rows[i].node)
			tempdir_write(&t, node, rows[i].node);
	}
	expect(make(&t, "run/nvidia/driver", &spec, &err) == 0, err.text);
	auto_str char *first = nodes_of(spec, "0"), *second = nodes_of(spec, "1"), *all = nodes_of(spec, "all");
	auto_str char *mig = nodes_of(spec, "0-gi1-ci0"), *links = hooks_of(spec, "0"), *every = hooks_of(spec, "all");
	assert_string_equal(first, "nvidia0 dri/card1 dri/renderD128");
	assert_string_equal(second, "nvidia1");
	assert_string_equal(all, "nvidia0 dri/card1 dri/renderD128 nvidia1 nvidia-caps/nvidia-cap12 "
				 "nvidia-caps/nvidia-cap13");
	assert_string_equal(mig, "nvidia0 nvidia-caps/nvidia-cap12 nvidia-caps/nvidia-cap13");
	assert_string_equal(links, "kmodsmith cdi-hook links ../card1::/dev/dri/by-path/pci-0000:40:00.0-card "
				   "../renderD128::/dev/dri/by-path/pci-0000:40:00.0-render");
	assert_string_equal(every, links);
	assert_null(hooks_of(spec, "1"));
}

static void imex_channels(void **state)
{
	(void)state;
	auto_folder struct folder t = { .path = "" };
	struct err err = { 0 };
	auto_json json_t *spec = NULL;
	struct sys sys = sys_recorder(&t.root);
	const struct node node = { .host = &t.root, .kern = &t.root, .dev_root = &t.root, .sys = &sys };
	machine(&t);
	assert_int_equal(cdi_imex_spec(&node, &spec, &err), 0); // a driver without channels
	assert_null(spec);
	tempdir_write(&t, "proc/devices", "Character devices:\n195 nvidia\n234 nvidia-caps-imex-channels\n");
	assert_int_equal(cdi_imex_spec(&node, &spec, &err), 0); // and nobody has made one
	static const char *const nodes[][2] = { { "channel10", "c 234:10 0666 0:0" },
						{ "channel2", "c 234:2 0640 0:0" },
						{ "channel3", "c 234:4 0666 0:0" },
						{ "channel4", "c 195:4 0666 0:0" },
						{ "channel5", "a file" },
						{ "channel", "c 234:0 0666 0:0" },
						{ ".channel6.tmp", "c 234:6 0666 0:0" } };
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		auto_str char *path = str_fmt("dev/nvidia-caps-imex-channels/%s", nodes[i][0]);
		tempdir_write(&t, path, nodes[i][1]);
	}
	expect(cdi_imex_spec(&node, &spec, &err) == 1, err.text);
	auto_str char *names = names_of(spec), *all = nodes_of(spec, "all"), *one = nodes_of(spec, "2");
	assert_string_equal(names, "2 10 all");
	assert_string_equal(one, "nvidia-caps-imex-channels/channel2");
	assert_string_equal(all, "nvidia-caps-imex-channels/channel2 nvidia-caps-imex-channels/channel10");
	assert_string_equal(json_string_value(json_object_get(spec, "kind")), "nvidia.com/imex-channel");
}

// An inherited environment would be the image's to choose.
static void every_hook_has_an_environment_and_a_deadline(void **state)
{
	(void)state;
	auto_folder struct folder t = { .path = "" };
	struct err err = { 0 };
	auto_json json_t *spec = NULL;
	size_t i;
	json_t *hook;
	machine(&t);
	user_space(&t, "run/nvidia/driver", V);
	gpu(&t, 0x40, "0", "", "No");
	expect(make(&t, "run/nvidia/driver", &spec, &err) == 0, err.text);
	const json_t *hooks = json_object_get(json_object_get(spec, "containerEdits"), "hooks");
	assert_int_equal(json_array_size(hooks), 2);
	json_array_foreach(hooks, i, hook)
	{
		auto_strv struct strv env = { 0 };
		json_strv_read(json_object_get(hook, "env"), &env);
		assert_int_equal(env.count, 4);
		assert_memory_equal(env.items[0], "PATH=", 5);
		assert_string_equal(env.items[1], "DRIVER_VERSION=" V);
		assert_true(json_integer_value(json_object_get(hook, "timeout")) > 0);
		assert_string_equal(json_string_value(json_object_get(hook, "path")),
				    "/run/nvidia/driver/usr/libexec/kmodsmith");
	}
}

// Links whose end would be somewhere else on the machine, and names that could be taken for something else.
static void odd_files_are_left_out(void **state)
{
	(void)state;
	auto_folder struct folder t = { .path = "" };
	struct err err = { 0 };
	auto_json json_t *spec = NULL;
	machine(&t);
	gpu(&t, 0x40, "0", "", "No");
	user_space(&t, "run/nvidia/driver", V);
	tempdir_write(&t, "run/nvidia/driver/" LIB "/libbad name.so." V, "");
	tempdir_write(&t, "run/nvidia/driver/" LIB "/lib\xff.so." V, "");
	tempdir_write(&t, "run/nvidia/driver/" LIB "/libother.so.1.2", "");
	tempdir_write(&t, "run/nvidia/driver/shadow", "");
	tempdir_link(&t, "run/nvidia/driver/" LIB "/libfar.so." V, "/shadow");
	tempdir_link(&t, "run/nvidia/driver/" LIB "/libfar.so.1", "../../../shadow");
	tempdir_link(&t, "run/nvidia/driver/" LIB "/libround.so.1", "libround.so.1");
	tempdir_link(&t, "run/nvidia/driver/" LIB "/libnone.so.1", "libnone.so." V);
	folder_dir(&t, "run/nvidia/driver/usr/bin/nvidia-smi");
	expect(make(&t, "run/nvidia/driver", &spec, &err) == 0, err.text);
	auto_str char *text = json_dumps(spec, JSON_COMPACT);
	static const char *const absent[] = {
		"bad", "xff", "other", "far", "round", "libnone", "nvidia-smi", "shadow"
	};
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		expect(!strstr(text, absent[i]), absent[i]);
	assert_non_null(strstr(text, "libcuda"));
}

static void incomplete_machines_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *what, *remove;
		int code;
	} rows[] = {
		{ "no driver", "proc/devices", E_NOT_READY },
		{ "no GPU", "proc/driver/nvidia/gpus/0000:40:00.0/information", E_NO_DEVICE },
		{ "no library", "run/nvidia/driver/" LIB, E_NOT_FOUND },
		{ "no program for the hooks", "run/nvidia/driver/usr/libexec", E_NOT_FOUND },
		{ "no driver root", "run/nvidia/driver", ENOENT },
		{ "no version of the driver", "proc/driver/nvidia/version", E_NOT_READY },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t = { .path = "" };
		struct err err = { 0 };
		auto_json json_t *spec = NULL;
		machine(&t);
		gpu(&t, 0x40, "0", "", "No");
		user_space(&t, "run/nvidia/driver", V);
		assert_int_equal(root_rmtree(&t.root, rows[i].remove, &err), 1);
		expect(make(&t, "run/nvidia/driver", &spec, &err) < 0, rows[i].what);
		expect(err.code == rows[i].code, err.text);
	}
}

static void a_user_space_of_another_version(void **state)
{
	(void)state;
	auto_folder struct folder t = { .path = "" };
	struct err err = { 0 };
	auto_json json_t *spec = NULL;
	machine(&t);
	gpu(&t, 0x40, "0", "", "No");
	user_space(&t, "run/nvidia/driver", "550.54.14");
	assert_true(make(&t, "run/nvidia/driver", &spec, &err) < 0);
	assert_int_equal(err.code, E_NOT_READY);
	assert_non_null(strstr(err.text, "550.54.14"));
}

// An exported root without our program, on a machine where it is installed.
static void the_machine_has_the_hook(void **state)
{
	(void)state;
	auto_folder struct folder t = { .path = "" };
	struct err err = { 0 };
	auto_json json_t *spec = NULL;
	machine(&t);
	gpu(&t, 0x40, "0", "", "No");
	user_space(&t, "run/nvidia/driver", V);
	assert_int_equal(root_rmtree(&t.root, "run/nvidia/driver/usr/libexec", &err), 1);
	tempdir_write(&t, "usr/local/bin/kmodsmith", "");
	expect(make(&t, "run/nvidia/driver", &spec, &err) == 0, err.text);
	auto_str char *text = json_dumps(spec, JSON_COMPACT);
	assert_non_null(strstr(text, "\"path\":\"/usr/local/bin/kmodsmith\""));
}

// The machine's own user space, found where a distribution's package puts it.
static void without_an_export(void **state)
{
	(void)state;
	auto_folder struct folder t = { .path = "" };
	struct err err = { 0 };
	auto_json json_t *spec = NULL;
	machine(&t);
	gpu(&t, 0x40, "0", "", "No");
	user_space(&t, ".", V);
	expect(make(&t, "", &spec, &err) == 0, err.text);
	auto_str char *text = json_dumps(spec, JSON_COMPACT);
	assert_non_null(strstr(text, "\"hostPath\":\"/" LIB "/libcuda.so." V "\""));
	assert_non_null(strstr(text, "\"path\":\"/usr/libexec/kmodsmith\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_gpus),
		cmocka_unit_test(an_index_is_not_a_minor),
		cmocka_unit_test(partitions_have_their_capabilities),
		cmocka_unit_test(nodes_of_graphics),
		cmocka_unit_test(imex_channels),
		cmocka_unit_test(every_hook_has_an_environment_and_a_deadline),
		cmocka_unit_test(odd_files_are_left_out),
		cmocka_unit_test(incomplete_machines_are_refused),
		cmocka_unit_test(a_user_space_of_another_version),
		cmocka_unit_test(the_machine_has_the_hook),
		cmocka_unit_test(without_an_export),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
