// SPDX-License-Identifier: Apache-2.0
// R-G1 to R-G4 on a recorded machine: nodes are the text files that the recorder makes ("c MAJOR:MINOR MODE UID:GID").
#include "devices/nodes.h"

#include "tests/unit/tempdir.h"

#include <sys/sysmacros.h>

static const char table[] = "Character devices:\n  1 mem\n195 nvidia-frontend\n242 nvidia-uvm\n243 nvidia-nvswitch\n"
			    "244 nvidia-nvlink\n245 nvidia-caps\n\nBlock devices:\n  7 loop\n240 nvidia-vgpu-vfio\n";

static void capability(const struct folder *t, const char *path, unsigned minor, unsigned mode)
{
	auto_str char *full = str_fmt("proc/driver/%s", path);
	auto_str char *text = str_fmt("DeviceFileMinor: %u\nDeviceFileMode: %u\nDeviceFileModify: 1\n", minor, mode);
	tempdir_write(t, full, text);
}

static void machine(struct folder *t, unsigned gpus, unsigned switches)
{
	folder_make(t);
	tempdir_write(t, "proc/devices", table);
	tempdir_write(t, "proc/driver/nvidia/params",
		      "DeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\nModifyDeviceFiles: 1\nRegistryDwords: "
		      "\"\"\n");
	tempdir_write(t, "proc/driver/nvidia-nvswitch/permissions", "DeviceFileMode: 438\n");
	for (unsigned i = 0; i < gpus; i++) {
		auto_str char *path = str_fmt("proc/driver/nvidia/gpus/0000:%x0:00.0/information", 4 + i);
		auto_str char *text = str_fmt("Model: \t\t NVIDIA H100\nDevice Minor: \t %u\nGPU Excluded:\t No\n", i);
		tempdir_write(t, path, text);
	}
	for (unsigned i = 0; i < switches; i++) {
		auto_str char *path = str_fmt("proc/driver/nvidia-nvswitch/devices/0000:c%u:00.0/information", i);
		tempdir_write(t, path, "BIOS Version: N/A\n");
	}
	capability(t, "nvidia/capabilities/mig/config", 1, 256);
	capability(t, "nvidia/capabilities/mig/monitor", 2, 292);
	capability(t, "nvidia-nvlink/capabilities/fabric-mgmt", 0, 256);
	tempdir_write(t, "sys/module/nvidia_modeset/initstate", "live\n");
	folder_dir(t, "dev");
}

static void expect_list(const struct devices *d, const char *const *wanted, size_t count)
{
	for (size_t i = 0; i < d->count && i < count; i++) {
		const struct device_node *n = &d->items[i];
		auto_str char *got =
			str_fmt("%s %u:%u %04o %u:%u", n->path, n->major, n->minor, n->mode, n->uid, n->gid);
		assert_string_equal(got, wanted[i]);
	}
	assert_int_equal(d->count, count);
}

static void lists_all_nodes(void **state)
{
	(void)state;
	static const char *const wanted[] = {
		"nvidia-caps/nvidia-cap0 245:0 0400 0:0",
		"nvidia-caps/nvidia-cap1 245:1 0400 0:0",
		"nvidia-caps/nvidia-cap2 245:2 0444 0:0",
		"nvidia-caps/nvidia-cap30 245:30 0444 0:0",
		"nvidia-modeset 195:254 0666 0:0",
		"nvidia-nvlink 244:0 0666 0:0",
		"nvidia-nvswitch0 243:0 0666 0:0",
		"nvidia-nvswitch1 243:1 0666 0:0",
		"nvidia-nvswitchctl 243:255 0666 0:0",
		"nvidia-uvm 242:0 0666 0:0",
		"nvidia-uvm-tools 242:1 0666 0:0",
		"nvidia0 195:0 0666 0:0",
		"nvidia1 195:1 0666 0:0",
		"nvidiactl 195:255 0666 0:0",
	};
	auto_folder struct folder t;
	struct err err;
	auto_devices struct devices d = { 0 };
	machine(&t, 2, 2);
	capability(&t, "nvidia/capabilities/gpu0/mig/gi3/ci0/access", 30, 292);
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
	expect_list(&d, wanted, ARRAY_SIZE(wanted));
}

