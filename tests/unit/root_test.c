// SPDX-License-Identifier: Apache-2.0
// Every test runs twice: resolved by openat2, and by the walk in user space. resolve_test.c compares the two.
#include "tests/unit/test.h"

#include <signal.h>
#include <sys/resource.h>

static struct folder folder;

// A machine with links that try to get out, in a folder beside which lies a secret.
static int setup(void **state)
{
	(void)state;
	folder_make(&folder);
	folder_dir(&folder, "m/etc");
	folder_dir(&folder, "m/a/b");
	folder_file(&folder, "secret", "outside");
	folder_file(&folder, "m/etc/os-release", "ID=debian\n");
	folder_file(&folder, "m/a/b/file", " text \n");
	folder_link(&folder, "../../../../../../secret", "m/a/out");
	folder_link(&folder, "/../secret", "m/a/outabs");
	folder_link(&folder, "/etc/os-release", "m/a/abs");
	folder_link(&folder, "b", "m/a/dir");
	folder_link(&folder, "b/file", "m/a/rel");
	folder_link(&folder, "..", "m/a/up");
	folder_link(&folder, "pong", "m/a/ping");
	folder_link(&folder, "ping", "m/a/pong");
	folder_link(&folder, "nowhere", "m/a/dangling");
	struct err err;
	struct root whole = folder.root;
	assert_int_equal(root_sub(&whole, "m", &folder.root, &err), 0);
	root_done(&whole);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	folder_done(&folder);
	return 0;
}

static void test_paths_stay_inside(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		const char *text; // NULL = absent
	} rows[] = {
		{ "etc/os-release", "ID=debian" },
		{ "/etc/os-release", "ID=debian" },
		{ "//etc/.//os-release", "ID=debian" },
		{ "../etc/os-release", "ID=debian" },
		{ "../../../../etc/os-release", "ID=debian" },
		{ "a/../etc/os-release", "ID=debian" },
		{ "a/up/etc/os-release", "ID=debian" },
		{ "a/up/../../etc/os-release", "ID=debian" },
		{ "a/up/up/secret", NULL },
		{ "a/dir/../../etc/os-release", "ID=debian" },
		{ "a/dir/file", "text" },
		{ "a/rel", "text" },
		{ "a/abs", "ID=debian" },
		{ "a/out", NULL },
		{ "a/outabs", NULL },
		{ "../secret", NULL },
		{ "a/dangling", NULL },
		{ "no/such/file", NULL },
		{ "etc/os-release/below-a-file", NULL },
		{ "etc/os-release/", NULL },
		{ "a/rel/", NULL },
		{ "a/b/file/.", NULL },
		{ "a/b/file/..", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		auto_str char *text = NULL;
		expect(root_line(&folder.root, rows[i].path, &text, &err) == (rows[i].text ? 1 : 0), rows[i].path);
		expect(rows[i].text ? str_eq(text, rows[i].text) : !text, rows[i].path);
		expect(root_exists(&folder.root, rows[i].path) == !!rows[i].text, rows[i].path);
	}
}

static void test_loops_and_empty_paths_are_failures(void **state)
{
	(void)state;
	struct err err;
	char *text = NULL;
	assert_int_equal(root_read(&folder.root, "a/ping", &text, NULL, &err), -1);
	assert_int_equal(err.code, ELOOP);
	assert_true(strstr(err.text, "/m/a/ping'"));
	assert_int_equal(root_read(&folder.root, "a/ping/x", &text, NULL, &err), -1);
	assert_int_equal(err.code, ELOOP);
	assert_int_equal(root_read(&folder.root, "a/b", &text, NULL, &err), -1);
	assert_int_equal(err.code, EISDIR);
	assert_null(text);
	assert_int_equal(root_open(&folder.root, "", O_RDONLY, &err), -1);
	assert_int_equal(err.code, ENOENT);
	assert_int_equal(root_open(&folder.root, "a/new", O_WRONLY | O_CREAT, &err), -1);
	assert_int_equal(err.code, EINVAL); // files come into being through root_write only
	assert_false(root_exists(&folder.root, "a/new"));
}

