// SPDX-License-Identifier: Apache-2.0
// The walk in user space against openat2: a few thousand generated paths over a tree full of links must give the same
// file or the same errno, and nothing may come from outside of the tree.
#include "base/file/resolve.h"

#include "tests/unit/test.h"

#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

static const int kinds[] = {
	O_PATH,
	O_PATH | O_NOFOLLOW,
	O_PATH | O_DIRECTORY,
	O_PATH | O_NOFOLLOW | O_DIRECTORY,
	O_RDONLY | O_NONBLOCK,
	O_RDONLY | O_NONBLOCK | O_NOFOLLOW,
	O_RDONLY | O_DIRECTORY,
	O_WRONLY | O_NONBLOCK,
};

struct outcome {
	int code;
	dev_t dev;
	ino_t ino;
	mode_t type;
	char where[PATH_MAX];
};

static struct outcome look(int root, const char *path, int flags, bool is_walk)
{
	struct outcome ret = { 0 };
	struct stat st;
	setenv("KMODSMITH_OPENAT2", is_walk ? "no" : "yes", 1);
	auto_fd int fd = resolve_open(root, path, flags | O_CLOEXEC);
	if (fd < 0) {
		ret.code = errno;
		return ret;
	}
	assert_int_equal(fstat(fd, &st), 0);
	ret.dev = st.st_dev;
	ret.ino = st.st_ino;
	ret.type = st.st_mode & S_IFMT;
	char self[40];
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	assert_true(readlink(self, ret.where, sizeof(ret.where) - 1) > 0);
	return ret;
}

static void compare(const struct folder *folder, const char *path, size_t *found, size_t *refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct outcome kernel = look(folder->root.fd, path, kinds[i], false);
		struct outcome walk = look(folder->root.fd, path, kinds[i], true);
		// The kernel also counts the links of an attempt that it gave up when the tree was busy (fs/namei.c,
		// nd->total_link_count), and refuses then what it otherwise takes.
		for (int tries = 0; tries < 20 && kernel.code == ELOOP && walk.code != ELOOP; tries++)
			kernel = look(folder->root.fd, path, kinds[i], false);
		auto_str char *row = str_fmt("'%.80s' flags %#o: openat2 %s, walk %s", path, kinds[i],
					     kernel.code ? strerror(kernel.code) : kernel.where,
					     walk.code ? strerror(walk.code) : walk.where);
		expect(kernel.code == walk.code, row);
		expect(kernel.dev == walk.dev && kernel.ino == walk.ino && kernel.type == walk.type, row);
		expect(walk.code || str_starts(walk.where, folder->path), row);
		++*(walk.code ? refused : found);
	}
}

static void make_tree(const struct folder *folder)
{
	static const char *const links[][2] = {
		{ "up", ".." },
		{ "here", "." },
		{ "root", "/" },
		{ "abs", "/d/e" },
		{ "rel", "d/e" },
		{ "out", "../../../../etc/passwd" },
		{ "outabs", "/../../tmp" },
		{ "file", "d/e/f" },
		{ "fileslash", "d/e/f/" },
		{ "dirslash", "d/e/" },
		{ "loop", "loop" },
		{ "ping", "d/pong" },
		{ "d/pong", "../ping" },
		{ "dangling", "nowhere" },
		{ "d/back", "../rel/../back2" },
		{ "d/back2", "e/.." },
		{ "d/e/top", "../../up/d" },
		{ "dots", "d/./e/../e/./f" },
		{ "linktolink", "rel" },
		{ "linktofile", "file" },
		{ "linkdot", "rel/." },
		{ "underfile", "d/e/f/../f" },
		{ "fifolink", "d/fifo" },
		{ "d/e/self", "../e" },
	};
	folder_dir(folder, "d/e/empty");
	folder_file(folder, "d/e/f", "f");
	folder_file(folder, "d/f", "f");
	auto_str char *fifo = str_fmt("%s/d/fifo", folder->path);
	assert_int_equal(mkfifo(fifo, 0644), 0);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		folder_link(folder, links[i][1], links[i][0]);
	for (int i = 0; i < 45; i++) { // the kernel follows 40 links and no more
		auto_str char *name = str_fmt("c%d", i), *next = i ? str_fmt("c%d", i - 1) : str_dup("d");
		folder_link(folder, next, name);
	}
}

