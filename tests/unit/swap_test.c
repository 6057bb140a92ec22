// SPDX-License-Identifier: Apache-2.0
// R-D5: an undo that meets a kernel which does not come back tries nothing more.
#include "node/run.h"
#include "tests/unit/test.h"

#include <time.h>

static int hang(const struct sys *s, const char *name)
{
	(void)s;
	const struct timespec long_time = { .tv_sec = 30 };
	if (str_eq(name, "nvidia_uvm"))
		nanosleep(&long_time, NULL);
	return 0;
}

static void unload_that_hangs_is_the_last(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_str char *problem = NULL;
	const struct sys sys = { .module_unload = hang };
	struct apply apply = { .kern = &f.root, .sys = &sys, .unload_timeout_ms = 100 };
	struct run r = { .a = &apply, .package = PACKAGE_NONE, .previous = PACKAGE_NONE };
	folder_make(&f);
	strv_add(&r.loaded, str_dup("nvidia"));
	strv_add(&r.loaded, str_dup("nvidia_uvm"));
	strv_add(&r.loaded, str_dup("nvidia_modeset"));
	undo_load(&r, &problem);
	assert_true(r.is_wedged);
	assert_non_null(strstr(problem, "unload 'nvidia_uvm': the kernel did not come back"));
	assert_int_equal(r.loaded.count, 1);
	assert_string_equal(r.loaded.items[0], "nvidia");
	strv_done(&r.loaded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unload_that_hangs_is_the_last),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