static void test_reading_waits_for_nobody(void **state)
{
	(void)state;
	struct err err;
	char *text = NULL;
	auto_str char *fifo = str_fmt("%s/m/a/fifo", folder.path);
	assert_int_equal(mkfifo(fifo, 0644), 0);
	alarm(10); // a read that blocks must not block the tests
	assert_int_equal(root_read(&folder.root, "a/fifo", &text, NULL, &err), -1);
	assert_int_equal(err.code, EINVAL);
	assert_true(strstr(err.text, "/m/a/fifo'"));
	err.code = 0;
	assert_int_equal(root_open(&folder.root, "a/fifo", O_RDONLY, &err), -1);
	alarm(0);
	assert_int_equal(err.code, EINVAL);
	assert_true(strstr(err.text, "/m/a/fifo' is not a regular file"));
	auto_root struct root slash = ROOT_NONE;
	assert_int_equal(root_init(&slash, "/", &err), 0);
	assert_int_equal(root_read(&slash, "dev/zero", &text, NULL, &err), -1);
	assert_int_equal(err.code, EINVAL);
	assert_null(text);
}

static void test_magic_links_are_refused(void **state)
{
	(void)state;
	struct err err;
	auto_root struct root proc = ROOT_NONE;
	assert_int_equal(root_init(&proc, "/proc", &err), 0);
	static const char *const refused[] = { "self/exe", "self/root/etc", "self/cwd/", "self/fd/0", "self/ns/mnt" };
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		expect(root_open(&proc, refused[i], O_PATH, &err) == -1 && err.code == ELOOP, refused[i]);
		expect(!root_exists(&proc, refused[i]), refused[i]);
	}
	// What proc has as ordinary links stays usable, and a magic one can still be read as text.
	assert_true(root_exists(&proc, "self/status"));
	assert_true(root_exists(&proc, "mounts"));
	assert_true(root_exists(&proc, "net/dev"));
	// proc states 64 as the size of a link below fd: so long may a path really be.
	auto_str char *path = str_fmt("%s/", folder.path), *link = NULL;
	while (strlen(path) < 64)
		str_add(&path, "x");
	auto_fd int fd = open(path, O_RDWR | O_CREAT, 0644);
	assert_true(fd >= 0);
	link = str_fmt("self/fd/%d", fd);
	expect(root_open(&proc, link, O_PATH, &err) == -1 && err.code == ELOOP, link);
	auto_str char *exe = NULL;
	assert_int_equal(root_readlink(&proc, "self/exe", &exe, &err), 1);
	assert_true(is_emulated() || strstr(exe, "root_test"));
}

static void test_looking(void **state)
{
	(void)state;
	struct err err;
	struct stat st;
	auto_strv struct strv names = { 0 };
	auto_str char *target = NULL;
	assert_int_equal(root_stat(&folder.root, "a/out", &st, &err), 1);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(root_stat(&folder.root, "a/dir/file", &st, &err), 1);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(root_stat(&folder.root, "a/none", &st, &err), 0);
	assert_int_equal(root_readlink(&folder.root, "a/out", &target, &err), 1);
	assert_string_equal(target, "../../../../../../secret");
	char *none = NULL;
	assert_int_equal(root_readlink(&folder.root, "a/b/file", &none, &err), 0);
	assert_int_equal(root_readlink(&folder.root, "a/none", &none, &err), 0);
	assert_null(none);
	assert_int_equal(root_list(&folder.root, "a/up", &names, &err), 1);
	auto_str char *joined = strv_join(&names, " ");
	assert_string_equal(joined, "a etc");
	assert_int_equal(root_list(&folder.root, "none", &names, &err), 0);
	assert_int_equal(names.count, 2);
	assert_int_equal(root_list_most(&folder.root, "a/up", 2, &names, &err), 1);
	assert_int_equal(root_list_most(&folder.root, "a/up", 1, &names, &err), -1);
	assert_int_equal(err.code, E_TOO_LARGE);
}

static void test_sub_root_is_a_root(void **state)
{
	(void)state;
	struct err err;
	auto_root struct root sub = ROOT_NONE;
	assert_int_equal(root_sub(&folder.root, "a/dir", &sub, &err), 0);
	assert_true(root_exists(&sub, "../../../file"));
	assert_false(root_exists(&sub, "../b"));
	auto_str char *path = root_path(&sub, "/file");
	assert_true(str_ends(path, "/m/a/dir/file"));
	assert_int_equal(root_sub(&folder.root, "a/rel", &sub, &err), -1);
	assert_int_equal(err.code, ENOTDIR);
	assert_int_equal(root_init(&(struct root){ 0 }, "/no/such/root", &err), -1);
	assert_int_equal(err.code, ENOENT);
}

