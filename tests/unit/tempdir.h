// SPDX-License-Identifier: Apache-2.0
// A temporary directory as a root, for tests that describe a machine as a folder; with cmocka.
#pragma once
#include "base/root.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct tempdir {
	char path[64];
	struct root root;
};

static inline void tempdir_init(struct tempdir *t)
{
	struct err err;
	strcpy(t->path, "/tmp/kmodsmith-test.XXXXXX");
	assert_non_null(mkdtemp(t->path));
	assert_int_equal(root_init(&t->root, t->path, &err), 0);
}

static inline void tempdir_done(struct tempdir *t)
{
	struct err err;
	struct root tmp;
	assert_int_equal(root_init(&tmp, "/tmp", &err), 0);
	root_rmtree(&tmp, strrchr(t->path, '/') + 1, &err);
	root_done(&tmp);
	root_done(&t->root);
}

static inline void tempdir_parent(struct tempdir *t, const char *path)
{
	struct err err;
	const char *slash = strrchr(path, '/');
	auto_str char *dir = slash ? str_ndup(path, (size_t)(slash - path)) : NULL;
	if (dir)
		assert_int_equal(root_mkdirs(&t->root, dir, 0755, &err), 0);
}

static inline void tempdir_mkdir(struct tempdir *t, const char *path)
{
	struct err err;
	assert_int_equal(root_mkdirs(&t->root, path, 0755, &err), 0);
}

static inline void tempdir_data(struct tempdir *t, const char *path, const void *data, size_t len)
{
	struct err err;
	tempdir_parent(t, path);
	assert_int_equal(root_write(&t->root, path, data, len, 0644, &err), 0);
}

static inline void tempdir_write(struct tempdir *t, const char *path, const char *text)
{
	tempdir_data(t, path, text, strlen(text));
}

static inline void tempdir_link(struct tempdir *t, const char *path, const char *target)
{
	struct err err;
	tempdir_parent(t, path);
	assert_int_equal(root_symlink(&t->root, target, path, &err), 0);
}
