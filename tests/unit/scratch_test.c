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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_separate_and_is_removed),
		cmocka_unit_test(leftovers_are_swept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
