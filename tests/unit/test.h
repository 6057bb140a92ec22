// SPDX-License-Identifier: Apache-2.0
// What every unit test starts with: cmocka, a failure that names the row of a table, and a folder that goes away again.
// The folder is made with plain system calls, so that no test leans on the code it tests.
#pragma once
#include "base/file/root.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>

#include <cmocka.h>

// Like assert_true, and says which row of a table it was.
#define expect(cond, row)                                                    \
	do {                                                                 \
		if (!(cond))                                                 \
			fail_msg("%s: %s", (row) ? (row) : "(null)", #cond); \
	} while (0)

// qemu-user runs a program of another architecture: proc shows the emulator in its place, and because vfork is fork
// there, posix_spawn(3) does not learn that a program could not be started.
static inline bool is_emulated(void)
{
	char exe[4096];
	auto_fd int self =
		open("/proc/self", O_PATH | O_CLOEXEC); // for the whole path the emulator would answer itself
	ssize_t len = readlinkat(self, "exe", exe, sizeof(exe) - 1);
	exe[len > 0 ? len : 0] = '\0';
	return !strstr(exe, program_invocation_short_name);
}

// Without it, as under qemu-user, there is no sandbox to compile in.
static inline void needs_seccomp(void)
{
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
		skip();
}

// JSON that is written with ' for ". Caller frees.
static inline char *quoted(const char *text)
{
	char *json = str_dup(text);
	for (char *c = json; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	return json;
}

struct folder {
	char path[64];
	struct root root;
};

static inline void folder_make(struct folder *folder)
{
	struct err err;
	snprintf(folder->path, sizeof(folder->path), "%s/kmodsmith-test-XXXXXX", access("/tmp", W_OK) ? "." : "/tmp");
	assert_non_null(mkdtemp(folder->path));
	assert_int_equal(root_init(&folder->root, folder->path, &err), 0);
}

static inline int folder_remove_one_(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static inline void folder_done(struct folder *folder)
{
	root_done(&folder->root);
	nftw(folder->path, folder_remove_one_, 16, FTW_DEPTH | FTW_PHYS);
}
#define auto_folder __attribute__((cleanup(folder_done)))

static inline void folder_dir(const struct folder *folder, const char *path)
{
	auto_str char *full = str_fmt("%s/%s", folder->path, path);
	for (char *p = full + strlen(folder->path) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
	}
	assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
}

static inline void folder_file(const struct folder *folder, const char *path, const char *text)
{
	auto_str char *full = str_fmt("%s/%s", folder->path, path);
	auto_fd int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static inline void folder_link(const struct folder *folder, const char *target, const char *path)
{
	auto_str char *full = str_fmt("%s/%s", folder->path, path);
	assert_int_equal(symlink(target, full), 0);
}

// The text of a file below; fails the test when there is none.
static inline void folder_expect(const struct folder *folder, const char *path, const char *text)
{
	auto_str char *full = str_fmt("%s/%s", folder->path, path);
	char buf[8192];
	auto_fd int fd = open(full, O_RDONLY);
	assert_true(fd >= 0);
	ssize_t len = read(fd, buf, sizeof(buf) - 1);
	assert_true(len >= 0);
	buf[len] = '\0';
	assert_string_equal(buf, text);
}
