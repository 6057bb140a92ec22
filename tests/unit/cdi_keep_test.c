// SPDX-License-Identifier: Apache-2.0
// The specification on a machine: whole or not there, in one place, and never beside another one of its kind.
#include "devices/cdi_spec_file.h"
#include "devices/nodes.h"

#include "tests/unit/tempdir.h"

#define FILE_AT "run/cdi/kmodsmith.json"

struct machine {
	struct folder t;
	struct sys sys;
	struct node where;
};

static void machine_make(struct machine *m)
{
	struct err err;
	auto_devices struct devices d = { 0 };
	folder_make(&m->t);
	m->sys = sys_recorder(&m->t.root);
	m->where = (struct node){
		.host = &m->t.root, .kern = &m->t.root, .dev_root = &m->t.root, .sys = &m->sys, .boot = "this-boot"
	};
	tempdir_link(&m->t, "var/run", "/run");
	tempdir_write(&m->t, "proc/devices", "Character devices:\n195 nvidia\n");
	tempdir_write(&m->t, "proc/driver/nvidia/version",
		      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1  Fri\n");
	tempdir_write(&m->t, "proc/driver/nvidia/gpus/0000:40:00.0/information", "Device Minor: \t 0\n");
	tempdir_write(&m->t, "sys/module/nvidia/initstate", "live\n");
	tempdir_write(&m->t, "usr/lib64/libcuda.so.535.1", "");
	tempdir_write(&m->t, "usr/bin/kmodsmith", "");
	folder_dir(&m->t, "dev");
	assert_int_equal(devices_want(&m->t.root, 0, &d, &err), 1);
	assert_int_equal(devices_apply(&m->t.root, &m->sys, false, &d, &err), 1);
}

static void machine_done(struct machine *m)
{
	folder_done(&m->t);
}
#define auto_machine __attribute__((cleanup(machine_done)))

static bool has(const struct machine *m, const char *path)
{
	return root_exists(&m->t.root, path);
}

static int keep(const struct machine *m, const char *file, bool is_ready)
{
	struct err err = { 0 };
	int r = cdi_spec_file_update(&m->where, file, is_ready, &err);
	return r < 0 ? -err.code : r;
}

static uint64_t inode(const struct machine *m)
{
	struct err err;
	struct stat st;
	assert_int_equal(root_stat(&m->t.root, FILE_AT, &st, &err), 1);
	return st.st_ino;
}

// R-G6: what says all of it already is not touched. A new driver, a new file.
static void written_when_it_differs(void **state)
{
	(void)state;
	auto_machine struct machine m;
	machine_make(&m);
	assert_int_equal(keep(&m, NULL, true), 0); // nobody has asked for one
	assert_false(has(&m, FILE_AT));
	assert_int_equal(keep(&m, CDI_FILE, true), 1);
	uint64_t first = inode(&m);
	assert_int_equal(keep(&m, CDI_FILE, true), 0);
	assert_int_equal(keep(&m, NULL, true), 0);
	assert_int_equal(inode(&m), first);
	tempdir_write(&m.t, "usr/bin/nvidia-smi", "");
	assert_int_equal(keep(&m, NULL, true), 1);
	tempdir_write(&m.t, FILE_AT, "{ cut off");
	assert_int_equal(keep(&m, NULL, true), 1);
}

static void withdrawn_and_back(void **state)
{
	(void)state;
	auto_machine struct machine m;
	struct err err;
	machine_make(&m);
	assert_int_equal(cdi_spec_file_withdraw(&m.t.root, &err), 0);
	assert_int_equal(keep(&m, CDI_FILE, true), 1);
	assert_int_equal(cdi_spec_file_withdraw(&m.t.root, &err), 1);
	assert_false(has(&m, FILE_AT));
	assert_int_equal(keep(&m, NULL, true), 1); // whoever ends the run, it is back
	assert_int_equal(keep(&m, NULL, false), 0);
	assert_false(has(&m, FILE_AT));
	assert_int_equal(keep(&m, CDI_FILE, true), 1);
	assert_int_equal(keep(&m, "none", true), 0);
	assert_int_equal(keep(&m, NULL, true), 0); // for good
	assert_false(has(&m, FILE_AT));
}

static void a_new_place_leaves_nothing_at_the_old_one(void **state)
{
	(void)state;
	auto_machine struct machine m;
	machine_make(&m);
	assert_int_equal(keep(&m, CDI_FILE, true), 1);
	assert_int_equal(keep(&m, "/etc/cdi/gpus.json", true), 1);
	assert_false(has(&m, FILE_AT));
	assert_true(has(&m, "etc/cdi/gpus.json"));
	assert_int_equal(root_rmtree(&m.t.root, "run/kmodsmith", &(struct err){ 0 }), 1); // as a reboot does
	assert_int_equal(keep(&m, "/etc/cdi/gpus.json", false), 0);
	assert_false(has(&m, "etc/cdi/gpus.json"));
}

static void a_failure_leaves_none(void **state)
{
	(void)state;
	auto_machine struct machine m;
	machine_make(&m);
	assert_int_equal(keep(&m, CDI_FILE, true), 1);
	tempdir_write(&m.t, "dev/nvidia0", "c 195:7 0666 0:0\n");
	assert_int_equal(keep(&m, NULL, true), -E_NODES);
	assert_false(has(&m, FILE_AT));
}

static void rivals(void **state)
{
	(void)state;
	static const struct {
		const char *path, *text;
		bool is_rival;
	} rows[] = {
		{ "run/cdi/nvidia.yaml", "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n", true },
		{ "etc/cdi/nvidia.yaml", "---\nkind: \"nvidia.com/gpu\" # of the toolkit\r\n", true },
		{ "etc/cdi/nvidia.json", "{\"kind\": \"nvidia.com/gpu\"}", true },
		{ "etc/cdi/nvidia.yaml", "{\"kind\": \"nvidia.com/gpu\"}", true },
		{ "etc/cdi/nvidia.yaml", "kind: nvidia.com/gpus\n", false },
		{ "etc/cdi/nvidia.yaml", "  kind: nvidia.com/gpu\n", false },
		{ "etc/cdi/management.json", "{\"kind\": \"management.nvidia.com/gpu\"}", false },
		{ "etc/cdi/notes.txt", "kind: nvidia.com/gpu\n", false },
		{ "etc/cdi/list.json", "[\"kind\"]", false },
		{ "etc/cdi/empty.yaml", "", false },
		{ "opt/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n", false },
		{ "etc/cdi/directory.json/file", "", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_machine struct machine m;
		machine_make(&m);
		assert_int_equal(keep(&m, CDI_FILE, true), 1); // ours is no rival of itself
		tempdir_write(&m.t, rows[i].path, rows[i].text);
		expect(keep(&m, CDI_FILE, true) == (rows[i].is_rival ? -E_CDI_RIVAL : 0), rows[i].text);
		expect(has(&m, FILE_AT) == !rows[i].is_rival, rows[i].text);
	}
}

// The file of IMEX channels comes and goes with that of the GPUs, and is the one that steps back.
static void channels_beside_it(void **state)
{
	(void)state;
	static const char beside[] = "run/cdi/kmodsmith-imex.json", other[] = "etc/cdi/channels.yaml";
	auto_machine struct machine m;
	struct err err;
	machine_make(&m);
	tempdir_write(&m.t, "proc/devices", "Character devices:\n195 nvidia\n234 nvidia-caps-imex-channels\n");
	assert_int_equal(keep(&m, CDI_FILE, true), 1);
	assert_false(has(&m, beside));
	tempdir_write(&m.t, "dev/nvidia-caps-imex-channels/channel0", "c 234:0 0666 0:0\n");
	assert_int_equal(keep(&m, NULL, true), 1);
	assert_true(has(&m, beside));
	assert_int_equal(keep(&m, NULL, true), 0);
	tempdir_write(&m.t, other, "kind: nvidia.com/imex-channel\n");
	assert_int_equal(keep(&m, NULL, true), 1);
	assert_false(has(&m, beside));
	assert_true(has(&m, FILE_AT));
	assert_int_equal(root_unlink(&m.t.root, other, &err), 1);
	assert_int_equal(keep(&m, NULL, true), 1);
	assert_int_equal(cdi_spec_file_withdraw(&m.t.root, &err), 1);
	assert_false(has(&m, beside));
	assert_int_equal(keep(&m, NULL, true), 1);
	assert_int_equal(keep(&m, "/etc/cdi/gpus.json", true), 1); // another place
	assert_false(has(&m, beside));
	assert_true(has(&m, "etc/cdi/gpus-imex.json"));
	assert_int_equal(keep(&m, NULL, false), 0);
	assert_false(has(&m, "etc/cdi/gpus-imex.json"));
	assert_int_equal(keep(&m, NULL, true), 1);
	assert_int_equal(root_unlink(&m.t.root, "dev/nvidia-caps-imex-channels/channel0", &err), 1);
	assert_int_equal(keep(&m, NULL, true), 1);
	assert_false(has(&m, "etc/cdi/gpus-imex.json"));
	assert_true(has(&m, "etc/cdi/gpus.json"));
}

static void places(void **state)
{
	(void)state;
	static const struct {
		const char *file;
		bool is_right;
	} rows[] = {
		{ "none", true },     { CDI_FILE, true },           { "/etc/cdi/x.json", true }, { "x.json", false },
		{ "/x.json", false }, { "/etc/cdi/x.yaml", false }, { "/etc/cdi/", false },      { "", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		int r = cdi_spec_file_check(rows[i].file, &err);
		expect((r == 0) == rows[i].is_right, rows[i].file);
		expect(r == 0 || err.code == E_USAGE, rows[i].file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_when_it_differs),
		cmocka_unit_test(withdrawn_and_back),
		cmocka_unit_test(a_new_place_leaves_nothing_at_the_old_one),
		cmocka_unit_test(a_failure_leaves_none),
		cmocka_unit_test(rivals),
		cmocka_unit_test(channels_beside_it),
		cmocka_unit_test(places),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
