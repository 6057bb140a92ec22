// SPDX-License-Identifier: Apache-2.0
// R-D5: modules that are coming or going are waited for, with a deadline. Whatever must happen while somebody waits
// happens in the note that tells of the waiting.
#include "host/modules.h"

#include "tests/unit/tempdir.h"

static struct folder folder;
static const char *note_text, *note_state; // what the note makes of nvidia's state; NULL = nothing, "" = it is gone

static int setup(void **state)
{
	(void)state;
	folder_make(&folder);
	tempdir_write(&folder, "lib/modules/6.1/modules.dep", "");
	tempdir_write(&folder, "sys/module/nvidia/initstate", "live\n");
	tempdir_write(&folder, "sys/module/nvidia_uvm/initstate", "live\n");
	note_text = note_state = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	folder_done(&folder);
	return 0;
}

static void note(void *ctx, const char *text)
{
	(void)ctx;
	struct err err;
	assert_null(note_text); // once, however long it takes
	note_text = strstr(text, "nvidia is coming") ? "coming" : strstr(text, "nvidia is going") ? "going" : "else";
	if (note_state && *note_state)
		folder_file(&folder, "sys/module/nvidia/initstate", note_state);
	else if (note_state)
		assert_int_equal(root_rmtree(&folder.root, "sys/module/nvidia", &err), 1);
}

static void waits_for_all(void **state)
{
	(void)state;
	static const struct {
		const char *row, *now, *later;
		int want;
		size_t count;
		const char *told;
	} rows[] = {
		{ "live", "live\n", NULL, 1, 2, NULL },
		{ "coming, then live", "coming\n", "live\n", 1, 2, "coming" },
		{ "going, then gone", "going\n", "", 1, 1, "going" },
		{ "coming, then going", "coming\n", "going\n", -1, 0, "coming" },
		{ "coming for ever", "coming\n", NULL, -1, 0, "coming" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct progress progress = { .note = note };
		struct err err = { 0 };
		auto_modules struct modules l = { 0 };
		tempdir_write(&folder, "sys/module/nvidia/initstate", rows[i].now);
		note_text = NULL;
		note_state = rows[i].later;
		int timeout_ms = rows[i].want < 0 ? 200 : 60 * 1000;
		expect(modules_read_settled(&folder.root, &folder.root, "6.1", timeout_ms, &progress, &l, &err) ==
			       rows[i].want,
		       rows[i].row);
		expect(l.count == rows[i].count, rows[i].row);
		expect(rows[i].want > 0 || err.code == E_MODULE_BUSY, rows[i].row);
		expect(rows[i].told ? str_eq(note_text, rows[i].told) : !note_text, rows[i].row);
	}
}

static void the_error_names_module_and_state(void **state)
{
	(void)state;
	struct progress progress = { 0 };
	struct err err = { 0 };
	auto_modules struct modules l = { 0 };
	folder_file(&folder, "sys/module/nvidia_uvm/initstate", "going\n");
	assert_int_equal(modules_read_settled(&folder.root, &folder.root, "6.1", 100, &progress, &l, &err), -1);
	assert_string_equal(err.text, "module nvidia_uvm is still going after 0.1 s");
}

static void nothing_is_loaded(void **state)
{
	(void)state;
	struct progress progress = { .note = note };
	struct err err;
	auto_modules struct modules l = { 0 };
	assert_int_equal(root_rmtree(&folder.root, "sys/module", &err), 1);
	assert_int_equal(modules_read_settled(&folder.root, &folder.root, "6.1", 0, &progress, &l, &err), 0);
	assert_null(modules_pending(&l));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(waits_for_all),
		TEST(the_error_names_module_and_state),
		TEST(nothing_is_loaded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
