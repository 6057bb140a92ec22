// SPDX-License-Identifier: Apache-2.0
// Exports on machines where not everything can be read: that is an error, and what may be in use stays.
#include "driver_root/driver_root.h"

#include "driver_root/generation.h"
#include "tests/unit/tempdir.h"

#include <errno.h>

#define RELEASE "6.1.0-9-amd64"

FOLDER_OF_A_TEST

// Root may read everything, so the tests run as another user.
static int as_nobody(void **state)
{
	(void)state;
	return geteuid() == 0 ? seteuid(65534) : 0;
}

static int as_root(void **state)
{
	(void)state;
	return getuid() == 0 ? seteuid(0) : 0;
}

static int setup_as_nobody(void **state)
{
	return as_nobody(state) < 0 ? -1 : folder_begin(state);
}

static int teardown_as_root(void **state)
{
	return folder_end(state) < 0 ? -1 : as_root(state);
}

static void forbid(const char *path, mode_t left)
{
	auto_str char *full = str_fmt("%s/%s", folder.path, path);
	assert_int_equal(chmod(full, left), 0);
}

static struct root below(const char *dir)
{
	struct err err;
	struct root root = ROOT_NONE;
	folder_dir(&folder, dir);
	assert_int_equal(root_sub(&folder.root, dir, &root, &err), 0);
	return root;
}

static void test_a_payload_that_cannot_be_read(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_root struct root payload = below("payload"), host = below("host");
	struct root_layout p = { 0 };
	const struct root_content c = { .payload = &payload, .host = &host, .release = RELEASE, .driver = "535" };
	folder_dir(&folder, "host/dev");
	folder_dir(&folder, "host/proc");
	folder_dir(&folder, "host/sys");
	forbid("payload", 0);
	assert_int_equal(root_layout_read(&c, &p, &err), -1);
	assert_int_equal(err.code, EACCES);
	assert_int_equal(p.count, 0);
	forbid("payload", 0755);
	assert_int_equal(root_layout_read(&c, &p, &err), 0);
	root_layout_done(&p);
}

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// A proc with what the kernel's shows of this process.
static void make_proc(const char *mountinfo)
{
	folder_dir(&folder, "proc/self");
	tempdir_link(&folder, "proc/self/fd", "/proc/self/fd");
	tempdir_link(&folder, "proc/self/root", "/");
	if (mountinfo)
		tempdir_write(&folder, "proc/self/mountinfo", mountinfo);
	folder_dir(&folder, "proc/7");
}

// R-D4: trees of an earlier export are removed unless a process uses them, or could: one that cannot be read counts.
static void test_what_may_be_in_use_stays(void **state)
{
	(void)state;
	static const struct {
		const char *name, *path;
		mode_t left;
		int result; // 1 = all is removed, 0 = something is still used
	} rows[] = {
		{ "nobody looks", "proc/7", 0755, 1 },
		{ "a process that hides what it sees", "proc/7", 0, 0 },
		{ "processes that are not listed", "proc", 0111, -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		folder_begin(state);
		make_proc("1 0 8:1 / / rw - ext4 x rw\n");
		folder_dir(&folder, "run/nvidia");
		tempdir_write(&folder, "state/payloads/" HEX_A "/usr/version", "a");
		auto_root struct root data = below("state");
		struct sys sys = sys_recorder(&folder.root);
		const struct node node = {
			.host = &folder.root, .kern = &folder.root, .state = &data, .sys = &sys, .boot = "this"
		};
		auto_driver_root struct driver_root e = { .node = &node };
		struct err err = { 0 };
		assert_int_equal(driver_root_open(&e, DRIVER_ROOT_DEFAULT, &err), 0);
		forbid(rows[i].path, rows[i].left);
		int r = driver_root_gc(&e, &err);
		forbid(rows[i].path, 0755);
		expect(r == rows[i].result, rows[i].name);
		expect(root_exists(&data, "payloads/" HEX_A) == (r <= 0), rows[i].name);
		folder_end(state);
	}
}

// What is mounted on a generation under another name, and cannot be detached there because that name
// no longer exists: one error, no endless retry.
static void test_a_copy_that_cannot_be_detached(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct sys sys = sys_recorder(&folder.root);
	auto_root struct root parent = below("run");
	auto_mount_ns struct mount_ns s = MOUNT_NS_NONE;
	auto_str char *mountinfo = str_fmt("1 0 8:1 / / rw - ext4 x rw\n"
					   "2 1 8:1 %s/run /nowhere rw - ext4 x rw\n"
					   "3 2 0:9 / /nowhere/.driver.1 rw - tmpfs x rw\n",
					   folder.path);
	make_proc(mountinfo);
	tempdir_write(&folder, "run/.driver.1/usr/version", "a");
	const struct node node = { .host = &folder.root, .kern = &folder.root, .sys = &sys };
	expect(mount_ns_open(&node, &s, &err) == 0, err.text);
	alarm(20);
	assert_int_equal(generation_remove(&s, &parent, ".driver.1", &err), -1);
	alarm(0);
	assert_non_null(strstr(err.text, "/nowhere/.driver.1"));
	folder_expect(&folder, "run/.driver.1/usr/version", "a");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_payload_that_cannot_be_read, setup_as_nobody, teardown_as_root),
		cmocka_unit_test_setup_teardown(test_what_may_be_in_use_stays, as_nobody, as_root),
		IN_FOLDER(test_a_copy_that_cannot_be_detached),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
