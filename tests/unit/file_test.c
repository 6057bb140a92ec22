// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/test.h"

#include "base/file/file.h"

static void test_read_to_the_end_whatever_the_size_says(void **state)
{
	(void)state;
	struct err err;
	static const char *const names[] = { "/proc/self/status", "/proc/filesystems" }; // both state a size of 0
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		auto_fd int fd = open(names[i], O_RDONLY);
		auto_str char *text = NULL;
		size_t len = 0;
		expect(file_read(fd, names[i], &text, &len, &err) == 0, names[i]);
		expect(len > 20 && text[len] == '\0' && strlen(text) == len, names[i]);
	}
}

static void test_read_sizes(void **state)
{
	(void)state;
	static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 8192, 1000003 };
	auto_folder struct folder folder;
	folder_make(&folder);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct err err;
		auto_str char *want = mem_alloc(sizes[i] + 1), *got = NULL;
		for (size_t j = 0; j < sizes[i]; j++)
			want[j] = (char)(j * 31); // with NUL bytes in it
		assert_int_equal(root_write(&folder.root, "f", want, sizes[i], 0644, &err), 0);
		auto_fd int fd = root_open(&folder.root, "f", O_RDONLY, &err);
		size_t len = 1;
		assert_int_equal(file_read(fd, "f", &got, &len, &err), 0);
		assert_int_equal(len, sizes[i]);
		assert_memory_equal(got, want, len + 1);
	}
}

static void test_failure_leaves_results_and_says_which_file(void **state)
{
	(void)state;
	struct err err;
	char *text = NULL;
	size_t len = 4711;
	const void *map = &len;
	auto_fd int fd = open("/", O_RDONLY | O_DIRECTORY);
	assert_int_equal(file_read(fd, "the root", &text, &len, &err), -1);
	assert_int_equal(err.code, EISDIR);
	assert_true(str_starts(err.text, "read 'the root': "));
	assert_int_equal(file_map(fd, "the root", &map, &len, &err), -1);
	assert_null(text);
	assert_int_equal(len, 4711);
	assert_ptr_equal(map, &len);
}

static void test_a_full_disk_has_its_own_code(void **state)
{
	(void)state;
	struct err err;
	auto_fd int fd = open("/dev/full", O_WRONLY);
	assert_int_equal(file_write(fd, "disk", "x", 1, &err), -1);
	assert_int_equal(err.code, E_NO_SPACE);
	assert_true(str_starts(err.text, "write 'disk': "));
}

static void test_map_and_copy(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	folder_make(&folder);
	folder_file(&folder, "empty", "");
	folder_file(&folder, "full", "content");
	folder_file(&folder, "copy", "");
	auto_fd int empty = root_open(&folder.root, "empty", O_RDONLY, &err);
	auto_fd int full = root_open(&folder.root, "full", O_RDONLY, &err);
	auto_fd int copy = root_open(&folder.root, "copy", O_WRONLY, &err);
	const void *map = &err;
	size_t len = 1;
	assert_int_equal(file_map(empty, "empty", &map, &len, &err), 0);
	assert_null(map);
	assert_int_equal(len, 0);
	file_unmap(map, len);
	assert_int_equal(file_map(full, "full", &map, &len, &err), 0);
	assert_int_equal(len, 7);
	assert_memory_equal(map, "content", len);
	file_unmap(map, len);
	assert_int_equal(file_copy(full, copy, "copy", &err), 0);
	folder_expect(&folder, "copy", "content");
}

static void test_an_argument_is_a_plain_path(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	folder_make(&folder);
	folder_file(&folder, "f", "x");
	auto_str char *there = str_fmt("%s/f", folder.path), *absent = str_fmt("%s/absent", folder.path);
	auto_fd int fd = file_open_arg(there, O_RDONLY, &err);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(file_open_arg(absent, O_RDONLY, &err), -1);
	assert_int_equal(err.code, ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_to_the_end_whatever_the_size_says),
		cmocka_unit_test(test_read_sizes),
		cmocka_unit_test(test_failure_leaves_results_and_says_which_file),
		cmocka_unit_test(test_a_full_disk_has_its_own_code),
		cmocka_unit_test(test_map_and_copy),
		cmocka_unit_test(test_an_argument_is_a_plain_path),
	};
	return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
