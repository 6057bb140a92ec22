// SPDX-License-Identifier: Apache-2.0
// What compiles keep: shared by those who compile, removed only when nobody does, and never half.
#include "tests/unit/tempdir.h"

#include "acquire/build_cache.h"

#include <sys/file.h>

struct use {
	struct root root;
	int lock;
};

static void use_done(struct use *u)
{
	root_done(&u->root);
	if (u->lock >= 0)
		close(u->lock);
}
#define auto_use __attribute__((cleanup(use_done)))
#define USE_NONE ((struct use){ .root = ROOT_NONE, .lock = -1 })

static void test_shared_then_cleared(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err = { 0 };
	uint64_t bytes = 9;
	folder_make(&f);
	assert_int_equal(build_cache_clear(&f.root, false, &bytes, &err), 0); // there is none
	assert_int_equal(bytes, 0);
	{
		auto_use struct use a = USE_NONE, b = USE_NONE;
		assert_int_equal(build_cache_open(&f.root, &a.root, &a.lock), 0);
		assert_int_equal(build_cache_open(&f.root, &b.root, &b.lock), 0);
		tempdir_write(&f, "cache/objects/1", "text");
		assert_int_equal(build_cache_clear(&f.root, false, &bytes, &err), -1);
		assert_int_equal(err.code, E_LOCKED);
		assert_int_equal(build_cache_clear(&f.root, true, &bytes, &err), 0); // looking is no change
		assert_true(bytes >= 4096);
		folder_expect(&f, "cache/objects/1", "text");
	}
	tempdir_write(&f, ".tmp/cache.gone/left", "by a kill");
	assert_int_equal(build_cache_clear(&f.root, false, &bytes, &err), 0);
	assert_true(bytes >= 4096);
	assert_false(root_exists(&f.root, "cache"));
	assert_false(root_exists(&f.root, ".tmp/cache.gone"));
}

static void test_unusable(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_use struct use u = USE_NONE;
	struct err err = { 0 };
	uint64_t bytes = 0;
	folder_make(&f);
	folder_file(&f, "cache", "no directory");
	assert_int_equal(build_cache_open(&f.root, &u.root, &u.lock), -1);
	assert_int_equal(u.root.fd, -1);
	assert_int_equal(build_cache_clear(&f.root, false, &bytes, &err), -1);
	folder_expect(&f, "cache", "no directory");
	assert_int_equal(root_unlink(&f.root, "cache", &err), 1);
	folder_dir(&f, "elsewhere");
	folder_link(&f, "elsewhere", "cache");
	assert_int_equal(build_cache_open(&f.root, &u.root, &u.lock), -1); // a link leads who knows where
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_then_cleared),
		cmocka_unit_test(test_unusable),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