// Names in dir apart from those that were there at setup.
static size_t count_names(const char *dir)
{
	struct err err;
	auto_strv struct strv names = { 0 };
	assert_int_equal(root_list(&folder.root, dir, &names, &err), 1);
	return names.count;
}

static void test_write_is_whole_and_never_through_a_link(void **state)
{
	(void)state;
	struct err err;
	struct stat st;
	assert_int_equal(root_write(&folder.root, "a/b/new", "one", 3, 0600, &err), 0);
	folder_expect(&folder, "m/a/b/new", "one");
	assert_int_equal(root_stat(&folder.root, "a/b/new", &st, &err), 1);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(root_write(&folder.root, "a/dir/new", "two", 3, 0666, &err), 0);
	folder_expect(&folder, "m/a/b/new", "two");
	assert_int_equal(root_stat(&folder.root, "a/b/new", &st, &err), 1);
	assert_int_equal(st.st_mode & 07777, 0666); // whatever the umask
	assert_int_equal(root_write(&folder.root, "a/out", "mine", 4, 0644, &err), 0);
	folder_expect(&folder, "m/a/out", "mine");
	folder_expect(&folder, "secret", "outside");
	assert_int_equal(root_write(&folder.root, "../../top", "top", 3, 0644, &err), 0);
	folder_expect(&folder, "m/top", "top");
	assert_int_equal(count_names("a/b"), 2);
}

static void test_failed_write_leaves_nothing(void **state)
{
	(void)state;
	struct err err;
	size_t before = count_names("a");
	assert_int_equal(root_write(&folder.root, "a/b", "x", 1, 0644, &err), -1); // a directory is there
	assert_int_equal(err.code, EISDIR);
	assert_int_equal(root_write(&folder.root, "none/x", "x", 1, 0644, &err), -1);
	assert_int_equal(err.code, ENOENT);
	assert_int_equal(root_write(&folder.root, "a/..", "x", 1, 0644, &err), -1);
	assert_int_equal(err.code, EINVAL);
	auto_str char *big = mem_alloc(1 << 20);
	struct rlimit old, small = { 1 << 12, 1 << 12 };
	getrlimit(RLIMIT_FSIZE, &old);
	small.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	folder_file(&folder, "m/a/kept", "old");
	int r = root_write(&folder.root, "a/kept", big, 1 << 20, 0644, &err);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(r, -1);
	assert_int_equal(err.code, EFBIG);
	assert_true(strstr(err.text, "/m/a/kept'"));
	folder_expect(&folder, "m/a/kept", "old");
	assert_int_equal(count_names("a"), before + 1);
}

// Who made the link meant a directory that exists; what is seen of it here has to say why it does not count.
static void test_links_out_are_explained(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "/tmp",
		  "is a symbolic link to '/tmp', which is not a directory in there: a link does not lead out of it" },
		{ "tmp", "is a symbolic link to 'tmp', which is not a directory in there" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		folder_link(&folder, rows[i][0], "m/store");
		expect(root_mkdirs(&folder.root, "store", 0755, &err) == -1, rows[i][0]);
		expect(strstr(err.text, rows[i][1]) && (i == 0 || str_ends(err.text, rows[i][1])), err.text);
		assert_int_equal(root_unlink(&folder.root, "store", &err), 1);
	}
}

static void test_mkdirs(void **state)
{
	(void)state;
	static const struct {
		const char *path, *made;
		int code; // 0 = works
	} rows[] = {
		{ "x/y/z", "m/x/y/z", 0 },
		{ "x/y/z", "m/x/y/z", 0 },
		{ "/x//w/", "m/x/w", 0 },
		{ "../../v", "m/v", 0 },
		{ "a/dir/u", "m/a/b/u", 0 },
		{ "a/up/t", "m/t", 0 },
		{ ".", "m", 0 },
		{ "a/rel", NULL, E_NOT_FOUND },
		{ "a/b/file", NULL, ENOTDIR },
		{ "a/b/file/deeper", NULL, ENOTDIR },
		{ "a/dangling", NULL, E_NOT_FOUND },
		{ "a/dangling/x", NULL, E_NOT_FOUND },
		{ "a/ping/x", NULL, ELOOP },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		struct stat st;
		expect(root_mkdirs(&folder.root, rows[i].path, 0755, &err) == (rows[i].code ? -1 : 0), rows[i].path);
		expect(err.code == rows[i].code, rows[i].path);
		auto_str char *made = rows[i].made ? str_fmt("%s/%s", folder.path, rows[i].made) : NULL;
		expect(!made || (lstat(made, &st) == 0 && S_ISDIR(st.st_mode)), rows[i].path);
	}
}