static void lists_only_nodes_of_loaded_modules(void **state) // R-G2
{
	(void)state;
	static const char *const wanted[] = { "nvidia0 195:0 0640 7:8", "nvidiactl 195:255 0640 7:8" };
	auto_folder struct folder t;
	struct err err;
	auto_devices struct devices d = { 0 };
	folder_make(&t);
	tempdir_write(&t, "proc/devices", "Character devices:\n195 nvidia\n195 nvidiactl\n\nBlock devices:\n");
	tempdir_write(&t, "proc/driver/nvidia/params",
		      "DeviceFileUID: 7\nDeviceFileGID: 8\nDeviceFileMode: 416\nModifyDeviceFiles: 1\n");
	tempdir_write(&t, "proc/driver/nvidia/gpus/0000:40:00.0/information", "Device Minor: \t 0\n");
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
	expect_list(&d, wanted, ARRAY_SIZE(wanted));
	tempdir_write(&t, "proc/devices", "Character devices:\n  1 mem\n\nBlock devices:\n195 nvidia\n");
	devices_done(&d);
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 0);
	assert_int_equal(d.count, 0);
}

static void imex_channels_on_request(void **state) // R-P5
{
	(void)state;
	static const struct {
		const char *table, *params;
		unsigned request;
		int nodes; // -1 = E_USAGE
	} cases[] = {
		{ "", "", 0, 0 },
		{ "", "", 1, -1 },
		{ "234 nvidia-caps-imex-channels\n", "", 0, 0 },
		{ "234 nvidia-caps-imex-channels\n", "ImexChannelCount: 4\n", 2, 2 },
		{ "234 nvidia-caps-imex-channels\n", "ImexChannelCount: 4\n", 5, -1 },
		{ "234 nvidia-caps-imex-channels\n", "CreateImexChannel0: 1\n", 0, 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_folder struct folder t;
		struct err err = { 0 };
		auto_devices struct devices d = { 0 };
		auto_str char *text = str_fmt("Character devices:\n195 nvidia\n%s\n", cases[i].table);
		folder_make(&t);
		tempdir_write(&t, "proc/devices", text);
		tempdir_write(&t, "proc/driver/nvidia/params", cases[i].params);
		int r = devices_want(&t.root, cases[i].request, &d, &err);
		if (cases[i].nodes < 0)
			assert_int_equal(err.code, E_USAGE);
		else
			assert_int_equal(d.count, cases[i].nodes + 1); // nvidiactl
		assert_int_equal(r, cases[i].nodes < 0 ? -1 : 1);
	}
}

static void expect_node(const struct folder *t, const char *path, const char *wanted)
{
	struct err err;
	auto_str char *text = NULL;
	assert_int_equal(root_line(&t->root, path, &text, &err), 1);
	assert_string_equal(text, wanted);
}

static void expect_link(const struct folder *t, const char *path, const char *wanted)
{
	struct err err;
	auto_str char *target = NULL;
	assert_int_equal(root_readlink(&t->root, path, &target, &err), 1);
	assert_string_equal(target, wanted);
}

static void second_run_changes_nothing(void **state) // R-G1, R-G2, R-G3
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_devices struct devices d = { 0 };
	machine(&t, 8, 4);
	struct sys sys = sys_recorder(&t.root);
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
	assert_int_equal(devices_apply(&t.root, &sys, false, &d, &err), 1);
	for (size_t i = 0; i < d.count; i++) {
		auto_str char *link = str_fmt("dev/char/%u:%u", d.items[i].major, d.items[i].minor);
		auto_str char *target = str_fmt("../%s", d.items[i].path);
		assert_int_equal(d.items[i].verdict, NODE_CREATED);
		expect_link(&t, link, target);
	}
	expect_node(&t, "dev/nvidia7", "c 195:7 0666 0:0");
	expect_node(&t, "dev/nvidia-caps/nvidia-cap2", "c 245:2 0444 0:0");
	auto_str char *calls = NULL, *calls_after = NULL;
	assert_int_equal(root_read(&t.root, ".sys-calls", &calls, NULL, &err), 1);
	assert_int_equal(devices_apply(&t.root, &sys, false, &d, &err), 0);
	assert_int_equal(d.changes, 0);
	assert_int_equal(devices_count_bad(&d), 0);
	for (size_t i = 0; i < d.count; i++)
		assert_int_equal(d.items[i].verdict, NODE_OK);
	assert_int_equal(root_read(&t.root, ".sys-calls", &calls_after, NULL, &err), 1);
	assert_string_equal(calls, calls_after);
}

