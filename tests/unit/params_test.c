// SPDX-License-Identifier: Apache-2.0
#include "host/module_params.h"
#include "journal/loaded_params.h"

#include "tests/unit/forge.h"
#include "tests/unit/tempdir.h"

static const char *value(const struct module_params *p, const char *module, const char *name)
{
	for (size_t i = 0; i < p->count; i++)
		if (str_eq(p->items[i].module, module) && str_eq(p->items[i].name, name))
			return p->items[i].value ? p->items[i].value : "(bare)";
	return "(none)";
}

static void reads_modprobe_d(void **state)
{
	(void)state;
	auto_folder struct folder t;
	static const struct strv none;
	struct err err;
	auto_module_params struct module_params p = { 0 };
	folder_make(&t);
	tempdir_write(&t, "etc/modprobe.d/a.conf",
		      "# options nvidia NVreg_Comment=1\noptions nvidia-current NVreg_A=1 \\\n  NVreg_B=\"x y\"\n"
		      "alias char-major-195* nvidia\nblacklist nouveau\noptions nvidia-drm modeset=1 bare");
	tempdir_write(&t, "lib/modprobe.d/a.conf", "options nvidia NVreg_Hidden=1\n"); // the name is taken by /etc
	tempdir_write(&t, "usr/lib/modprobe.d/b.conf", "options nvidia NVreg_A=2\n");
	tempdir_write(&t, "etc/modprobe.d/c.conf.bak", "options nvidia NVreg_Backup=1\n");
	tempdir_write(&t, "etc/modprobe.d/d.conf", "\voptions\fnvidia \v NVreg_V=1\f\n"); // any blank is one
	tempdir_write(&t, "etc/alternatives/z", "options nvidia NVreg_Linked=1\n");
	tempdir_link(&t, "etc/modprobe.d/z.conf", "/etc/alternatives/z"); // inside the root, as Debian has it
	tempdir_write(&t, "proc/cmdline",
		      "quiet nvidia.NVreg_A=3 nvidia-uvm.uvm_x=\"a b\" modprobe.blacklist=nova_core,nouveau "
		      "module_blacklist=ast\n");
	assert_int_equal(module_params_read(&t.root, &t.root, &t.root, &none, NULL, &p, &err), 0);
	assert_string_equal(value(&p, "nvidia", "NVreg_A"), "3");
	assert_string_equal(value(&p, "nvidia", "NVreg_B"), "x y");
	assert_string_equal(value(&p, "nvidia", "NVreg_V"), "1");
	assert_string_equal(value(&p, "nvidia", "NVreg_Linked"), "1");
	assert_string_equal(value(&p, "nvidia", "NVreg_Hidden"), "(none)");
	assert_string_equal(value(&p, "nvidia", "NVreg_Comment"), "(none)");
	assert_string_equal(value(&p, "nvidia", "NVreg_Backup"), "(none)");
	assert_string_equal(value(&p, "nvidia_drm", "bare"), "(bare)");
	assert_string_equal(value(&p, "nvidia_uvm", "uvm_x"), "a b");
	auto_str char *black = strv_join(&p.blacklist, " ");
	assert_string_equal(black, "nouveau nova_core ast");
}

static void stronger_sources_win(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_module_params struct module_params p = { 0 };
	auto_strv struct strv options = { 0 };
	folder_make(&t);
	tempdir_write(&t, "etc/modprobe.d/a.conf", "options nvidia NVreg_A=1 NVreg_B=1 NVreg_C=1\n");
	tempdir_write(&t, "drivers/nvidia.conf", "NVreg_B=2 NVreg_C=2\n\nNVreg_D=\"p q\""); // no newline at the end
	tempdir_write(&t, "drivers/nvidia-uvm.conf", "uvm_debug_prints=1\n");
	strv_add(&options, str_dup("nvidia:NVreg_C=3"));
	assert_int_equal(module_params_read(&t.root, &t.root, &t.root, &options, NULL, &p, &err), 0);
	auto_str char *nvidia = module_params_text(&p, "nvidia"), *uvm = module_params_text(&p, "nvidia-uvm"),
		      *drm = module_params_text(&p, "nvidia-drm");
	assert_string_equal(nvidia, "NVreg_A=1 NVreg_B=2 NVreg_C=3 NVreg_D=\"p q\"");
	assert_string_equal(uvm, "uvm_debug_prints=1");
	assert_string_equal(drm, "");
	assert_int_equal(p.items[2].source, PARAM_OPTION);
	auto_strv struct strv given = { 0 };
	module_params_options(&p, "nvidia", &given);
	module_params_options(&p, "nvidia_uvm", &given);
	assert_int_equal(given.count, 1);
	assert_string_equal(given.items[0], "nvidia:NVreg_C=3");
	assert_string_equal(p.items[1].where, "drivers/nvidia.conf");
}