static void test_links_and_renames(void **state)
{
	(void)state;
	struct err err;
	auto_str char *target = NULL;
	assert_int_equal(root_symlink(&folder.root, "b/file", "a/out", &err), 0); // replaces
	assert_int_equal(root_readlink(&folder.root, "a/out", &target, &err), 1);
	assert_string_equal(target, "b/file");
	assert_int_equal(root_symlink(&folder.root, "x", "a/b", &err), -1); // a directory is there
	assert_int_equal(root_rename(&folder.root, "a/dir/file", "etc/moved", &err), 0);
	folder_expect(&folder, "m/etc/moved", " text \n");
	assert_int_equal(root_rename(&folder.root, "a/none", "etc/moved", &err), -1);
	assert_int_equal(err.code, ENOENT);
	assert_int_equal(root_rename(&folder.root, "none/a", "etc/moved", &err), -1);
	assert_int_equal(err.code, ENOENT);
	assert_int_equal(root_rename(&folder.root, "etc/moved", "none/a", &err), -1);
	assert_int_equal(err.code, ENOENT);
	folder_expect(&folder, "m/etc/moved", " text \n");
}

static void test_unlink_tells_removed_from_absent(void **state)
{
	(void)state;
	struct err err;
	assert_int_equal(root_unlink(&folder.root, "a/out", &err), 1); // the link, not what it points to
	folder_expect(&folder, "secret", "outside");
	assert_int_equal(root_unlink(&folder.root, "a/out", &err), 0);
	assert_int_equal(root_unlink(&folder.root, "none/x", &err), 0);
	assert_int_equal(root_unlink(&folder.root, "a/b/file/x", &err), 0);
	assert_int_equal(root_unlink(&folder.root, "a/b", &err), -1);
	assert_int_equal(err.code, EISDIR);
	assert_int_equal(root_unlink(&folder.root, "a/ping/x", &err), -1);
	assert_int_equal(err.code, ELOOP);
}

static void test_rmtree_follows_no_link(void **state)
{
	(void)state;
	struct err err;
	folder_dir(&folder, "m/t/deep/deeper");
	folder_file(&folder, "m/t/deep/deeper/file", "x");
	folder_link(&folder, "/etc", "m/t/deep/abs");
	folder_link(&folder, "../../../secret", "m/t/deep/rel");
	folder_link(&folder, "../../a", "m/t/deep/up");
	assert_int_equal(root_rmtree(&folder.root, "t", &err), 1);
	assert_false(root_exists(&folder.root, "t"));
	folder_expect(&folder, "secret", "outside");
	folder_expect(&folder, "m/etc/os-release", "ID=debian\n");
	folder_expect(&folder, "m/a/b/file", " text \n");
	assert_int_equal(root_rmtree(&folder.root, "a/dir", &err), 1); // a link: only the link goes
	folder_expect(&folder, "m/a/b/file", " text \n");
	assert_int_equal(root_rmtree(&folder.root, "t", &err), 0);
	assert_int_equal(root_rmtree(&folder.root, "t/none", &err), 0);
	assert_int_equal(root_rmtree(&folder.root, "a/b/file/x", &err), 0);
	assert_int_equal(root_rmtree(&folder.root, "a/b/file", &err), 1);
	assert_int_equal(root_rmtree(&folder.root, "..", &err), -1);
	assert_int_equal(err.code, EINVAL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_paths_stay_inside),
		TEST(test_loops_and_empty_paths_are_failures),
		TEST(test_reading_waits_for_nobody),
		TEST(test_magic_links_are_refused),
		TEST(test_looking),
		TEST(test_sub_root_is_a_root),
		TEST(test_write_is_whole_and_never_through_a_link),
		TEST(test_failed_write_leaves_nothing),
		TEST(test_links_out_are_explained),
		TEST(test_mkdirs),
		TEST(test_links_and_renames),
		TEST(test_unlink_tells_removed_from_absent),
		TEST(test_rmtree_follows_no_link),
	};
	unsetenv("KMODSMITH_OPENAT2");
	int failed = cmocka_run_group_tests_name("root by openat2", tests, NULL, NULL);
	setenv("KMODSMITH_OPENAT2", "no", 1);
	return failed + cmocka_run_group_tests_name("root by walk", tests, NULL, NULL);
}
