// SPDX-License-Identifier: Apache-2.0
#include "journal/state_dir.h"
#include "plan/preflight.h"

#include "tests/unit/tempdir.h"

enum { V100 = 0x1db6, T4 = 0x1eb8, A100 = 0x20b2, A10 = 0x2236, H100 = 0x2330, L40 = 0x26b5, B200 = 0x2901 };
#define OPEN MODULE_TYPE_OPEN
#define PROP MODULE_TYPE_PROPRIETARY
enum { VGA = 0x030000, COMPUTE = 0x030200, SWITCH = 0x068000 };

static const struct row {
	const char *name;
	uint16_t gpus[2];
	uint32_t class;
	const char *driver;
	enum module_type flavour;
	const char *param; // NVreg_EnableGpuFirmware
	const char *names; // file names, blank-separated; "" = none
} rows[] = {
	{ "open modules always", { H100 }, COMPUTE, "535.261.03", OPEN, NULL, "gsp_ga10x.bin" },
	{ "open modules whatever the parameter says", { H100 }, COMPUTE, "535.261.03", OPEN, "0", "gsp_ga10x.bin" },
	{ "a desktop GPU with open modules", { A10 }, VGA, "535.261.03", OPEN, NULL, "gsp_ga10x.bin" },
	{ "Turing and GA100 share a file", { T4, A100 }, COMPUTE, "535.261.03", OPEN, NULL, "gsp_tu10x.bin" },
	{ "two files", { A100, H100 }, COMPUTE, "535.261.03", OPEN, NULL, "gsp_tu10x.bin gsp_ga10x.bin" },
	{ "branch 525, Ada", { L40 }, COMPUTE, "525.147.05", OPEN, NULL, "gsp_ad10x.bin" },
	{ "branch 525, Ampere", { A10 }, COMPUTE, "525.147.05", OPEN, NULL, "gsp_tu10x.bin" },
	{ "branch 515", { A100 }, COMPUTE, "515.105.01", OPEN, NULL, "gsp.bin" },
	{ "Blackwell", { B200 }, COMPUTE, "570.172.08", OPEN, NULL, "gsp_ga10x.bin" },
	{ "no GSP in Volta", { V100 }, COMPUTE, "570.172.08", PROP, NULL, "" },
	{ "proprietary: data centre from 510 on", { T4 }, COMPUTE, "535.261.03", PROP, NULL, "gsp_tu10x.bin" },
	{ "proprietary: a desktop GPU before 555", { A10 }, VGA, "535.261.03", PROP, NULL, "" },
	{ "proprietary: all from 555 on", { A10 }, VGA, "555.58.02", PROP, NULL, "gsp_ga10x.bin" },
	{ "proprietary: not by default in 470", { T4 }, COMPUTE, "470.256.02", PROP, NULL, "" },
	{ "proprietary: asked for in 470", { T4 }, COMPUTE, "470.256.02", PROP, "1", "gsp.bin" },
	{ "proprietary: asked for", { A10 }, VGA, "535.261.03", PROP, "0x1", "gsp_ga10x.bin" },
	{ "proprietary: switched off", { H100 }, COMPUTE, "535.261.03", PROP, "0", "" },
	{ "proprietary: asked for, or without", { A10 }, VGA, "535.261.03", PROP, "0x11", "" },
	{ "proprietary: the default, said", { T4 }, COMPUTE, "535.261.03", PROP, "2", "gsp_tu10x.bin" },
	{ "proprietary: what the driver has by itself, said",
	  { T4 },
	  COMPUTE,
	  "535.261.03",
	  PROP,
	  "0x12",
	  "gsp_tu10x.bin" },
	{ "proprietary: no number", { T4 }, COMPUTE, "535.261.03", PROP, "yes", "gsp_tu10x.bin" },
	{ "only the GPU that the modules serve", { V100, T4 }, COMPUTE, "535.261.03", OPEN, NULL, "gsp_tu10x.bin" },
	{ "switches need none", { 0x22a3 }, SWITCH, "535.261.03", OPEN, NULL, "" },
};

