// SPDX-License-Identifier: Apache-2.0
// R-P3: what the core does without, and what is remembered of it.
#include "journal/optional_modules.h"

#include "host/driver_state.h"
#include "tests/unit/tempdir.h"

static void core_modules_are_not_optional(void **state)
{
	(void)state;
	static const char *const core[] = { "nvidia", "nvidia-uvm", "nvidia_uvm" }, *const rest[] = {
		"nvidia-modeset", "nvidia_drm", "nvidia-peermem"
	};
	for (size_t i = 0; i < ARRAY_SIZE(core); i++)
		assert_false(optional_modules_is(core[i]));
	for (size_t i = 0; i < ARRAY_SIZE(rest); i++)
		assert_true(optional_modules_is(rest[i]));
}

static void note(struct optional_modules *o, const char *module, int code, const char *text)
{
	optional_modules_add(o, module, "a=1", err_info(code)->name, text);
}

static void failures_are_kept_for_one_boot(void **state)
{
	(void)state;
	auto_folder struct folder t;
	auto_optional_modules struct optional_modules o = { .driver = str_dup("535.1"), .package = str_dup("aa") },
						      got = { 0 };
	struct err err;
	folder_make(&t);
	assert_int_equal(optional_modules_read(&t.root, "boot-1", &got, &err), 0);
	note(&o, "nvidia-modeset", E_LOAD, "first");
	note(&o, "nvidia_modeset", E_SYMBOL, "nothing exports x"); // the same one, and the last word counts
	note(&o, "nvidia-drm", E_ABI, "y");
	assert_int_equal(optional_modules_write(&t.root, "boot-1", &o, &err), 0);
	assert_int_equal(optional_modules_read(&t.root, "boot-2", &got, &err), 0);
	assert_int_equal(optional_modules_read(&t.root, "boot-1", &got, &err), 1);
	assert_int_equal(got.count, 2);
	assert_string_equal(got.driver, "535.1");
	assert_string_equal(got.package, "aa");
	const struct optional_failure *f = optional_modules_find(&got, "nvidia-modeset");
	assert_non_null(f);
	assert_string_equal(f->code, "E_SYMBOL");
	assert_string_equal(f->text, "nothing exports x");
	assert_string_equal(f->params, "a=1");
	assert_null(optional_modules_find(&got, "nvidia-peermem"));
	assert_int_equal(optional_modules_write(&t.root, "boot-1", &(struct optional_modules){ 0 }, &err), 0);
	assert_int_equal(optional_modules_read(&t.root, "boot-1", &got, &err), 0);
}

static void a_damaged_file_counts_as_none(void **state)
{
	(void)state;
	auto_folder struct folder t;
	auto_optional_modules struct optional_modules got = { 0 };
	struct err err;
	folder_make(&t);
	tempdir_write(&t, "run/kmodsmith/optional.json", "{\"boot_id\": \"b\", \"modules\": [{\"module\"");
	assert_int_equal(optional_modules_read(&t.root, "b", &got, &err), 0);
	tempdir_write(&t, "run/kmodsmith/optional.json", "{\"boot_id\": \"b\", \"modules\": [{}, 1, {\"module\": 2}]}");
	assert_int_equal(optional_modules_read(&t.root, "b", &got, &err), 1);
	assert_int_equal(got.count, 0);
}

static void leaves_the_driver(void **state)
{
	(void)state;
	auto_driver_state struct driver_state d = { 0 };
	strv_split(&d.modules, "nvidia nvidia-modeset nvidia-uvm", " ");
	driver_state_set_params(&d, "nvidia_modeset", "a=1");
	driver_state_set_params(&d, "nvidia", "b=\"1 2\"");
	driver_state_drop(&d, "nvidia-modeset");
	driver_state_drop(&d, "nvidia-drm");
	auto_str char *modules = strv_join(&d.modules, " "), *params = strv_join(&d.params, ";");
	assert_string_equal(modules, "nvidia nvidia-uvm");
	assert_string_equal(params, "nvidia b=\"1 2\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(core_modules_are_not_optional),
		cmocka_unit_test(failures_are_kept_for_one_boot),
		cmocka_unit_test(a_damaged_file_counts_as_none),
		cmocka_unit_test(leaves_the_driver),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
