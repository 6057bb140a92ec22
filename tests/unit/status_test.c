// SPDX-License-Identifier: Apache-2.0
// R-K2: each post-condition of a working driver can fail by itself, and says so.
#include "status/status.h"

#include "tests/unit/tempdir.h"

struct row {
	const char *failed; // the one check that does; NULL = ready
	const char *evidence;
	const char *state, *uvm_version, *taint, *flavour_word, *request;
	unsigned gpus; // that the driver has; the machine has 2
	bool has_no_nodes, is_uvm_missing;
	uint16_t first, second;      // device ids of the GPUs; 0 = an H100
	const char *driver, *kernel; // bound to the second one; a line of the kernel's log
	const char *said;            // by a check that holds
	const char *measured;        // gpus.json: its members; NULL = every GPU that the driver has works
	int code;                    // of a failed check; 0 = E_NOT_READY
};

#define HAS(state_, uvm_version_, taint_, flavour_word_, request_, gpus_)                                     \
	.state = (state_), .uvm_version = (uvm_version_), .taint = (taint_), .flavour_word = (flavour_word_), \
	.request = (request_), .gpus = (gpus_)
#define GOOD HAS("live", "535.1", "OE", "Open ", "535.1", 2)
#define ONE_LESS HAS("live", "535.1", "OE", "Open ", "535.1", 1)

#define BOOT "6f1ed1c0-6f0e-4f3c-9d7a-2d4c0f6f2f11"
#define UNMEASURED "2 of 2; not measured since the driver was loaded"
#define OPEN(more) "\"driver\": \"535.1\", \"flavour\": \"open\", \"seconds\": 2.5, " more "\"gpus\": ["
#define FIRST "{\"address\": \"0000:40:00.0\", \"minor\": 0, \"level\": \"start\", \"outcome\": \"works\"}"
#define SECOND(outcome, reason)                                                                       \
	"{\"address\": \"0000:41:00.0\", \"minor\": 1, \"level\": \"start\", \"outcome\": \"" outcome \
	"\", \"reason\": " reason "}"