// A fixed sequence: a failure can be repeated.
static unsigned draw(unsigned *seed, size_t below)
{
	*seed = *seed * 1664525U + 1013904223U;
	return (*seed >> 16) % (unsigned)below;
}

static void test_same_answers(void **state)
{
	(void)state;
	static const char *const names[] = {
		"d",    "e",     "f",   "..",   "..",       ".",      "up",        "here",       "root",
		"abs",  "rel",   "out", "file", "dirslash", "loop",   "ping",      "pong",       "dangling",
		"back", "back2", "top", "dots", "none",     "empty",  "fileslash", "linktolink", "linktofile",
		"c5",   "c39",   "c40", "fifo", "fifolink", "outabs", "underfile", "linkdot",    "self"
	};
	static const char *const ends[] = { "", "", "", "", "/", "//", "/.", "/.." };
	auto_folder struct folder folder;
	folder_make(&folder);
	make_tree(&folder);
	size_t found = 0, refused = 0;
	unsigned seed = 1;
	compare(&folder, "", &found, &refused);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(ends); j++) {
			auto_str char *path = str_fmt("%s%s", names[i], ends[j]);
			compare(&folder, path, &found, &refused);
		}
	}
	for (int i = 0; i < 2000; i++) {
		auto_str char *path = str_dup(draw(&seed, 4) ? "" : "/");
		for (unsigned left = 1 + draw(&seed, 4); left; left--)
			str_add(&path, "%s%s", names[draw(&seed, ARRAY_SIZE(names))], left > 1 ? "/" : "");
		str_add(&path, "%s", ends[draw(&seed, ARRAY_SIZE(ends))]);
		compare(&folder, path, &found, &refused);
	}
	assert_true(found > 2000 && refused > 2000); // both kinds were really compared
}

static void test_long_paths(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	make_tree(&folder);
	size_t found = 0, refused = 0;
	static const size_t lengths[] = { 255, 256, 4094, 4095, 4096, 5000 };
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		auto_str char *one = mem_alloc(lengths[i] + 1), *many = mem_alloc(lengths[i] + 1);
		memset(one, 'n', lengths[i]);
		for (size_t j = 0; j < lengths[i]; j++)
			many[j] = j % 2 ? '/' : '.';
		compare(&folder, one, &found, &refused);
		compare(&folder, many, &found, &refused);
	}
}

static void test_same_answers_in_proc(void **state)
{
	(void)state;
	static const char *const paths[] = {
		"self",
		"self/",
		"self/status",
		"thread-self/comm",
		"mounts",
		"net/dev",
		"net/",
		"self/exe",
		"self/exe/",
		"self/cwd",
		"self/cwd/",
		"self/cwd/x",
		"self/root",
		"self/root/proc",
		"self/fd/1",
		"self/fd/1/",
		"self/ns/mnt",
		"self/ns/net/x",
		"self/task/../exe",
		"self/../mounts",
		"self/../../self/fd",
		"sys/kernel",
		"self/fd/none",
		"1/root/etc",
	};
	static const int flags[] = { O_PATH, O_PATH | O_NOFOLLOW, O_PATH | O_DIRECTORY };
	auto_fd int proc = open("/proc", O_PATH | O_DIRECTORY);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		for (size_t j = 0; j < ARRAY_SIZE(flags); j++) {
			struct outcome kernel = look(proc, paths[i], flags[j], false);
			struct outcome walk = look(proc, paths[i], flags[j], true);
			auto_str char *row = str_fmt("'%s' flags %#o: openat2 %d, walk %d", paths[i], flags[j],
						     kernel.code, walk.code);
			expect(kernel.code == walk.code && kernel.type == walk.type, row);
		}
}

static bool has_openat2(void)
{
	struct open_how how = { .flags = O_PATH };
	auto_fd int fd = (int)syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));
	return fd >= 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_answers),
		cmocka_unit_test(test_long_paths),
		cmocka_unit_test(test_same_answers_in_proc),
	};
	if (!has_openat2()) {
		puts("ok 1 - resolve # SKIP this kernel has no openat2 to compare with");
		return 0;
	}
	return cmocka_run_group_tests_name("resolve", tests, NULL, NULL);
}
