// SPDX-License-Identifier: Apache-2.0
// The flags of a hand-over as a table of states, and the request as a document.
#include "tests/unit/tempdir.h"

#include "driver_toolkit/dtk.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void test_steps(void **state)
{
	(void)state;
	static const struct {
		const char *name, *prepared, *started, *broken, *built;
		enum dtk_step step;
	} rows[] = {
		{ "an empty directory", "", "", "", "", DTK_PREPARE },
		{ "killed while preparing", "", A, "", A, DTK_PREPARE },
		{ "of another request", B, B, "", B, DTK_PREPARE },
		{ "prepared", A, "", "", "", DTK_WAIT },
		{ "prepared, the rest of another request", A, B, B, B, DTK_WAIT },
		{ "started", A, A, "", "", DTK_WAIT },
		{ "built", A, A, "", A, DTK_TAKE },
		{ "built, and nobody saw it start", A, "", "", A, DTK_TAKE },
		{ "broken", A, A, A, "", DTK_LEAVE },
		{ "broken before it started", A, "", A, "", DTK_LEAVE },
		{ "broken, then built", A, A, A, A, DTK_TAKE },
		{ "built for another, broken for this", A, A, A, B, DTK_LEAVE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dtk_flags flags = { 0 };
		snprintf(flags.id[DTK_PREPARED], sizeof(flags.id[DTK_PREPARED]), "%s", rows[i].prepared);
		snprintf(flags.id[DTK_STARTED], sizeof(flags.id[DTK_STARTED]), "%s", rows[i].started);
		snprintf(flags.id[DTK_BROKEN], sizeof(flags.id[DTK_BROKEN]), "%s", rows[i].broken);
		snprintf(flags.id[DTK_BUILT], sizeof(flags.id[DTK_BUILT]), "%s", rows[i].built);
		expect(dtk_next(&flags, A) == rows[i].step, rows[i].name);
	}
}

static struct dtk_request sample(void)
{
	struct dtk_request r = { .driver = str_dup("535.261.03"),
				 .flavour = str_dup("open"),
				 .kernel = str_dup("5.14.0-427.el9.x86_64+rt"),
				 .source = str_dup("NVIDIA-Linux-x86_64-535.261.03.run"),
				 .source_sha256 = str_dup(A),
				 .program = str_dup(B),
				 .options.jobs = 4,
				 .options.is_rt_allowed = true,
				 .attempt = 2 };
	strv_add(&r.modules, str_dup("nvidia"));
	strv_add(&r.modules, str_dup("nvidia-uvm"));
	return r;
}

static void test_round(void **state)
{
	(void)state;
	auto_dtk_request struct dtk_request r = sample(), back = { 0 }, other = sample();
	auto_str char *text = dtk_request_text(&r);
	struct err err;
	assert_int_equal(dtk_request_parse(text, strlen(text), &back, &err), 0);
	auto_str char *again = dtk_request_text(&back);
	assert_string_equal(text, again);
	char one[DIGEST_HEX + 1], two[DIGEST_HEX + 1];
	digest_data(text, strlen(text), one);
	digest_data(again, strlen(again), two);
	assert_string_equal(one, two);
	other.attempt++;
	assert_true(dtk_request_equal(&r, &other));
	auto_str char *later = dtk_request_text(&other);
	digest_data(later, strlen(later), two);
	assert_string_not_equal(one, two);
	other.options.is_rt_allowed = false;
	assert_false(dtk_request_equal(&r, &other));
}

static void test_refused(void **state)
{
	(void)state;
	static const struct {
		const char *from, *to, *wrong; // replaced in the sample's text
	} rows[] = {
		{ "\"format\": 1", "\"format\": 2", "format" },
		{ "\"open\"", "\"both\"", "flavour" },
		{ "\"535.261.03\"", "\"../535\"", "driver" },
		{ "\"535.261.03\"", "null", "driver" },
		{ "5.14.0-427", "5.14/0-427", "kernel" },
		{ "NVIDIA-Linux", "..", "source" },
		{ "NVIDIA-Linux", "a b", "source" },
		{ "NVIDIA-Linux", "\\u0000", "JSON" },
		{ A, "aaaa", "source_sha256" },
		{ "\"patches\": null", "\"patches\": \"x\"", "patches" },
		{ "\"jobs\": 4", "\"jobs\": -4", "jobs" },
		{ "\"jobs\": 4", "\"jobs\": 5000000000", "jobs" },
		{ "\"jobs\": 4", "\"jobs\": \"4\"", "jobs" },
		{ "\"attempt\": 2", "\"attempt\": 0", "attempt" },
		{ "\"nvidia-uvm\"", "\"/nvidia-uvm\"", "modules" },
		{ "\"nvidia-uvm\"", "7", "modules" },
		{ "{", "", "JSON" },
	};
	auto_dtk_request struct dtk_request r = sample();
	auto_str char *text = dtk_request_text(&r);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_dtk_request struct dtk_request back = { 0 };
		struct err err = { 0 };
		const char *at = strstr(text, rows[i].from);
		expect(at, rows[i].from);
		auto_str char *bad = str_fmt("%.*s%s%s", (int)(at - text), text, rows[i].to, at + strlen(rows[i].from));
		expect(dtk_request_parse(bad, strlen(bad), &back, &err) < 0, rows[i].to);
		expect(err.code == E_CONFIG && strstr(err.text, rows[i].wrong), err.text);
	}
}

static void test_progress(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool is_sound;
	} rows[] = {
		{ A " 1 2 3\n", true },
		{ A " 0 0 1\n", true },
		{ A " 3 2 1\n", false },
		{ A " 1 2\n", false },
		{ "x 1 2 3\n", false },
		{ A " -1 2 3\n", false },
		{ A " 1 99999999999 3\n", false },
		{ "", false },
	};
	auto_folder struct folder t = { .path = "" };
	struct dtk_progress p;
	folder_make(&t);
	assert_false(dtk_progress_read(&t.root, &p));
	folder_dir(&t, "kmodsmith");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		folder_file(&t, "kmodsmith/progress", rows[i].text);
		p = (struct dtk_progress){ 0 };
		expect(dtk_progress_read(&t.root, &p) == rows[i].is_sound, rows[i].text);
	}
}

static void test_reason(void **state)
{
	(void)state;
	auto_folder struct folder t = { .path = "" };
	struct err err, why = { 0 };
	folder_make(&t);
	dtk_reason_read(&t.root, &why);
	assert_int_equal(why.code, E_BUILD);
	err_set(&why, E_TOOLCHAIN, "no gcc");
	assert_int_equal(dtk_reason_write(&t.root, &why, &err), 0);
	why = (struct err){ 0 };
	dtk_reason_read(&t.root, &why);
	assert_int_equal(why.code, E_TOOLCHAIN);
	assert_string_equal(why.text, "no gcc");
	folder_file(&t, "driver_toolkit_broken.reason", "E_NONSENSE\n\033[31mred\n");
	dtk_reason_read(&t.root, &why);
	assert_int_equal(why.code, E_BUILD);
	assert_string_equal(why.text, "[31mred");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),    cmocka_unit_test(test_round),  cmocka_unit_test(test_refused),
		cmocka_unit_test(test_progress), cmocka_unit_test(test_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