static const struct row rows[] = {
	{ NULL, NULL, GOOD },
	{ "module", "nvidia_uvm 535.1, coming", HAS("coming", "535.1", "OE", "Open ", "535.1", 2) },
	{ "module", "nvidia_uvm 535.1, going", HAS("going", "535.1", "OE", "Open ", "535.1", 2) },
	{ "module", "nvidia_uvm 530.1, live", HAS("live", "530.1", "OE", "Open ", "535.1", 2) },
	{ "flavour", "open, taint POE", HAS("live", "535.1", "POE", "Open ", "535.1", 2) },
	{ "flavour", "proprietary, taint OE", HAS("live", "535.1", "OE", "", NULL, 2),
	  .measured = "\"driver\": \"535.1\", \"flavour\": \"proprietary\", \"waived\": true, \"gpus\": [" },
	{ "request", "570.1 open", HAS("live", "535.1", "OE", "Open ", "570.1", 2) },
	{ "request", "535.1 open, and this is not loaded: nvidia-uvm", HAS("live", NULL, "OE", "Open ", "535.1", 2),
	  .is_uvm_missing = true },
	{ NULL, NULL, HAS("live", NULL, "OE", "Open ", NULL, 2), .is_uvm_missing = true,
	  .said = "not reachable: nvidia_uvm is not loaded" },
	// Which GPU, and why, as far as the kernel says it.
	{ "gpus", "1 of 2; 0000:41:00.0 has no driver", ONE_LESS },
	{ "gpus", "1 of 2; 0000:41:00.0 has no driver (kernel: NVRM: GPU 0000:41:00.0: RmInitAdapter failed!)",
	  ONE_LESS,
	  .kernel = "3,1,5,-;NVRM: GPU 0000:41:00.0: fallen\n3,2,6,-;NVRM: GPU 0000:41:00.0: RmInitAdapter failed!\n"
		    "3,3,7,-;NVRM: GPU 0000:40:00.0: fine\n6,4,8,-;pci 0000:41:00.0: enabling\n" },
	{ "gpus", "1 of 2; 0000:41:00.0 is bound to nouveau", ONE_LESS, .driver = "nouveau" },
	{ "gpus", "0 of 0; left without a driver: ", HAS("live", "535.1", "OE", "Open ", "535.1", 0), .first = 0x1287,
	  .second = 0x1287 },
	// What was measured since this driver was loaded.
	{ NULL, NULL, GOOD, .said = "2 of 2 start (2.5 s)" },
	{ "gpus", UNMEASURED, GOOD, .code = E_GPU_UNTESTED, .measured = OPEN("") },
	{ "gpus", UNMEASURED, GOOD, .code = E_GPU_UNTESTED, .measured = OPEN("") FIRST },
	{ NULL, NULL, GOOD, .measured = OPEN("\"waived\": true,"), .said = "2 of 2; not measured (--gpu-check none)" },
	{ "gpus", "1 of 2; 0000:41:00.0 has no driver", ONE_LESS, .measured = OPEN("\"waived\": true,") },
	{ "gpus", "1 of 2 start (2.5 s); 0000:41:00.0: no firmware", GOOD, .code = E_GPU_START,
	  .measured = OPEN("") FIRST "," SECOND("broken", "\"no firmware\"") },
	{ NULL, NULL, GOOD, .measured = OPEN("\"allowed_missing\": 1,") FIRST "," SECOND("broken", "\"no firmware\""),
	  .said = "1 of 2 start (2.5 s); 0000:41:00.0: no firmware" },
	{ "gpus", "1 of 2 start (2.5 s); 0000:41:00.0: hangs", GOOD, .code = E_GPU_PENDING,
	  .measured = OPEN("\"allowed_missing\": 1,") FIRST "," SECOND("pending", "\"hangs\"") },
	{ "gpus", "1 of 2 start (2.5 s); 0000:41:00.0: EPERM", GOOD, .code = E_GPU_UNTESTED,
	  .measured = OPEN("") FIRST "," SECOND("untested", "\"EPERM\"") },
	{ NULL, NULL, GOOD, .measured = OPEN("") FIRST "," SECOND("excluded", "\"excluded\""),
	  .said = "1 of 1 start (2.5 s); 0000:41:00.0: excluded" },
	{ "gpus", UNMEASURED, GOOD, .code = E_GPU_UNTESTED,
	  .measured = "\"driver\": \"530.1\", \"flavour\": \"open\", \"gpus\": [" FIRST },
	{ "gpus", "1 of 2; 0000:41:00.0 has no driver", ONE_LESS,
	  .measured = OPEN("") FIRST "," SECOND("works", "null") },
	{ "gpus", "1 of 2 start (2.5 s); 0000:41:00.0: has no driver", ONE_LESS, .code = E_GPU_START,
	  .measured = OPEN("") FIRST "," SECOND("broken", "\"has no driver\"") },
	// What the driver in the kernel cannot serve, or is not to serve, does not count.
	{ NULL, NULL, ONE_LESS, .second = 0x1287,
	  .said = "1 of 1 start (2.5 s); left without a driver: 0000:41:00.0 (Kepler)" },
	{ NULL, NULL, ONE_LESS, .second = 0x1287, .driver = "nouveau", .said = "1 of 1 start (2.5 s); left without" },
	{ NULL, NULL, ONE_LESS, .second = 0x1db6,
	  .said = "1 of 1 start (2.5 s); left without a driver: 0000:41:00.0 (Volta)" },
	{ NULL, NULL, ONE_LESS, .driver = "vfio-pci", .said = "1 of 1 start" },
	{ NULL, NULL, ONE_LESS, .driver = "pci-stub", .said = "1 of 1 start" },
	{ NULL, NULL, GOOD, .second = 0x1287, .driver = "nvidia", .said = "2 of 2 start" }, // whatever the table says
	{ "firmware", "nvidia/535.1/gsp_ga10x.bin: the open modules need it for 0000:40:00.0 (Hopper)", GOOD },
	{ "nodes", "0 of 3 correct, with their /dev/char links, first: nvidia0 is missing", GOOD,
	  .has_no_nodes = true },
};

static void file(const struct folder *t, const char *path, const char *fmt, const char *value)
{
	auto_str char *text = str_dup("");
	str_add(&text, "%s%s", value ? value : "", fmt);
	tempdir_write(t, path, text);
}

