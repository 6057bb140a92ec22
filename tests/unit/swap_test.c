// SPDX-License-Identifier: Apache-2.0
// R-D5: an undo that meets a kernel which does not come back says so and tries nothing more.
#include "node/run.h"
#include "tests/unit/test.h"

#include <time.h>

static struct folder folder;

// What was asked for is left as a file, because the call is made in another process.
static int hang_in_uvm(const struct sys *s, const char *name)
{
	(void)s;
	const struct timespec long_time = { .tv_sec = 30 };
	folder_file(&folder, name, "");
	if (str_eq(name, "nvidia_uvm"))
		nanosleep(&long_time, NULL);
	return 0;
}

static void unload_that_hangs_is_the_last(void **state)
{
	(void)state;
	struct err err = { 0 };
	const struct sys sys = { .module_unload = hang_in_uvm };
	struct apply apply = { .kern = &folder.root, .sys = &sys, .unload_timeout_ms = 1000 };
	auto_run struct run r = RUN(&apply, NULL);
	folder_make(&folder);
	strv_add(&r.loaded, str_dup("nvidia"));
	strv_add(&r.loaded, str_dup("nvidia_uvm"));
	strv_add(&r.loaded, str_dup("nvidia_modeset"));
	assert_int_equal(undo_load(&r, &err), -1);
	assert_int_equal(err.code, E_WEDGED);
	assert_non_null(strstr(err.text, "unload 'nvidia_uvm': the kernel did not come back within 1 s"));
	assert_true(root_exists(&folder.root, "nvidia_modeset"));
	assert_false(root_exists(&folder.root, "nvidia"));
	folder_done(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unload_that_hangs_is_the_last),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