static void firmware_is_needed(void **state) // R-P6
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		struct gpu gpu[2] = { { .address = "0000:40:00.0" }, { .address = "0000:50:00.0" } };
		struct gpus gpus = { gpu, row->gpus[1] ? 2 : 1 };
		struct err err;
		auto_module_params struct module_params params = { 0 };
		auto_preflight_need struct preflight_need need = { 0 };
		auto_str char *option = str_fmt("nvidia:NVreg_EnableGpuFirmware=%s", row->param), *names = str_dup("");
		for (size_t g = 0; g < gpus.count; g++) {
			gpu[g].device = row->gpus[g];
			gpu[g].class = row->class;
			gpu[g].kind = row->class == SWITCH ? GPU_SWITCH : GPU_DISPLAY;
		}
		if (row->param)
			assert_int_equal(module_params_add_option(&params, option, &err), 0);
		preflight_need_make(&gpus, row->driver, row->flavour, &params, &need);
		auto_str char *dir = str_fmt("nvidia/%s/", row->driver);
		for (size_t n = 0; n < need.names.count; n++) {
			expect(str_starts(need.names.items[n], dir), row->name);
			str_add(&names, "%s%s", n ? " " : "", need.names.items[n] + strlen(dir));
		}
		if (!str_eq(names, row->names))
			fail_msg("%s: got '%s'", row->name, names);
		expect(need.why && *need.why, row->name);
	}
}