// The kernel gives out numbers as drivers come: those of one may be another's next time.
static void numbers_that_move_between_nodes(void **state) // R-G1
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_devices struct devices d = { 0 }, now = { 0 };
	machine(&t, 1, 0);
	struct sys sys = sys_recorder(&t.root);
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
	assert_int_equal(devices_apply(&t.root, &sys, false, &d, &err), 1);
	tempdir_write(&t, "proc/devices",
		      "Character devices:\n195 nvidia\n242 nvidia-caps\n244 nvidia-uvm\n246 nvidia-nvlink\n\n");
	tempdir_link(&t, "dev/char/9:9", "../other");
	assert_int_equal(devices_want(&t.root, 0, &now, &err), 1);
	assert_int_equal(devices_apply(&t.root, &sys, false, &now, &err), 1);
	assert_int_equal(devices_apply(&t.root, &sys, true, &now, &err), 0);
	for (size_t i = 0; i < now.count; i++)
		expect(now.items[i].verdict == NODE_OK, now.items[i].path);
	expect_link(&t, "dev/char/244:0", "../nvidia-uvm");
	expect_link(&t, "dev/char/242:1", "../nvidia-caps/nvidia-cap1");
	expect_link(&t, "dev/char/9:9", "../other");
	assert_false(root_exists(&t.root, "dev/char/245:1")); // nobody's number now
}

static void dry_run_only_looks(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_devices struct devices d = { 0 };
	machine(&t, 1, 0);
	struct sys sys = sys_recorder(&t.root);
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
	assert_int_equal(devices_apply(&t.root, &sys, true, &d, &err), 0);
	assert_int_equal(devices_count_bad(&d), d.count);
	auto_strv struct strv names = { 0 };
	assert_int_equal(root_list(&t.root, "dev", &names, &err), 1);
	assert_int_equal(names.count, 0);
}

static const struct fix {
	const char *path, *text, *link; // what is there before
	enum device_verdict dry, applied;
	const char *why;
} fixes[] = {
	{ "nvidia0", "c 195:0 0666 0:0\n", "../nvidia0", NODE_OK, NODE_OK, NULL },
	{ "nvidia0", "c 195:0 0600 0:0\n", "../nvidia0", NODE_WRONG, NODE_CORRECTED, "mode" },
	{ "nvidia0", "c 195:0 0666 0:44\n", "../nvidia0", NODE_WRONG, NODE_CORRECTED, "owner" },
	{ "nvidia0", "c 195:1 0666 0:0\n", "../nvidia0", NODE_WRONG, NODE_CORRECTED, "number" },
	{ "nvidia0", "just a file\n", "../nvidia0", NODE_WRONG, NODE_CORRECTED, "type" },
	{ "nvidia0", "c 195:0 0666 0:0\n", "../nvidia1", NODE_WRONG, NODE_CORRECTED, "link" },
	{ "nvidia0", "c 195:0 0666 0:0\n", NULL, NODE_WRONG, NODE_CORRECTED, "link" },
	{ "nvidia0", "c 195:0 0666 0:0\n", "/dev/nvidia0", NODE_OK, NODE_OK, NULL },
	{ "nvidia0", NULL, NULL, NODE_MISSING, NODE_CREATED, NULL },
};

