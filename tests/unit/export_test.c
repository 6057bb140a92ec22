// SPDX-License-Identifier: Apache-2.0
#include "driver_root/driver_root.h"

#include "driver_root/generation.h"
#include "driver_root/root_record.h"
#include "tests/unit/tempdir.h"

#include <sched.h>
#include <sys/mount.h>

#define RELEASE "6.1.0-9-amd64"

FOLDER_OF_A_TEST

static struct root below(const char *dir)
{
	struct err err;
	struct root root = ROOT_NONE;
	folder_dir(&folder, dir);
	assert_int_equal(root_sub(&folder.root, dir, &root, &err), 0);
	return root;
}

// An entry as one line: its source and its properties.
static char *describe(const struct root_entry *p, const struct root *payload)
{
	if (p->is_link)
		return str_fmt("%s -> %s", p->path, p->source);
	if (p->is_own)
		return str_fmt("%s own", p->path);
	return str_fmt("%s %s:%s%s%s", p->path, p->from == payload ? "payload" : "host", p->source,
		       p->is_read_only ? " ro" : "", p->is_whole ? " whole" : "");
}

static void test_what_a_root_is_made_of(void **state)
{
	(void)state;
	static const char *const machine[] = { "dev", "proc", "sys", "lib/modules/" RELEASE "/kernel",
					       "lib/modules/" RELEASE "/updates" };
	static const char WANT[] = "bin -> usr/bin\nlib -> usr/lib\nrun payload:run ro\nusr payload:usr ro\n"
				   "var payload:var ro\n"
				   "dev host:dev whole\nproc host:proc\nsys host:sys\n"
				   "run/nvidia-persistenced host:run/nvidia-persistenced\n"
				   "run/systemd/journal host:run/kmodsmith/syslog\n"
				   "tmp own\nusr/src/nvidia-535 host:.\n"
				   "lib/modules/" RELEASE " host:. ro\n"
				   "lib/modules/" RELEASE "/kernel host:lib/modules/" RELEASE "/kernel ro\n";
	auto_root struct root payload = below("payload"), host = below("host"), modules = below("modules/kernel/.."),
			      sources = below("sources");
	auto_root_layout struct root_layout p = { 0 };
	auto_str char *text = NULL;
	struct err err = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(machine); i++) {
		auto_str char *dir = str_fmt("host/%s", machine[i]);
		folder_dir(&folder, dir);
	}
	tempdir_write(&folder, "payload/usr/lib/libcuda.so.535.261.03", "");
	tempdir_write(&folder, "payload/usr/bin/nvidia-persistenced", "");
	tempdir_write(&folder, "payload/dev/null", "");
	tempdir_write(&folder, "payload/tmp/x", "");
	tempdir_write(&folder, "payload/.tmp/x", "");
	tempdir_link(&folder, "payload/lib", "/usr/lib");
	tempdir_link(&folder, "payload/bin", "usr/bin");
	assert_int_equal(root_layout_prepare(&payload, &host, RELEASE, &err), 0);
	assert_true(root_exists(&folder.root, "payload/usr/lib/modules/" RELEASE));
	assert_true(root_exists(&folder.root, "payload/usr/lib/firmware"));
	assert_true(root_exists(&folder.root,
				"payload/var/run/nvidia-persistenced")); // where the daemon writes
	struct root_content c = { .payload = &payload,
				  .host = &host,
				  .modules = &modules,
				  .sources = &sources,
				  .release = RELEASE,
				  .driver = "535" };
	expect(root_layout_read(&c, &p, &err) == 0, err.text);
	for (size_t i = 0; i < p.count; i++) {
		auto_str char *line = describe(&p.items[i], &payload);
		str_add(&text, "%s\n", line);
		assert_true(p.items[i].is_link || p.items[i].is_own || p.items[i].ino);
	}
	assert_string_equal(text, WANT);
}