// The kernel shows the parameter as the driver has it; a record has what was given.
static void loaded_and_recorded_drivers_need_the_same(void **state)
{
	(void)state;
	static const struct {
		const char *flavour, *shown, *given;
		bool is_needed;
	} table[] = {
		{ "open", "EnableGpuFirmware=0", "NVreg_EnableGpuFirmware=0", true },
		{ "proprietary", "EnableGpuFirmware=18", "", true },
		{ "proprietary", "EnableGpuFirmwareLogs=0", "NVreg_EnableGpuFirmwareLogs=0", true },
		{ "proprietary", "EnableGpuFirmware=0", "NVreg_EnableMSI=1 NVreg_EnableGpuFirmware=0x0", false },
		{ "proprietary", "EnableGpuFirmware=17", "NVreg_EnableGpuFirmware=1 NVreg_EnableGpuFirmware=17",
		  false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct gpu gpu = { .address = "0000:40:00.0", .device = A100, .class = COMPUTE };
		struct gpus gpus = { &gpu, 1 };
		char version[] = "535.261.03";
		struct modules loaded = { .version = version };
		auto_driver_state struct driver_state record = { .version = str_dup(version),
								 .flavour = str_dup(table[i].flavour) };
		auto_preflight_need struct preflight_need now = { 0 }, then = { 0 };
		assert_true(module_type_parse(table[i].flavour, &loaded.flavour));
		strv_add(&loaded.params, str_dup(table[i].shown));
		driver_state_set_params(&record, "nvidia", table[i].given);
		preflight_need_loaded(&gpus, &loaded, &now);
		preflight_need_record(&gpus, &record, &then);
		strv_done(&loaded.params);
		expect((now.names.count == 1) == table[i].is_needed, table[i].shown);
		expect((then.names.count == 1) == table[i].is_needed, table[i].given);
	}
}

static void passed_through_gpus_need_no_firmware(void **state)
{
	(void)state;
	char driver[] = "vfio-pci";
	struct gpu gpu = { .address = "0000:40:00.0", .device = H100, .class = COMPUTE, .driver = driver };
	struct gpus gpus = { &gpu, 1 };
	auto_preflight_need struct preflight_need need = { 0 };
	preflight_need_make(&gpus, "535.261.03", OPEN, NULL, &need);
	assert_int_equal(need.names.count, 0);
}

static void missing_firmware_is_named(void **state) // R-P6
{
	(void)state;
	auto_folder struct folder t;
	struct err err = { 0 };
	struct gpu gpu[] = { { .address = "0000:40:00.0", .device = H100, .class = COMPUTE },
			     { .address = "0000:50:00.0", .device = A100, .class = COMPUTE } };
	struct gpus gpus = { gpu, 2 };
	auto_firmware_path struct firmware_path s = { 0 };
	auto_preflight_need struct preflight_need need = { 0 };
	auto_str char *where = NULL;
	folder_make(&t);
	tempdir_write(&t, "sys/module/firmware_class/parameters/path", "/run/other\n");
	tempdir_write(&t, "lib/firmware/nvidia/535.261.03/gsp_ga10x.bin", "firmware");
	assert_int_equal(firmware_path(&t.root, &t.root, "6.1.0-1", &s, &err), 0);
	preflight_need_make(&gpus, "535.261.03", OPEN, NULL, &need);
	assert_int_equal(preflight_firmware(&t.root, &s, &need, &where, &err), -1);
	assert_int_equal(err.code, E_FIRMWARE);
	assert_non_null(strstr(err.text, "nvidia/535.261.03/gsp_tu10x.bin: the open modules need it"));
	assert_null(strstr(err.text, "535.261.03/gsp_ga10x.bin"));
	assert_non_null(strstr(err.text, "/run/other, /lib/firmware/updates/6.1.0-1, "));
	assert_non_null(strstr(err.text, "firmware_class.path is '/run/other'"));
	assert_null(where);
	tempdir_write(&t, "run/other/nvidia/535.261.03/gsp_tu10x.bin", "firmware");
	assert_int_equal(preflight_firmware(&t.root, &s, &need, &where, &err), 1);
	assert_string_equal(where, "/lib/firmware/nvidia/535.261.03/gsp_ga10x.bin");
}

// The next step leads somewhere on this machine.
static void the_way_to_the_firmware(void **state)
{
	(void)state;
	static const struct {
		const char *row, *file, *text, *next;
	} cases[] = {
		{ "by a payload", "sys/module/firmware_class/parameters/path", "", "`kmodsmith pack payload NVIDIA" },
		{ "no path parameter", "proc/version", "x", "cp -r NVIDIA-Linux-*-535.261.03/firmware /lib/firmware" },
		{ "Debian's package", "var/lib/dpkg/status", "x", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_folder struct folder t;
		struct err err = { 0 };
		struct gpu gpu = { .address = "0000:40:00.0", .device = H100, .class = COMPUTE };
		struct gpus gpus = { &gpu, 1 };
		auto_firmware_path struct firmware_path s = { 0 };
		auto_preflight_need struct preflight_need need = { 0 };
		auto_str char *where = NULL;
		folder_make(&t);
		tempdir_write(&t, cases[i].file, cases[i].text);
		if (!cases[i].next)
			tempdir_write(&t, "sys/module/firmware_class/parameters/path", "");
		tempdir_write(&t, "lib/firmware/nvidia/535.261.03/gsp_ga10x.bin", "");
		assert_int_equal(firmware_path(&t.root, &t.root, "6.1.0-1", &s, &err), 0);
		preflight_need_make(&gpus, "535.261.03", OPEN, NULL, &need);
		expect(preflight_firmware(&t.root, &s, &need, &where, &err) < 0, cases[i].row);
		expect(strstr(err.next, cases[i].next ? cases[i].next : "or Debian's firmware-nvidia-gsp"), err.next);
		expect(strstr(err.text, "gsp_ga10x.bin ('/lib/firmware/nvidia/535.261.03/gsp_ga10x.bin' is empty): "),
		       err.text);
	}
}

static void rights_are_named(void **state)
{
	(void)state;
	static const struct {
		const char *status;
		unsigned uses;
		const char *text; // NULL = nothing is missing
	} cases[] = {
		{ "CapEff:\t000001ffffffffff\n", CAPABILITY_ALL, NULL },
		{ "CapEff:\t0000000008010000\n", CAPABILITY_DRIVER, NULL },
		{ "CapEff:\t0000000008000000\n", CAPABILITY_DRIVER,
		  "lacks CAP_SYS_MODULE (to load and unload modules)" },
		{ "CapEff:\t0000000000000000\n", CAPABILITY_DRIVER, "modules), CAP_MKNOD (to make device nodes)" },
		{ "CapEff:\t0000000008010000\n", CAPABILITY_DRIVER | CAPABILITY_MOUNTS | CAPABILITY_HOLDERS,
		  "lacks CAP_SYS_ADMIN (to mount the driver root and to sandbox a compile), CAP_SYS_CHROOT (to" },
		{ "CapEff:\t00000000082d0004\n", CAPABILITY_DRIVER | CAPABILITY_MOUNTS | CAPABILITY_HOLDERS, NULL },
		{ "CapEff:\t00000000082d0004\n", CAPABILITY_ALL, "lacks CAP_KILL (to stop holders" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_folder struct folder t;
		struct err err = { 0 };
		folder_make(&t);
		assert_int_equal(preflight_rights(&t.root, cases[i].uses, &err), 0); // a recorded machine says nothing
		tempdir_write(&t, "proc/self/status", cases[i].status);
		assert_int_equal(preflight_rights(&t.root, cases[i].uses, &err), cases[i].text ? -1 : 0);
		if (cases[i].text) {
			assert_int_equal(err.code, E_RIGHTS);
			expect(strstr(err.text, cases[i].text), err.text);
		}
	}
}

static void room_in_bytes(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err = { 0 };
	folder_make(&t);
	assert_int_equal(state_dir_space(&t.root, 0, &err), 0);
	assert_int_equal(state_dir_space(&t.root, UINT64_MAX / 2, &err), -1);
	assert_int_equal(err.code, E_NO_SPACE);
	assert_non_null(strstr(err.text, "9223372036854841343 are needed"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(firmware_is_needed),
		cmocka_unit_test(loaded_and_recorded_drivers_need_the_same),
		cmocka_unit_test(passed_through_gpus_need_no_firmware),
		cmocka_unit_test(missing_firmware_is_named),
		cmocka_unit_test(the_way_to_the_firmware),
		cmocka_unit_test(rights_are_named),
		cmocka_unit_test(room_in_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