static void check_fix(const struct fix *fix)
{
	auto_folder struct folder t;
	struct err err;
	auto_devices struct devices d = { 0 };
	folder_make(&t);
	struct sys sys = sys_recorder(&t.root);
	tempdir_write(&t, "proc/devices", "Character devices:\n195 nvidia\n\n");
	tempdir_write(&t, "proc/driver/nvidia/gpus/0000:40:00.0/information", "Device Minor: 0\n");
	folder_dir(&t, "dev/char");
	if (fix->text)
		tempdir_write(&t, "dev/nvidia0", fix->text);
	if (fix->link)
		tempdir_link(&t, "dev/char/195:0", fix->link);
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
	assert_string_equal(d.items[0].path, "nvidia0");
	assert_int_equal(devices_apply(&t.root, &sys, true, &d, &err), 0);
	assert_int_equal(d.items[0].verdict, fix->dry);
	assert_true(d.items[0].why == fix->why || str_eq(d.items[0].why, fix->why));
	assert_int_equal(devices_apply(&t.root, &sys, false, &d, &err), 1); // nvidiactl at least
	assert_int_equal(d.items[0].verdict, fix->applied);
	assert_true(d.items[0].why == fix->why || str_eq(d.items[0].why, fix->why));
	expect_node(&t, "dev/nvidia0", "c 195:0 0666 0:0");
	assert_int_equal(devices_apply(&t.root, &sys, false, &d, &err), 0);
	assert_int_equal(d.items[0].verdict, NODE_OK);
}

static void corrects_wrong_nodes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fixes); i++)
		check_fix(&fixes[i]);
}

static void modify_device_files_is_obeyed(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_devices struct devices d = { 0 };
	machine(&t, 1, 0);
	struct sys sys = sys_recorder(&t.root);
	tempdir_write(&t, "proc/devices", "Character devices:\n195 nvidia\n\n");
	tempdir_write(&t, "sys/module/x", "");
	tempdir_write(&t, "proc/driver/nvidia/params", "DeviceFileMode: 438\nModifyDeviceFiles: 0\n");
	tempdir_write(&t, "dev/nvidia0", "c 195:0 0600 0:0\n");
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
	assert_int_equal(devices_apply(&t.root, &sys, false, &d, &err), 1);
	for (size_t i = 0; i < d.count; i++) {
		bool is_there = str_eq(d.items[i].path, "nvidia0");
		assert_int_equal(d.items[i].verdict, is_there ? NODE_WRONG : NODE_MISSING);
	}
	expect_node(&t, "dev/nvidia0", "c 195:0 0600 0:0");
	expect_link(&t, "dev/char/195:0", "../nvidia0"); // links are made in any case
	assert_false(root_exists(&t.root, "dev/nvidiactl"));
	auto_str char *link = NULL;
	assert_int_equal(root_readlink(&t.root, "dev/char/195:255", &link, &err), 0); // and never dangle
}

static void touches_nothing_outside_dev_root(void **state) // R-G4
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_devices struct devices d = { 0 };
	auto_root struct root other = ROOT_NONE;
	machine(&t, 1, 1);
	folder_dir(&t, "other");
	assert_int_equal(root_sub(&t.root, "other", &other, &err), 0);
	struct sys sys = sys_recorder(&other);
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
	assert_int_equal(devices_apply(&other, &sys, false, &d, &err), 1);
	expect_node(&t, "other/dev/nvidia0", "c 195:0 0666 0:0");
	expect_link(&t, "other/dev/char/195:0", "../nvidia0");
	auto_strv struct strv names = { 0 };
	assert_int_equal(root_list(&t.root, "dev", &names, &err), 1);
	assert_int_equal(names.count, 0);
}

