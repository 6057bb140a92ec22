// SPDX-License-Identifier: Apache-2.0
// Two views of the same attributes, as a pod has its own sysfs and the machine's, each writable or not.
#include "base/process/attribute.h"

#include "tests/unit/tempdir.h"

#include <sched.h>
#include <sys/mount.h>

#define ATTRIBUTE "sys/module/firmware_class/parameters/path"

enum { ROWS = 4 };
static struct folder folder;

// A mount of the folder's "all" at name.
static struct root view(const char *name, bool is_read_only)
{
	struct err err;
	struct root root = ROOT_NONE;
	auto_str char *all = str_fmt("%s/all", folder.path), *at = str_fmt("%s/%s", folder.path, name);
	folder_dir(&folder, name);
	assert_int_equal(mount(all, at, NULL, MS_BIND, NULL), 0);
	if (is_read_only)
		assert_int_equal(mount(NULL, at, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
	assert_int_equal(root_init(&root, at, &err), 0);
	return root;
}

static void written_where_it_can_be(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool is_kern_read_only, is_host_read_only;
		bool is_through_host;
		int code; // of a write
	} rows[ROWS] = {
		{ "a machine", false, false, false, 0 },
		{ "a pod whose sysfs is read-only", true, false, true, 0 },
		{ "a pod that has the attribute mounted, and a host without it", false, true, false, 0 },
		{ "a container within a container", true, true, false, EROFS },
	};
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
		skip(); // CAP_SYS_ADMIN is needed, and a root directory that is a mount point
	folder_make(&folder);
	tempdir_write(&folder, "all/" ATTRIBUTE, "old");
	struct sys sys = sys_recorder(&folder.root);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *name_of_host = str_fmt("host%zu", i), *name_of_kern = str_fmt("kern%zu", i);
		auto_root struct root host = view(name_of_host, rows[i].is_host_read_only);
		auto_root struct root kern = view(name_of_kern, rows[i].is_kern_read_only);
		const struct root *want = rows[i].is_through_host ? &host : &kern;
		struct err err = { 0 }, again = { 0 };
		expect(attribute_root(&host, &kern, ATTRIBUTE) == want, rows[i].name);
		expect(attribute_is_writable(&host, &kern, ATTRIBUTE) == !rows[i].code, rows[i].name);
		expect(attribute_check(&host, &kern, ATTRIBUTE, &err) == (rows[i].code ? -1 : 0), rows[i].name);
		folder_expect(&folder, "all/" ATTRIBUTE, "old");
		expect(attribute_set(&sys, &host, &kern, ATTRIBUTE, "new", &again) == (rows[i].code ? -1 : 0),
		       rows[i].name);
		folder_expect(&folder, "all/" ATTRIBUTE, rows[i].code ? "old" : "new");
		folder_file(&folder, "all/" ATTRIBUTE, "old");
		expect(err.code == rows[i].code && again.code == rows[i].code, rows[i].name);
		expect(!rows[i].code || (strstr(err.text, ATTRIBUTE "': Read-only file system") &&
					 strstr(err.next, "hostPID") && strstr(again.next, "hostPID")),
		       err.text);
	}
}

static int clear(void **state)
{
	(void)state;
	static const char *const names[] = { "host", "kern" };
	for (size_t i = 0; i < ROWS * ARRAY_SIZE(names) && *folder.path; i++) {
		auto_str char *at =
			str_fmt("%s/%s%zu", folder.path, names[i % ARRAY_SIZE(names)], i / ARRAY_SIZE(names));
		umount2(at, MNT_DETACH);
	}
	if (*folder.path)
		folder_done(&folder);
	return 0;
}

static void what_is_not_there(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err = { 0 };
	folder_make(&t);
	struct sys sys = sys_recorder(&t.root);
	assert_int_equal(attribute_check(&t.root, &t.root, ATTRIBUTE, &err), -1);
	assert_int_equal(err.code, ENOENT);
	assert_int_equal(attribute_set(&sys, &t.root, &t.root, ATTRIBUTE, "x", &err), -1);
	assert_string_equal(err.next, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(written_where_it_can_be, clear),
		cmocka_unit_test(what_is_not_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
