// SPDX-License-Identifier: Apache-2.0
#include "base/file/mountinfo.h"

#include "driver_root/mount_ns.h"
#include "tests/unit/tempdir.h"

// As Linux 6.1 writes it: a host whose /run/nvidia/driver is the third generation.
static const char HOST[] =
	"22 1 0:20 / /proc rw,relatime shared:5 - proc proc rw\n"
	"26 1 0:22 / /run rw,nosuid shared:7 - tmpfs tmpfs rw,mode=755\n"
	"27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	"40 26 8:1 /var/lib/kmodsmith/payloads/aa/usr /run/nvidia/driver/usr ro,relatime shared:9 - ext4 /dev/sda1 rw\n"
	"41 26 8:1 /srv/with\\040blank\\134 /mnt/with\\040blank rw - ext4 /dev/sda1 rw\n"
	"42 40 0:30 / /run/nvidia/driver/usr rw - tmpfs tmpfs rw\n"
	"no mount at all\n"
	"43 1 8:17 /state /var/lib/kmodsmith rw - xfs /dev/sdb1 rw\n";

static void test_what_is_mounted(void **state)
{
	(void)state;
	auto_mountinfo struct mountinfo m = { 0 };
	mountinfo_parse(HOST, &m);
	assert_int_equal(m.count, 7);
	assert_string_equal(mountinfo_at(&m, "/mnt/with blank")->root, "/srv/with blank\\");
	assert_true(mountinfo_has_option(&m.items[3], "ro"));
	assert_false(mountinfo_has_option(mountinfo_at(&m, "/run/nvidia/driver/usr"), "ro")); // what lies on top counts
	assert_int_equal(mountinfo_at(&m, "/run/nvidia/driver/usr")->minor, 30);
	assert_null(mountinfo_at(&m, "/run/nvidia"));
	assert_null(mountinfo_at(&m, "/run/nvidia/driver/us"));
	assert_int_equal(mountinfo_depth(&m, "/run/nvidia/driver/usr"), 2);
	assert_int_equal(mountinfo_depth(&m, "/run/nvidia/driver"), 0);
	assert_string_equal(mountinfo_find(&m, 43)->source, "/dev/sdb1");
	assert_int_equal(mountinfo_find(&m, 43)->parent, 1);
	assert_int_equal(mountinfo_find(&m, 40)->peers, 9);
	assert_int_equal(mountinfo_find(&m, 42)->peers, 0);
	assert_null(mountinfo_find(&m, 7));
}

// A mount that propagated from another namespace is put below earlier ones; mountinfo lists them by age.
static void test_topmost_mount(void **state)
{
	(void)state;
	auto_mountinfo struct mountinfo m = { 0 };
	mountinfo_parse("50 52 0:40 / /place rw master:1 shared:2 - tmpfs kmod\\040smith rw\n"
			"51 50 0:41 / /place/dev rw - devtmpfs shared:7 rw\n"
			"52 1 0:42 / /place rw - tmpfs other rw\n",
			&m);
	assert_int_equal(mountinfo_at(&m, "/place")->id, 50);
	assert_int_equal(mountinfo_at(&m, "/place")->peers, 2);
	assert_string_equal(mountinfo_at(&m, "/place")->source, "kmod smith");
	assert_int_equal(mountinfo_at(&m, "/place/dev")->peers, 0);
}

// A path of 4095 bytes, each blank of it four bytes in the text.
static void test_the_longest_path_is_read_whole(void **state)
{
	(void)state;
	auto_mountinfo struct mountinfo m = { 0 };
	auto_str char *point = str_dup(""), *escaped = str_dup("");
	while (strlen(point) < 4095) {
		str_add(&point, "%s", strlen(point) % 2 ? " " : "/");
		str_add(&escaped, "%s", strlen(point) % 2 ? "/" : "\\040");
	}
	auto_str char *text = str_fmt("60 1 8:1 %s %s ro shared:3 - ext4 %s rw\n", escaped, escaped, escaped);
	mountinfo_parse(text, &m);
	assert_int_equal(m.count, 1);
	assert_string_equal(m.items[0].root, point);
	assert_string_equal(m.items[0].point, point);
	assert_string_equal(m.items[0].source, point);
	assert_true(mountinfo_has_option(&m.items[0], "ro"));
	assert_int_equal(m.items[0].peers, 3);
}

static void test_below(void **state)
{
	(void)state;
	static const struct {
		const char *path, *dir;
		bool is_below;
	} rows[] = {
		{ "/a/b", "/a", true },  { "/a", "/a", true }, { "/a", "/a/", true },    { "/ab", "/a", false },
		{ "/a", "/a/b", false }, { "/a", "/", true },  { "/a/..b", "/a", true }, { "/b/a", "/a", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(mountinfo_path_is_below(rows[i].path, rows[i].dir) == rows[i].is_below, rows[i].path);
}

static void test_where_a_directory_is(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		unsigned major, minor;
		const char *within;
	} rows[] = {
		{ "/run/nvidia/.driver.2", 0, 22, "/nvidia/.driver.2" },
		{ "/var/lib/kmodsmith/payloads/aa", 8, 17, "/state/payloads/aa" },
		{ "/var/lib/other", 8, 1, "/var/lib/other" },
		{ "/mnt/with blank/x", 8, 1, "/srv/with blank\\/x" },
	};
	auto_mountinfo struct mountinfo m = { 0 };
	mountinfo_parse(HOST, &m);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_fs_dir struct fs_dir fs_dir = { 0 };
		mountinfo_locate(&m, rows[i].path, &fs_dir);
		expect(fs_dir.major == rows[i].major && fs_dir.minor == rows[i].minor, rows[i].path);
		expect(str_eq(fs_dir.path, rows[i].within), fs_dir.path);
	}
}