static void bad_input_is_named(void **state)
{
	(void)state;
	static const char *const options[] = { "NVreg_A=1", "nvidia:NVreg_A", "nvidia:",        ":A=1",
					       "nvidia:=1", "nvidia:a b=1",   "nvidia:A=\"x\"", "" };
	auto_folder struct folder t;
	struct err err = { 0 };
	static const struct strv none;
	auto_module_params struct module_params p = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		assert_int_equal(module_params_add_option(&p, options[i], &err), -1);
		assert_int_equal(err.code, E_USAGE);
	}
	folder_make(&t);
	tempdir_write(&t, "drivers/nvidia.conf", "NVreg_A=1\n!bad=2\n");
	assert_int_equal(module_params_read(&t.root, &t.root, &t.root, &none, NULL, &p, &err), -1);
	assert_int_equal(err.code, E_CONFIG);
	assert_non_null(strstr(err.text, "drivers/nvidia.conf"));
	assert_non_null(strstr(err.text, "!bad=2"));
}

static void compares_with_the_loaded(void **state) // R-D1
{
	(void)state;
	char name[] = "nvidia", uvm[] = "nvidia_uvm";
	struct loaded_module modules[] = { { .name = name, .is_driver = true }, { .name = uvm, .is_driver = true } };
	struct modules l = { .items = modules, .count = ARRAY_SIZE(modules) };
	strv_split(&l.params, "DeviceFileMode=438 EnableMSI=1 RegistryDwords=a=1", " ");
	strv_split(&modules[1].params, "uvm_peer_copy=phys uvm_on=Y", " ");
	static const struct {
		const char *option, *difference;
	} cases[] = {
		{ "nvidia:NVreg_DeviceFileMode=0666", NULL },
		{ "nvidia:NVreg_DeviceFileMode=0660", "nvidia NVreg_DeviceFileMode: 438, requested 0660" },
		{ "nvidia:NVreg_EnableMSI=0x1", NULL },
		{ "nvidia:NVreg_RegistryDwords=a=1", NULL },
		{ "nvidia:NVreg_RegistryDwords=a=2", "nvidia NVreg_RegistryDwords: a=1, requested a=2" },
		{ "nvidia:NVreg_Misspelt=1", NULL },
		{ "nvidia-uvm:uvm_peer_copy=virt", "nvidia_uvm uvm_peer_copy: phys, requested virt" },
		{ "nvidia-uvm:uvm_on=1", NULL },
		{ "nvidia-uvm:uvm_on=0", "nvidia_uvm uvm_on: Y, requested 0" },
		{ "nvidia-drm:modeset=1", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err;
		auto_module_params struct module_params p = { 0 };
		auto_strv struct strv differ = { 0 };
		assert_int_equal(module_params_add_option(&p, cases[i].option, &err), 0);
		assert_int_equal(module_params_differing(&p, &l, &differ), cases[i].difference != NULL);
		if (cases[i].difference)
			assert_string_equal(differ.items[0], cases[i].difference);
	}
	strv_done(&l.params);
	strv_done(&modules[1].params);
}

// Of each type (parmtype in .modinfo): what the kernel shows of a value, spellings of it, and spellings of others.
static void spellings_of_a_value(void **state) // R-D1
{
	(void)state;
	static const struct {
		const char *type, *name, *shown, *same, *others; // words; "-" = a bare name
	} rows[] = {
		{ "int", "uvm_x", "51", "51 +51 063 0x33 0X33 0063", "-51 50 0x51 5 510 051 +-51 51x 51, x -" },
		{ "int", "uvm_x", "-1", "-1 4294967295 0xffffffff -01 -0x1", "1 65535 18446744073709551615 - --1 n" },
		{ "int", "uvm_x", "8", "8 010 +010", "10 08 0x10 -8" },
		{ "int", "uvm_x", "10", "10 012 0xa", "010 +010 a" },
		{ "int", "uvm_x", "0", "0 -0 +0 00 0x0", "1 o -1" },
		{ "int as unsigned", "NVreg_X", "4294967295", "-1 4294967295 0xffffffff -0x1", "1 -2 65535" },
		{ "int as unsigned", "NVreg_X", "2147483648", "-2147483648 0x80000000", "2147483647 -2147483647" },
		{ "int as unsigned", "NVreg_DeviceFileMode", "432", "432 0660 0x1b0", "660 0432 438" },
		{ "uint", "uvm_x", "4294967294", "4294967294 0xfffffffe", "4294967295 -1" },
		{ "ushort", "x", "65535", "65535 0xffff 0177777", "-1 65534" },
		{ "long", "x", "-5000000000", "-5000000000", "5000000000 -705032704 3589934592" },
		{ "ulong", "x", "4294967301", "4294967301 0x100000005", "5 -5" },
		{ "ulong", "x", "18446744073709551615", "0xffffffffffffffff", "-1 18446744073709551616" },
		{ "hexint", "x", "0x0000001f", "31 0x1f 037 0x0000001f", "1f 0x1e" },
		{ "bool", "uvm_x", "Y", "Y y yes Yes true T 1 1x on ON oN enabled -",
		  "N n no false 0 0x1 01 off 2 o x" },
		{ "bool", "uvm_x", "N", "N n no false F 0 0x1 01 off OFF of none disabled", "Y yes true 1 on - o x 2" },
		{ "invbool", "uvm_x", "Y", "1 yes on", "0 no off" }, // shown as it was given
		{ "bint", "x", "1", "1 01 yes on true -", "0 no off 2" },
		{ "charp", "uvm_peer_copy", "phys", "phys", "virt PHYS physical -" },
		{ "charp", "uvm_peer_copy", "8", "8", "010 +8 0x8" },
		{ "charp", "config_file", "Y", "Y", "y 1 yes -" },
		{ "charp", "NVreg_RegistryDwords", "", "", "0 -" },
		{ "charp", "NVreg_TemporaryFilePath", "/var/tmp", "/var/tmp", "/var/tmp/ 0" },
		{ "charp of a later driver", "NVreg_X", "driver", "driver", "Driver numa 0 -" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (int is_same = 0; is_same < 2; is_same++) {
			auto_strv struct strv words = { 0 };
			strv_split(&words, is_same ? rows[i].same : rows[i].others, " ");
			for (size_t w = 0; w < words.count; w++) {
				const char *word = str_eq(words.items[w], "-") ? NULL : words.items[w];
				auto_str char *row = str_fmt("%s %s shown %s, requested %s", rows[i].type, rows[i].name,
							     rows[i].shown, words.items[w]);
				expect(module_param_is_same(rows[i].name, rows[i].shown, word) == is_same, row);
			}
		}
}

// What the kernel does not show is compared with the record of the load.
static void spellings_of_what_was_given(void **state) // R-D1
{
	(void)state;
	char name[] = "nvidia";
	struct loaded_module module = { .name = name, .is_driver = true };
	const struct modules loaded = { .items = &module, .count = 1 };
	auto_driver_state struct driver_state record = { .version = str_dup("535.1") };
	strv_add(&record.modules, str_dup("nvidia"));
	driver_state_set_params(&record, "nvidia", "Hidden=0x10 Hidden2=3 Text=\"a b\"");
	static const struct {
		const char *option;
		bool is_missing;
	} rows[] = {
		{ "nvidia:Hidden=16", false }, { "nvidia:Hidden=020", false }, { "nvidia:Hidden=0x10", false },
		{ "nvidia:Hidden=17", true },  { "nvidia:Hidden=3", true },    { "nvidia:Hidden2=+3", false },
		{ "nvidia:Text=a b", false },  { "nvidia:Text=a", true },      { "nvidia:Other=16", true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		auto_module_params struct module_params p = { 0 };
		assert_int_equal(module_params_add_option(&p, rows[i].option, &err), 0);
		auto_str char *missing = loaded_params_missing(&record, &loaded, &p);
		expect(!!missing == rows[i].is_missing, rows[i].option);
	}
}

// GH200, GB200 and GB300; H100 and B200 have their memory for themselves.
static void superchips_get_their_default(void **state)
{
	(void)state;
	static const struct {
		uint16_t device;
		const char *option, *text;
	} cases[] = {
		{ 0x2342, NULL, "NVreg_CoherentGPUMemoryMode=driver" },
		{ 0x2941, NULL, "NVreg_CoherentGPUMemoryMode=driver" },
		{ 0x31a1, NULL, "NVreg_CoherentGPUMemoryMode=driver" },
		{ 0x31c2, NULL, "NVreg_CoherentGPUMemoryMode=driver" },
		{ 0x2330, NULL, "" },
		{ 0x2901, NULL, "" },
		{ 0x31a2, NULL, "" },
		{ 0x2342, "nvidia:NVreg_CoherentGPUMemoryMode=numa", "NVreg_CoherentGPUMemoryMode=numa" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err;
		auto_folder struct folder t;
		auto_module_params struct module_params p = { 0 };
		auto_strv struct strv options = { 0 }, differ = { 0 };
		struct gpu gpu = { .device = cases[i].device };
		char name[] = "nvidia";
		struct loaded_module module = { .name = name, .is_driver = true };
		struct modules l = { .items = &module, .count = 1 };
		folder_make(&t);
		if (cases[i].option)
			strv_add(&options, str_dup(cases[i].option));
		const struct gpus gpus = { .items = &gpu, .count = 1 };
		assert_int_equal(module_params_read(&t.root, &t.root, &t.root, &options, &gpus, &p, &err), 0);
		auto_str char *text = module_params_text(&p, "nvidia");
		assert_string_equal(text, cases[i].text);
		// A driver that runs without the default is not replaced for it; one without a user's request is.
		strv_add(&l.params, str_dup("CoherentGPUMemoryMode=\"\""));
		assert_int_equal(module_params_differing(&p, &l, &differ), cases[i].option != NULL);
		strv_done(&l.params);
	}
}

static void unknown_defaults_are_left_out(void **state)
{
	(void)state;
	static const char text[] = "NVreg_A=\"x y\" NVreg_CoherentGPUMemoryMode=driver NVreg_B=1",
			  users[] = "NVreg_CoherentGPUMemoryMode=numa";
	static const struct forge_module with = { .name = "nvidia",
						  .extra = "parmtype=NVreg_CoherentGPUMemoryMode:charp\0" },
					 without = { .name = "nvidia" };
	const struct {
		const struct forge_module *ko;
		const char *text, *known;
	} cases[] = { { &with, text, text },
		      { &without, text, "NVreg_A=\"x y\" NVreg_B=1" },
		      { &without, users, users }, // a user's word goes to the kernel as it is
		      { &without, "", "" } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err;
		size_t len;
		auto_module struct module m = MODULE_NONE;
		char *data = forge_ko(cases[i].ko, &len);
		assert_int_equal(module_parse(data, len, "nvidia.ko", &m, &err), 0);
		auto_str char *known = module_params_known(&m, cases[i].text);
		assert_string_equal(known, cases[i].known);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_modprobe_d),
		cmocka_unit_test(stronger_sources_win),
		cmocka_unit_test(bad_input_is_named),
		cmocka_unit_test(compares_with_the_loaded),
		cmocka_unit_test(spellings_of_a_value),
		cmocka_unit_test(spellings_of_what_was_given),
		cmocka_unit_test(superchips_get_their_default),
		cmocka_unit_test(unknown_defaults_are_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
