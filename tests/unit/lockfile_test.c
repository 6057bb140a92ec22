// SPDX-License-Identifier: Apache-2.0
#include "base/file/lockfile.h"

#include "tests/unit/tempdir.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

FOLDER_OF_A_TEST

static mode_t mode_of(const char *name)
{
	struct stat st;
	struct err err;
	assert_int_equal(root_stat(&folder.root, name, &st, &err), 1);
	return st.st_mode & 07777;
}

static void it_is_its_owners_alone(void **state)
{
	(void)state;
	mode_t before = umask(0);
	auto_fd int made = lockfile_open(folder.root.fd, "made", O_RDWR);
	umask(before);
	assert_true(made >= 0);
	assert_int_equal(mode_of("made"), 0600);
	folder_file(&folder, "older", "kept");
	assert_int_equal(mode_of("older"), 0644);
	auto_fd int older = lockfile_open(folder.root.fd, "older", O_RDONLY);
	assert_true(older >= 0);
	assert_int_equal(mode_of("older"), 0600);
	folder_expect(&folder, "older", "kept");
}

// A lock has no content: what else has its name, after a disk was repaired say, makes way, and no link is followed.
static void what_is_no_file_makes_way(void **state)
{
	(void)state;
	auto_str char *path = str_fmt("%s/odd", folder.path);
	const int ways[] = { O_RDONLY, O_RDWR };
	struct stat st;
	folder_file(&folder, "far", "kept");
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		for (int kind = 0; kind < 4; kind++) {
			unlink(path);
			assert_int_equal(kind == 0 ? symlink("far", path) :
					 kind == 1 ? symlink("nowhere", path) :
					 kind == 2 ? mkfifo(path, 0600) :
						     mkdir(path, 0700),
					 0);
			alarm(10);
			auto_fd int fd = lockfile_open(folder.root.fd, "odd", ways[i]);
			alarm(0);
			assert_true(fd >= 0);
			assert_int_equal(fstat(fd, &st), 0);
			assert_true(S_ISREG(st.st_mode) && st.st_size == 0);
		}
	folder_expect(&folder, "far", "kept");
	assert_false(root_exists(&folder.root, "nowhere"));
}

static void of_a_state_directory(void **state)
{
	(void)state;
	struct err err;
	auto_fd int one = lockfile_take(&folder.root, "thing", LOCK_SH, 0, &err),
		    other = lockfile_take(&folder.root, "thing", LOCK_SH, 0, &err);
	assert_true(one >= 0 && other >= 0);
	assert_int_equal(mode_of("locks/thing"), 0600);
	assert_int_equal(lockfile_take(&folder.root, "thing", LOCK_EX, 0, &err), -1);
	assert_int_equal(err.code, E_LOCKED);
	auto_fd int another = lockfile_take(&folder.root, "another", LOCK_EX, 0, &err);
	assert_true(another >= 0);
}

static void a_wait_has_an_end(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_fd int mine = lockfile_open(folder.root.fd, "lock", O_RDWR);
	assert_true(mine >= 0);
	int pipes[2];
	assert_int_equal(pipe(pipes), 0);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = lockfile_open(folder.root.fd, "lock", O_RDWR);
		if (flock(fd, LOCK_EX) < 0 || write(pipes[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	char byte;
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	assert_int_equal(lockfile_wait(mine, LOCK_SH, 100, "the lock", &err), -1);
	assert_int_equal(err.code, E_LOCKED);
	expect(strstr(err.text, "has held the lock 'the lock'"), err.text);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	expect(lockfile_wait(mine, LOCK_EX, 100, "the lock", &err) == 0, err.text);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(it_is_its_owners_alone),
		IN_FOLDER(what_is_no_file_makes_way),
		IN_FOLDER(of_a_state_directory),
		IN_FOLDER(a_wait_has_an_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