// No kernel writes this; but nothing is read past the end of a path.
static void test_odd_mount_points(void **state)
{
	(void)state;
	auto_mountinfo struct mountinfo m = { 0 };
	auto_fs_dir struct fs_dir fs_dir = { 0 }, under = { 0 };
	mountinfo_parse(
		"1 0 8:1 / / rw - ext4 r rw\n2 1 0:22 / /run// rw - tmpfs t rw\n3 2 0:23 / /a rw - tmpfs t rw\n", &m);
	auto_str char *path = str_dup("/run");
	mountinfo_locate(&m, path, &fs_dir);
	assert_int_equal(fs_dir.minor, 22);
	assert_string_equal(fs_dir.path, "");
	assert_false(mountinfo_under(&m, mountinfo_find(&m, 3), &under)); // its parent is mounted elsewhere
	assert_true(mountinfo_under(&m, mountinfo_find(&m, 2), &under));
	assert_string_equal(under.path, "/run//");
}

// R-D4: a directory in use is found wherever it is mounted, also after it was renamed.
static void test_directories_in_use(void **state)
{
	(void)state;
	static const struct {
		const char *name, *mountinfo, *place;
		bool is_used;
	} rows[] = {
		{ "nobody", "", NULL, false },
		{ "/run itself, with everything in it", "50 1 0:22 / /run rw - tmpfs tmpfs rw\n", NULL, false },
		{ "a consumer's root", "50 1 0:22 /nvidia/.driver.2 /driver-root rw - tmpfs tmpfs rw\n", NULL, true },
		{ "a directory of it", "50 1 0:22 /nvidia/.driver.2/lib/firmware /lib/firmware rw - tmpfs tmpfs rw\n",
		  NULL, true },
		{ "the next generation", "50 1 0:22 /nvidia/.driver.20 /driver-root rw - tmpfs tmpfs rw\n", NULL,
		  false },
		{ "the one in place", "50 1 0:22 /nvidia/driver /driver-root rw - tmpfs tmpfs rw\n", NULL, false },
		{ "the same path of another file system", "50 1 0:23 /nvidia/.driver.2 /d rw - tmpfs tmpfs rw\n", NULL,
		  false },
		{ "a process after a chroot", "", "/run/nvidia/.driver.2", true },
		{ "a process that stands in it", "", "/run/nvidia/.driver.2/usr/bin", true },
		{ "a process that stands elsewhere", "", "/run/nvidia/.driver.21", false },
	};
	auto_mountinfo struct mountinfo host = { 0 };
	auto_fs_dir struct fs_dir fs_dir = { 0 };
	mountinfo_parse(HOST, &host);
	mountinfo_locate(&host, "/run/nvidia/.driver.2", &fs_dir);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_mount_users struct mount_users v = { .items = mem_alloc(2 * sizeof(*v.items)), .count = 2 };
		mountinfo_parse(HOST, &v.items[0]);
		mountinfo_parse(rows[i].mountinfo, &v.items[1]);
		if (rows[i].place)
			strv_add(&v.places, str_dup(rows[i].place));
		expect(mount_users_has(&v, &fs_dir, "/run/nvidia/.driver.2") == rows[i].is_used, rows[i].name);
	}
}

// Each namespace once, and of a process that sees all of it.
static void test_the_views_of_a_machine(void **state)
{
	(void)state;
	static const struct {
		const char *pid, *ns, *root, *mountinfo;
	} processes[] = {
		{ "1", "mnt:[1]", "/", "26 1 0:22 / /run rw - tmpfs tmpfs rw\n" },
		{ "20", "mnt:[1]", "/", "nothing of this is read\n" },
		{ "30", "mnt:[2]", "/run/nvidia/.driver.2", "9 1 0:99 / /chroot rw - tmpfs tmpfs rw\n" },
		{ "40", "mnt:[2]", "/", "60 1 0:22 /nvidia/.driver.1 /driver-root rw - tmpfs tmpfs rw\n" },
	};
	auto_folder struct folder f = { .root = ROOT_NONE };
	auto_mount_users struct mount_users v = { 0 };
	struct err err;
	folder_make(&f);
	for (size_t i = 0; i < ARRAY_SIZE(processes); i++) {
		auto_str char *ns = str_fmt("proc/%s/ns/mnt", processes[i].pid);
		auto_str char *root = str_fmt("proc/%s/root", processes[i].pid);
		auto_str char *text = str_fmt("proc/%s/mountinfo", processes[i].pid);
		tempdir_link(&f, ns, processes[i].ns);
		tempdir_link(&f, root, processes[i].root);
		tempdir_write(&f, text, processes[i].mountinfo);
	}
	assert_int_equal(mount_users_read(&f.root, &v, &err), 0);
	assert_int_equal(v.count, 2);
	assert_int_equal(v.places.count, 1);
	assert_false(v.is_partial);
	auto_fs_dir struct fs_dir one = { .minor = 22, .path = str_dup("/nvidia/.driver.1") };
	auto_fs_dir struct fs_dir chroot = { .minor = 99, .path = str_dup("/") };
	assert_true(mount_users_has(&v, &one, "/run/nvidia/.driver.1"));
	assert_false(mount_users_has(&v, &chroot, "/nowhere"));
	assert_true(mount_users_has(&v, &chroot, "/run/nvidia/.driver.2"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_mounted),
		cmocka_unit_test(test_topmost_mount),
		cmocka_unit_test(test_the_longest_path_is_read_whole),
		cmocka_unit_test(test_below),
		cmocka_unit_test(test_where_a_directory_is),
		cmocka_unit_test(test_odd_mount_points),
		cmocka_unit_test(test_directories_in_use),
		cmocka_unit_test(test_the_views_of_a_machine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
