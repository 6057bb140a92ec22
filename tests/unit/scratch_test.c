// SPDX-License-Identifier: Apache-2.0
#include "base/file/scratch.h"
#include "tests/unit/test.h"

#include <signal.h>
#include <sys/wait.h>

static void each_is_separate_and_is_removed(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	folder_make(&f);
	{
		auto_scratch struct scratch a = SCRATCH_NONE, b = SCRATCH_NONE;
		assert_int_equal(scratch_make(&f.root, "build", &a, &err), 0);
		assert_int_equal(scratch_make(&f.root, "build", &b, &err), 0);
		assert_string_not_equal(a.name, b.name);
		assert_int_equal(root_mkdirs(&a.root, "deep/er", 0755, &err), 0);
		assert_true(root_exists(&f.root, a.name) && root_exists(&f.root, b.name));
	}
	auto_strv struct strv names = { 0 };
	assert_int_equal(root_list(&f.root, ".tmp", &names, &err), 1);
	assert_int_equal(names.count, 0);
}

// After a process was killed in the middle of its work, the next one removes what is not in use.
static void leftovers_are_swept(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_scratch struct scratch mine = SCRATCH_NONE, next = SCRATCH_NONE;
	struct err err;
	folder_make(&f);
	assert_int_equal(scratch_make(&f.root, "build", &mine, &err), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct scratch s = SCRATCH_NONE;
		if (scratch_make(&f.root, "build", &s, &err) < 0 || root_mkdirs(&s.root, "half/done", 0755, &err) < 0)
			_exit(1);
		raise(SIGKILL);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_true(root_exists(&f.root, ".tmp/build.1/half/done"));
	assert_int_equal(scratch_make(&f.root, "source", &next, &err), 0);
	assert_false(root_exists(&f.root, ".tmp/build.1"));
	assert_true(root_exists(&f.root, mine.name));
}

// The name that one has left is the next one's, who is not robbed of it when the first is done.
static void one_that_was_kept_leaves_its_name_to_others(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_scratch struct scratch next = SCRATCH_NONE;
	struct err err;
	folder_make(&f);
	{
		auto_scratch struct scratch first = SCRATCH_NONE;
		assert_int_equal(scratch_make(&f.root, "import", &first, &err), 0);
		assert_int_equal(scratch_keep(&first, "lasting", &err), 1);
		assert_int_equal(scratch_make(&f.root, "import", &next, &err), 0);
		assert_string_equal(next.name, ".tmp/import.0");
	}
	assert_true(root_exists(&f.root, "lasting") && root_exists(&f.root, next.name));
}

// 1 = something that was in one of the directories is gone.
static int make_and_keep_many(const struct root *root, int who)
{
	struct err err;
	for (int i = 0; i < 60; i++) {
		auto_scratch struct scratch s = SCRATCH_NONE;
		auto_str char *lasting = str_fmt("lasting.%d.%d", who, i % 2), *file = str_fmt("%s/file", lasting);
		if (root_rmtree(root, lasting, &err) < 0 || scratch_make(root, "import", &s, &err) < 0 ||
		    root_mkdirs(&s.root, "file", 0755, &err) < 0 || scratch_keep(&s, lasting, &err) != 1 ||
		    !root_exists(root, file))
			return 1;
	}
	return 0;
}

static void many_at_once_take_nothing_from_each_other(void **state)
{
	(void)state;
	auto_folder struct folder f;
	pid_t pids[8];
	folder_make(&f);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(make_and_keep_many(&f.root, (int)i));
	}
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		int status = -1;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_separate_and_is_removed),
		cmocka_unit_test(leftovers_are_swept),
		cmocka_unit_test(one_that_was_kept_leaves_its_name_to_others),
		cmocka_unit_test(many_at_once_take_nothing_from_each_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