static int refuse(const struct sys *sys, int dir, const char *name, mode_t mode, dev_t dev)
{
	(void)sys, (void)dir, (void)name, (void)mode, (void)dev;
	errno = EPERM;
	return -1;
}

static void a_refused_node_is_named(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err = { 0 };
	auto_devices struct devices d = { 0 };
	machine(&t, 2, 0);
	struct sys sys = sys_recorder(&t.root);
	tempdir_write(&t, "dev/nvidiactl", "c 195:255 0666 0:0\n");
	sys.node_make = refuse;
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
	assert_int_equal(devices_apply(&t.root, &sys, false, &d, &err), -1);
	assert_int_equal(err.code, E_NODES);
	assert_non_null(strstr(err.text, "nvidia-caps/nvidia-cap0' (245:0): Operation not permitted"));
	assert_int_equal(devices_count_bad(&d), d.count - 1);
	expect_link(&t, "dev/char/195:255", "../nvidiactl"); // the others are still tried
}

static void makes_real_nodes_where_allowed(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	struct stat st;
	auto_devices struct devices d = { 0 };
	machine(&t, 8, 4);
	auto_str char *null = str_fmt("%s/null", t.path);
	if (mknod(null, S_IFCHR | 0600, makedev(1, 3)) < 0)
		skip(); // an ordinary user, a user namespace, or a container without the right
	tempdir_write(&t, "proc/driver/nvidia/params", "DeviceFileGID: 44\nDeviceFileMode: 432\n");
	assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
	mode_t mask = umask(077);
	int r = devices_apply(&t.root, sys_real(), false, &d, &err);
	umask(mask);
	assert_int_equal(r, 1);
	assert_int_equal(root_stat(&t.root, "dev/nvidia7", &st, &err), 1);
	assert_true(S_ISCHR(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(st.st_gid, 44);
	assert_int_equal(st.st_rdev, makedev(195, 7));
	assert_int_equal(root_stat(&t.root, "dev/nvidia-caps", &st, &err), 1);
	assert_int_equal(st.st_mode & 07777, 0755); // whatever the umask
	assert_int_equal(devices_apply(&t.root, sys_real(), false, &d, &err), 0);
	assert_int_equal(d.changes, 0);
}

// A simulated machine with 8 GPUs and 4 switches, recorded from a real kernel with the real modules.
static void a_recorded_machine_is_complete(void **state)
{
	(void)state;
	struct err err;
	auto_root struct root host = ROOT_NONE;
	auto_devices struct devices d = { 0 };
	assert_int_equal(root_init(&host, "tests/hosts/h100x8", &err), 0);
	assert_int_equal(devices_want(&host, 0, &d, &err), 1);
	// 8 GPUs, ctl, modeset, uvm, uvm-tools, 4 switches and their ctl, nvlink, mig config and monitor, fabric-mgmt
	assert_int_equal(d.count, 8 + 4 + 5 + 1 + 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_all_nodes),
		cmocka_unit_test(lists_only_nodes_of_loaded_modules),
		cmocka_unit_test(imex_channels_on_request),
		cmocka_unit_test(second_run_changes_nothing),
		cmocka_unit_test(numbers_that_move_between_nodes),
		cmocka_unit_test(dry_run_only_looks),
		cmocka_unit_test(corrects_wrong_nodes),
		cmocka_unit_test(modify_device_files_is_obeyed),
		cmocka_unit_test(touches_nothing_outside_dev_root),
		cmocka_unit_test(a_refused_node_is_named),
		cmocka_unit_test(makes_real_nodes_where_allowed),
		cmocka_unit_test(a_recorded_machine_is_complete),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