static void test_names_of_generations(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		unsigned number;
	} rows[] = {
		{ ".driver.7", 7 },   { ".driver.", 0 },    { ".driver.x", 0 }, { ".driver", 0 },
		{ ".other.7", 0 },    { "driver.7", 0 },    { ".driver.0", 0 }, { ".driver.99999999999", 0 },
		{ ".driver.7.8", 0 }, { ".driver.12", 12 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(generation_number("driver", rows[i].name) == rows[i].number, rows[i].name);
	auto_str char *name = generation_name("driver", 7);
	assert_string_equal(name, ".driver.7");
}

// An incomplete one is removed with its contents; a link in it is removed, not
// followed.
static void test_what_was_left_is_removed(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_root struct root parent = below("run"), kern = ROOT_NONE;
	auto_mount_ns struct mount_ns s = MOUNT_NS_NONE;
	assert_int_equal(root_init(&kern, "/", &err), 0);
	const struct node node = { .host = &kern, .kern = &kern, .sys = sys_real() };
	expect(mount_ns_open(&node, &s, &err) == 0, err.text);
	tempdir_write(&folder, "keep/file", "x");
	tempdir_write(&folder, "run/.driver.1/lib/firmware/nvidia/1/gsp.bin", "x");
	tempdir_link(&folder, "run/.driver.1/usr", "../../keep");
	folder_dir(&folder, "run/.driver.1/dev/pts");
	assert_int_equal(generation_remove(&s, &parent, ".driver.1", &err), 1);
	assert_int_equal(generation_remove(&s, &parent, ".driver.1", &err), 0);
	assert_false(root_exists(&folder.root, "run/.driver.1"));
	folder_expect(&folder, "keep/file", "x");
}

static void test_where_it_may_be(void **state)
{
	(void)state;
	static const struct {
		const char *dir;
		int code;
		const char *parent, *base;
	} rows[] = {
		{ "/run/nvidia/driver", 0, "run/nvidia", "driver" },
		{ "/run//nvidia/driver/", 0, "run/nvidia", "driver" },
		{ "/srv/root", 0, "srv", "root" },
		{ "run/nvidia/driver", E_USAGE, NULL, NULL },
		{ "/driver", E_USAGE, NULL, NULL },
		{ "/", E_USAGE, NULL, NULL },
		{ "/run/nvidia/../driver", E_USAGE, NULL, NULL },
		{ "", E_USAGE, NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_driver_root struct driver_root e = { 0 };
		struct err err = { 0 };
		expect((driver_root_open(&e, rows[i].dir, &err) < 0 ? err.code : 0) == rows[i].code, rows[i].dir);
		expect(rows[i].code || (str_eq(e.parent, rows[i].parent) && str_eq(e.base, rows[i].base)), rows[i].dir);
	}
}

static void test_versions(void **state)
{
	(void)state;
	static const struct {
		const char *file, *version;
	} rows[] = {
		{ "usr/lib/x86_64-linux-gnu/libcuda.so.535.261.03", "535.261.03" },
		{ "usr/lib64/libnvidia-ml.so.560.35", "560.35" },
		{ "usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.535.261.03", "535.261.03" },
		{ "usr/lib/x86_64-linux-gnu/libcuda.so.1", NULL },
		{ "usr/lib/x86_64-linux-gnu/libnvidia-egl-wayland.so.1.1.13", NULL },
		{ "opt/libcuda.so.535.261.03", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *dir = str_fmt("row%zu", i), *path = str_fmt("%s/%s", dir, rows[i].file);
		tempdir_write(&folder, path, "");
		auto_root struct root root = below(dir);
		auto_str char *found = NULL, *version = root_record_libraries(&root, NULL, &found);
		expect(rows[i].version ? str_eq(version, rows[i].version) : !version, rows[i].file);
		expect(rows[i].version ? str_starts(rows[i].file, found) : !found, rows[i].file);
	}
}

// A record of another boot, or none, means that nothing is exported.
static void test_the_record(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_root_record struct root_record now = { 0 };
	auto_str char *text = NULL;
	struct root_layout none = { 0 };
	auto_root_record struct root_record made = { .dir = str_dup("run/nvidia/driver"),
						     .driver = str_dup("535.261.03"),
						     .payload = str_dup("aa"),
						     .former = str_dup("run/nvidia/old"),
						     .generation = 3 };
	assert_int_equal(root_record_read(&folder.root, "this", &now, &err), 0);
	assert_int_equal(root_record_generation(&folder.root), 0);
	assert_int_equal(root_record_write(&folder.root, "this", &made, &none, &err), 0);
	assert_int_equal(root_record_read(&folder.root, "other", &now, &err), 0);
	assert_int_equal(root_record_read(&folder.root, "this", &now, &err), 1);
	assert_string_equal(now.dir, "run/nvidia/driver");
	assert_string_equal(now.driver, "535.261.03");
	assert_null(now.modules);
	assert_string_equal(now.former, "run/nvidia/old");
	assert_int_equal(root_record_generation(&folder.root), 3);
	assert_int_equal(root_read(&folder.root, ROOT_RECORD_FILE, &text, NULL, &err), 1);
	folder_file(&folder, "run/kmodsmith/export.json", "{ \"boot\": ");
	root_record_done(&now);
	assert_int_equal(root_record_read(&folder.root, "this", &now, &err), 0);
	assert_int_equal(root_record_restore(&folder.root, text, &err), 0);
	assert_int_equal(root_record_generation(&folder.root), 3);
	assert_int_equal(root_record_restore(&folder.root, NULL, &err), 0);
	assert_false(root_exists(&folder.root, "run/kmodsmith/export.json"));
}

// R-P6: a firmware path that another program has set stays; ours is set to the
// generation that is prepared.
static void test_the_firmware_path(void **state)
{
	(void)state;
	static const char SETTING[] = "sys/module/firmware_class/parameters/path";
	static const struct {
		const char *before, *host, *after;
	} rows[] = {
		{ "\n", NULL, "/run/nvidia/.driver.4/lib/firmware" },
		{ "/run/nvidia/driver/lib/firmware\n", NULL, "/run/nvidia/.driver.4/lib/firmware" },
		{ "/run/nvidia/.driver.2/lib/firmware\n", NULL, "/run/nvidia/.driver.4/lib/firmware" },
		{ "\n\n", NULL, "/run/nvidia/.driver.4/lib/firmware" }, // as a former export left it
		{ "/opt/firmware\n", NULL, "/opt/firmware\n" },
		{ "\n", "lib/firmware/nvidia/535.261.03/gsp_ga10x.bin", "\n" }, // the kernel finds it there anyway
		{ NULL, NULL, NULL },
	};
	tempdir_write(&folder, "state/payloads/aa/lib/firmware/nvidia/535.261.03/gsp_ga10x.bin", "x");
	auto_root struct root data = below("state");
	struct driver_root_request request = { .driver = "535.261.03", .payload = "aa", .release = RELEASE };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *dir = str_fmt("machine%zu", i), *path = str_fmt("%s/%s", dir, SETTING);
		auto_str char *firmware = str_fmt("%s/%s", dir, rows[i].host ? rows[i].host : "lib/other");
		auto_root struct root machine = below(dir);
		struct progress progress = { 0 };
		struct err err = { 0 };
		struct sys sys = sys_recorder(&machine);
		const struct node node = {
			.host = &machine, .kern = &machine, .state = &data, .sys = &sys, .progress = &progress
		};
		auto_driver_root struct driver_root e = { .node = &node };
		assert_int_equal(driver_root_open(&e, DRIVER_ROOT_DEFAULT, &err), 0);
		e.made = generation_name(e.base, 4);
		tempdir_write(&folder, firmware, "x");
		if (rows[i].before)
			tempdir_write(&folder, path, rows[i].before);
		expect(driver_root_set_firmware_path(&e, &request, &err) >= 0, err.text);
		if (rows[i].after)
			folder_expect(&folder, path, rows[i].after);
		assert_int_equal(root_exists(&machine, SETTING), rows[i].before != NULL);
	}
}

// Before anything is touched: what the load would have to write is tried where
// it would be written, and nowhere else.
static void test_a_firmware_path_that_cannot_be_written(void **state)
{
	(void)state;
	static const char SETTING[] = "sys/module/firmware_class/parameters/path";
	static const struct {
		const char *before; // NULL = there is no such attribute: nothing can be
				    // written, nor need be
		bool is_on_host;    // the firmware is found without it
		int code;
	} rows[] = { { "\n", false, EROFS },
		     { "/run/nvidia/driver/lib/firmware\n", true, EROFS },
		     { "/opt/firmware\n", false, 0 },
		     { "\n", true, 0 },
		     { NULL, false, 0 } };
	struct err err;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
		skip();          // CAP_SYS_ADMIN is needed, and a root directory that is a mount
				 // point
	root_done(&folder.root); // in the namespace of before
	assert_int_equal(root_init(&folder.root, folder.path, &err), 0);
	tempdir_write(&folder, "state/payloads/aa/lib/firmware/nvidia/535.261.03/gsp_ga10x.bin", "x");
	auto_root struct root data = below("state");
	const struct driver_root_request request = { .driver = "535.261.03", .payload = "aa", .release = RELEASE };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *dir = str_fmt("machine%zu", i), *path = str_fmt("%s/%s", dir, SETTING);
		auto_str char *firmware = str_fmt("%s/lib/firmware/nvidia/535.261.03/gsp_ga10x.bin", dir);
		auto_str char *sys_dir = str_fmt("%s/%s/sys", folder.path, dir);
		auto_str char *below_sys = str_fmt("%s/sys", dir);
		auto_root struct root machine = below(dir);
		const struct node node = { .host = &machine, .kern = &machine, .state = &data };
		auto_driver_root struct driver_root e = { .node = &node };
		err = (struct err){ 0 };
		assert_int_equal(driver_root_open(&e, DRIVER_ROOT_DEFAULT, &err), 0);
		folder_dir(&folder, below_sys);
		if (rows[i].before)
			tempdir_write(&folder, path, rows[i].before);
		if (rows[i].is_on_host)
			tempdir_write(&folder, firmware, "x");
		assert_int_equal(mount(sys_dir, sys_dir, NULL, MS_BIND, NULL), 0);
		expect(driver_root_check_firmware_path(&e, &request, &err) == 0, err.text);
		assert_int_equal(mount(NULL, sys_dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
		expect(driver_root_check_firmware_path(&e, &request, &err) == (rows[i].code ? -1 : 0), err.text);
		expect(err.code == rows[i].code, err.text);
		assert_int_equal(umount2(sys_dir, MNT_DETACH), 0);
	}
}

// Nothing is removed while the kernel finds firmware of the loaded driver
// nowhere else.
static void test_withdrawn(void **state)
{
	(void)state;
	static const struct {
		const char *path, *other, *driver;
		int code;
	} rows[] = {
		{ "/run/nvidia/driver/lib/firmware\n", NULL, "535.9", E_FIRMWARE },
		{ "/run/nvidia/driver/lib/firmware\n", NULL, NULL, EOPNOTSUPP },
		{ "/run/nvidia/driver/lib/firmware\n", "lib/firmware/nvidia/535.9/gsp.bin", "535.9", EOPNOTSUPP },
		{ "/opt/firmware\n", NULL, "535.9", EOPNOTSUPP },
		{ "\n", NULL, "535.9", EOPNOTSUPP },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		struct err err = { 0 };
		folder_make(&f);
		tempdir_write(&f, "sys/module/firmware_class/parameters/path", rows[i].path);
		tempdir_write(&f, "run/nvidia/driver/lib/firmware/nvidia/535.9/gsp.bin", "x");
		if (rows[i].other)
			tempdir_write(&f, rows[i].other, "x");
		struct sys sys = sys_recorder(&f.root);
		const struct node node = { .host = &f.root, .kern = &f.root, .sys = &sys, .boot = "this" };
		auto_driver_root struct driver_root e = { .node = &node };
		assert_int_equal(driver_root_open(&e, DRIVER_ROOT_DEFAULT, &err), 0);
		expect(driver_root_withdraw(&e, RELEASE, rows[i].driver, true, &err) == -1, rows[i].path);
		if (err.code != rows[i].code)
			fail_msg("row %zu: %s", i, err.text);
	}
}

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define FIRMWARE "lib/firmware/nvidia/535.261.03/gsp_ga10x.bin"
static const char FWPATH[] = "machine/sys/module/firmware_class/parameters/path";
static struct progress quiet;
static struct sys calls; // the kernel's, but for attributes

// Replaces the file, because a shorter text would leave the end of a longer
// one.
static int set_attribute(const struct sys *sys, const struct root *kern, const char *path, const char *text)
{
	(void)sys;
	struct err err;
	return root_put(kern, path, text, strlen(text), 0644, &err);
}

// A machine as a folder, but with the kernel's own mounts, in a namespace of
// this process.
static void make_machine(struct root *ret_machine, struct root *ret_data)
{
	static const char *const files[] = { "state/payloads/" HEX_A "/usr/version",
					     "state/payloads/" HEX_B "/usr/version" };
	folder_make(&folder);
	auto_str char *proc = str_fmt("%s/machine/proc", folder.path);
	folder_dir(&folder, "machine/proc");
	folder_dir(&folder, "machine/run/nvidia/driver");
	folder_dir(&folder, "machine/dev");
	tempdir_write(&folder, FWPATH, "\n");
	tempdir_write(&folder, files[0], "a");
	tempdir_write(&folder, files[1], "b");
	tempdir_write(&folder, "state/payloads/" HEX_A "/" FIRMWARE, "x");
	tempdir_write(&folder, "state/payloads/" HEX_B "/" FIRMWARE, "x");
	assert_int_equal(mount("/proc", proc, NULL, MS_BIND | MS_REC, NULL), 0);
	*ret_machine = below("machine");
	*ret_data = below("state");
}

static void begin(struct driver_root *e, const struct root *machine, const struct root *data)
{
	static struct node node;
	struct err err;
	driver_root_done(e);
	node = (struct node){
		.host = machine, .kern = machine, .state = data, .sys = &calls, .progress = &quiet, .boot = "this"
	};
	*e = (struct driver_root){ .node = &node };
	assert_int_equal(driver_root_open(e, DRIVER_ROOT_DEFAULT, &err), 0);
}

static void expect_look(struct driver_root *e, const struct driver_root_request *request, const char *why)
{
	struct err err = { 0 };
	auto_str char *found = NULL;
	expect(driver_root_check(e, request, &found, &err) == (why ? 0 : 1), found ? found : err.text);
	expect(!why || strstr(found, why), found);
}

static void switch_to(struct driver_root *e, const struct driver_root_request *request)
{
	struct err err = { 0 };
	expect(driver_root_prepare(e, request, &err) == 0, err.text);
	expect(driver_root_set_firmware_path(e, request, &err) >= 0, err.text);
	auto_str char *made = str_fmt("/run/nvidia/.driver.%u/lib/firmware", e->number);
	folder_expect(&folder, FWPATH, made);
	expect(driver_root_switch(e, request, &err) == 0, err.text);
	folder_expect(&folder, FWPATH, "/run/nvidia/driver/lib/firmware");
}

static void settle(struct driver_root *e)
{
	struct err err = { 0 };
	expect(driver_root_finish(e, &err) == 0, err.text);
	expect(driver_root_gc(e, &err) >= 0, err.text);
}

// R-D4: one start after the other, with one that is rolled back, one that is
// killed, and the driver manager.
static void test_starts(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
		skip(); // CAP_SYS_ADMIN is needed, and a root directory that is a mount
			// point
	struct err err = { 0 };
	auto_root struct root machine = ROOT_NONE, data = ROOT_NONE;
	auto_driver_root struct driver_root e = { 0 };
	const struct driver_root_request a = { .driver = "535.261.03", .payload = HEX_A, .release = RELEASE };
	const struct driver_root_request b = { .driver = "535.261.03", .payload = HEX_B, .release = RELEASE };
	calls = *sys_real();
	calls.attribute_set = set_attribute;
	make_machine(&machine, &data);
	auto_str char *driver = str_fmt("%s/machine/run/nvidia/driver", folder.path);
	begin(&e, &machine, &data);
	expect_look(&e, &a, "there is none yet");
	switch_to(&e, &a);
	settle(&e);
	folder_expect(&folder, "machine/run/nvidia/driver/usr/version", "a");

	begin(&e, &machine, &data);
	expect_look(&e, &a, NULL);
	tempdir_write(&folder, "state/payloads/" HEX_B "/usr/version", "b");
	tempdir_write(&folder, "state/payloads/" HEX_B "/" FIRMWARE, "x");
	expect_look(&e, &b, "is of something else");
	switch_to(&e, &b);
	folder_expect(&folder, "machine/run/nvidia/driver/usr/version", "b");
	expect(driver_root_rollback(&e, &err) == 0, err.text);
	folder_expect(&folder, "machine/run/nvidia/driver/usr/version", "a");
	folder_expect(&folder, FWPATH, "/run/nvidia/driver/lib/firmware");
	expect_look(&e, &a, NULL);

	switch_to(&e, &b); // and killed
	begin(&e, &machine, &data);
	expect_look(&e, &b, "an earlier one is still mounted beneath it");
	switch_to(&e, &b);
	settle(&e);
	expect_look(&e, &b, NULL);

	assert_int_equal(umount2(driver, MNT_DETACH), 0);
	folder_dir(&folder, "machine/run/nvidia/driver/lib/firmware");
	begin(&e, &machine, &data);
	expect_look(&e, &b, "there is none yet");
	switch_to(&e, &b);
	settle(&e);
	expect_look(&e, &b, NULL);

	// As the images of two pods have it, and this payload does not: what is in place gets it.
	static const char *const programs[] = { "static", "newer!" };
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		tempdir_write(&folder, "machine/" DRIVER_ROOT_PROGRAM, programs[i]);
		begin(&e, &machine, &data);
		expect_look(&e, &b, NULL);
		expect(driver_root_confirm(&e, &b, &err) == 0, err.text);
		folder_expect(&folder, "machine/run/nvidia/driver/" DRIVER_ROOT_PROGRAM, programs[i]);
	}
	struct stat st;
	assert_int_equal(root_stat(&machine, "run/nvidia/driver/" DRIVER_ROOT_PROGRAM, &st, &err), 1);
	assert_int_equal(st.st_mode & 07777, 0755);
	auto_strv struct strv left = { 0 };
	assert_int_equal(root_list(&machine, "run/nvidia", &left, &err), 1);
	assert_int_equal(left.count, 1);
}

static int end_machine(void **state)
{
	(void)state;
	auto_str char *proc = str_fmt("%s/machine/proc", folder.path),
		      *driver = str_fmt("%s/machine/run/nvidia/driver", folder.path);
	umount2(driver, MNT_DETACH);
	umount2(proc, MNT_DETACH);
	folder_done(&folder);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_what_a_root_is_made_of),
		cmocka_unit_test(test_names_of_generations),
		IN_FOLDER(test_what_was_left_is_removed),
		cmocka_unit_test(test_where_it_may_be),
		IN_FOLDER(test_versions),
		IN_FOLDER(test_the_record),
		cmocka_unit_test(test_withdrawn),
		IN_FOLDER(test_the_firmware_path),
		IN_FOLDER(test_a_firmware_path_that_cannot_be_written),
		cmocka_unit_test_teardown(test_starts, end_machine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
