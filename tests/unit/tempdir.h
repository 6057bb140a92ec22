// SPDX-License-Identifier: Apache-2.0
// A machine as a folder: files and links at any depth, parents made as needed.
#pragma once
#include "tests/unit/test.h"

// clang-format off
// For a file whose tests have a folder each: its name is `folder`, and IN_FOLDER(test) is a test that has it.
#define FOLDER_OF_A_TEST \
	static struct folder folder; \
	static int folder_begin(void **state) { (void)state; folder_make(&folder); return 0; } \
	static int folder_end(void **state) { (void)state; folder_done(&folder); return 0; }
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_begin, folder_end)
// clang-format on

static inline void tempdir_parent(const struct folder *folder, const char *path)
{
	auto_str char *dir = str_dup(path);
	char *slash = strrchr(dir, '/');
	if (!slash)
		return;
	*slash = '\0';
	folder_dir(folder, dir);
}

static inline void tempdir_write(const struct folder *folder, const char *path, const char *text)
{
	tempdir_parent(folder, path);
	folder_file(folder, path, text);
}

static inline void tempdir_data(const struct folder *folder, const char *path, const void *data, size_t len)
{
	struct err err;
	tempdir_parent(folder, path);
	assert_int_equal(root_write(&folder->root, path, data, len, 0644, &err), 0);
}

static inline void tempdir_link(const struct folder *folder, const char *path, const char *target)
{
	tempdir_parent(folder, path);
	folder_link(folder, target, path);
}