static void make_machine(const struct row *row, const struct folder *t)
{
	auto_str char *version = str_fmt("NVRM version: NVIDIA UNIX %sKernel Module for x86_64  535.1  Release Build\n",
					 row->flavour_word);
	tempdir_write(t, "sys/module/nvidia/initstate", "live\n");
	tempdir_write(t, "sys/module/nvidia/version", "535.1\n");
	file(t, "sys/module/nvidia/taint", "\n", row->taint);
	if (!row->is_uvm_missing) {
		file(t, "sys/module/nvidia_uvm/initstate", "\n", row->state);
		file(t, "sys/module/nvidia_uvm/version", "\n", row->uvm_version);
	}
	tempdir_write(t, "proc/driver/nvidia/version", version);
	tempdir_write(t, "proc/devices", "Character devices:\n195 nvidia-frontend\n");
	for (unsigned i = 0; i < row->gpus; i++) {
		auto_str char *path = str_fmt("proc/driver/nvidia/gpus/0000:4%u:00.0/information", i);
		auto_str char *text = str_fmt("Device Minor: \t %u\n", i);
		tempdir_write(t, path, text);
	}
	folder_dir(t, "dev");
	if (!str_eq(row->failed, "firmware"))
		tempdir_write(t, "lib/firmware/nvidia/535.1/gsp_ga10x.bin", "firmware");
}

static void check_row(const struct row *row)
{
	static struct gpu gpus[] = { { .address = "0000:40:00.0", .device = 0x2330 },
				     { .address = "0000:41:00.0", .device = 0x2330 } };
	auto_folder struct folder t;
	auto_modules struct modules loaded = { 0 };
	auto_status struct status status = { 0 };
	auto_devices struct devices devices = { 0 };
	auto_strv struct strv modules = { 0 };
	struct err err;
	folder_make(&t);
	make_machine(row, &t);
	struct sys sys = sys_recorder(&t.root);
	assert_int_equal(modules_read(&t.root, &t.root, "6.1", &loaded, &err), 1);
	char release[] = "6.1.0-1", boot[] = BOOT;
	gpus[0].device = row->first ? row->first : 0x2330;
	gpus[1].device = row->second ? row->second : 0x2330;
	auto_str char *driver = row->driver ? str_dup(row->driver) : NULL;
	gpus[1].driver = driver;
	if (row->kernel)
		tempdir_write(&t, "dev/kmsg", row->kernel);
	const char *all = row->gpus == 2 ? OPEN("") FIRST "," SECOND("works", "null") :
			  row->gpus      ? OPEN("") FIRST :
					   OPEN("");
	auto_str char *measured = str_fmt("{\"boot_id\": \"" BOOT "\", %s]}", row->measured ? row->measured : all);
	tempdir_write(&t, "run/kmodsmith/gpus.json", measured);
	struct facts facts = { .host = { .release = release, .boot_id = boot },
			       .gpus = { .items = gpus, .count = 2 },
			       .loaded = loaded };
	assert_int_equal(devices_want(&t.root, 0, &devices, &err), 1);
	if (!row->has_no_nodes)
		assert_int_equal(devices_apply(&t.root, &sys, false, &devices, &err), 1);
	const struct node node = { .host = &t.root, .kern = &t.root, .dev_root = &t.root, .sys = &sys };
	assert_int_equal(status_read(&facts, &node, &status, &err), 0);
	strv_add(&modules, str_dup("nvidia"));
	strv_add(&modules, str_dup("nvidia-uvm"));
	if (row->request)
		status_check_request(&status, &loaded, row->request, MODULE_TYPE_OPEN, &modules);
	expect(status.is_ready == !row->failed, row->evidence);
	int code = !row->failed                    ? 0 :
		   str_eq(row->failed, "firmware") ? E_FIRMWARE :
		   row->code                       ? row->code :
						     E_NOT_READY;
	expect((status_error(&status, &err) < 0 ? err.code : 0) == code, row->evidence);
	expect(!status_next(&status) == !row->failed, row->evidence);
	bool is_said = !row->said;
	for (size_t i = 0; i < status.count; i++) {
		const struct check *c = &status.checks[i];
		is_said = is_said || str_starts(c->evidence, row->said);
		if (c->is_ok == (str_eq(c->name, row->failed) && strstr(c->evidence, row->evidence)))
			fail_msg("%s: %s is %s: %s", row->evidence, c->name, c->is_ok ? "right" : "wrong", c->evidence);
	}
	expect(is_said, row->said);
}

static void each_can_fail(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_can_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
