// SPDX-License-Identifier: Apache-2.0
#include "base/file/subtree.h"

#include "base/file/scratch.h"
#include "tests/unit/tempdir.h"

#include <sys/resource.h>

enum { DEEP = 3000, FEW_FILES = 64 }; // a walk with one file or frame a level ends early

FOLDER_OF_A_TEST

// Directories in directories below dir/top, a file and a link in the last.
static void make_deep(int dir, const char *top, int depth)
{
	int here = dup(dir);
	for (int i = 0; i < depth; i++) {
		const char *name = i ? "d" : top;
		assert_int_equal(mkdirat(here, name, 0755), 0);
		int next = openat(here, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(here);
		here = next;
	}
	auto_fd int fd = openat(here, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(symlinkat("/", here, "link"), 0);
	close(here);
}

static void few_files(rlim_t count)
{
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = count ? count : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void what_is_removed(void **state)
{
	(void)state;
	int at = folder.root.fd;
	assert_int_equal(subtree_remove(at, "absent"), 0);
	folder_file(&folder, "file", "x");
	assert_int_equal(subtree_remove(at, "file"), 1);
	folder_dir(&folder, "empty");
	assert_int_equal(subtree_remove(at, "empty"), 1);
	tempdir_write(&folder, "kept/file", "kept");
	folder_link(&folder, "kept", "link");
	assert_int_equal(subtree_remove(at, "link"), 1);
	tempdir_write(&folder, "tree/a/b/file", "x");
	tempdir_write(&folder, "tree/a/file", "x");
	tempdir_link(&folder, "tree/a/b/link", "../../../kept");
	tempdir_write(&folder, "tree/z", "x");
	assert_int_equal(subtree_remove(at, "tree"), 1);
	assert_false(root_exists(&folder.root, "tree"));
	folder_expect(&folder, "kept/file", "kept");
	errno = 0;
	assert_int_equal(subtree_remove(at, "kept/file/below"), -1);
	assert_int_equal(errno, ENOTDIR);
}

static void deeper_than_files_allow(void **state)
{
	(void)state;
	struct err err;
	auto_root struct root dir = ROOT_NONE;
	few_files(FEW_FILES);
	make_deep(folder.root.fd, "deep", DEEP);
	assert_int_equal(root_sub(&folder.root, "deep", &dir, &err), 0);
	expect(scratch_chown(&dir, geteuid(), &err) == 0, err.text);
	int r = root_rmtree(&folder.root, "deep", &err);
	few_files(0);
	assert_int_equal(r, 1);
	assert_false(root_exists(&folder.root, "deep"));
}

// Leftovers of a killed compile do not get in the way.
static void a_leftover_of_any_depth_is_swept(void **state)
{
	(void)state;
	struct err err;
	folder_dir(&folder, ".tmp/build.0");
	auto_fd int left = root_open(&folder.root, ".tmp/build.0", O_RDONLY | O_DIRECTORY, &err);
	assert_true(left >= 0);
	make_deep(left, "job", DEEP);
	auto_scratch struct scratch s = SCRATCH_NONE;
	expect(scratch_make(&folder.root, "build", &s, &err) == 0, err.text);
	assert_false(root_exists(&folder.root, ".tmp/build.0/job"));
}

static int note(void *ctx, int dir, const char *name, const struct stat *st)
{
	(void)dir;
	str_add(ctx, "%s%s ", name, S_ISDIR(st->st_mode) ? "/" : S_ISLNK(st->st_mode) ? "@" : "");
	return str_eq(name, "bad") ? errno = EXDEV, -1 : 0;
}

static void each_comes_once_and_before_what_it_holds(void **state)
{
	(void)state;
	auto_str char *seen = NULL;
	tempdir_write(&folder, "t/dir/inner", "x");
	tempdir_link(&folder, "t/dir/link", "/");
	folder_dir(&folder, "t/dir/void");
	assert_int_equal(subtree_each(folder.root.fd, "t", note, &seen), 0);
	assert_true(str_starts(seen, "t/ dir/ "));
	static const char *const names[] = { "inner ", "link@ ", "void/ " };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		expect(strstr(seen, names[i]), names[i]);
	assert_int_equal(strlen(seen), strlen("t/ dir/ inner link@ void/ "));
	folder_file(&folder, "t/dir/bad", "x");
	assert_int_equal(subtree_each(folder.root.fd, "t", note, &seen), -1);
	assert_int_equal(errno, EXDEV);
	assert_int_equal(subtree_each(folder.root.fd, "absent", note, &seen), -1);
	assert_int_equal(errno, ENOENT);
}

// Somebody moves the directory that is looked at to another place: ".." of it is not where the walk came from.
static int move_away(void *ctx, int dir, const char *name, const struct stat *st)
{
	(void)ctx, (void)dir, (void)st;
	return str_eq(name, "file") ? renameat(folder.root.fd, "t/a/b", folder.root.fd, "t/elsewhere/b") : 0;
}

static void a_directory_that_is_moved_ends_the_walk(void **state)
{
	(void)state;
	tempdir_write(&folder, "t/a/b/file", "x");
	folder_dir(&folder, "t/elsewhere");
	assert_int_equal(subtree_each(folder.root.fd, "t/a", move_away, NULL), -1);
	assert_int_equal(errno, ESTALE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(what_is_removed),
		IN_FOLDER(deeper_than_files_allow),
		IN_FOLDER(a_leftover_of_any_depth_is_swept),
		IN_FOLDER(each_comes_once_and_before_what_it_holds),
		IN_FOLDER(a_directory_that_is_moved_ends_the_walk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
