// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/test.h"

#include "base/formats/json.h"

static void test_what_is_refused(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"",
		"{",
		"{\"a\":1,\"a\":2}",
		"{\"a\":1,\"b\":{\"c\":1,\"c\":1}}",
		"{\"a\":1} x",
		"{\"a\":1,}",
		"{'a':1}",
		"{\"a\":NaN}",
		"{\"a\":1e999}",
		"{\"a\":99999999999999999999}",
		"{\"a\":\"\xff\"}",
		"{\"a\":\"\\u0000\"}",
		"\x01\x02",
		"4",
		"null",
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		json_t *value = NULL;
		folder_file(&folder, "f", rows[i]);
		expect(json_read(&folder.root, "f", &value, &err) == -1, rows[i]);
		expect(err.code == E_CONFIG && strstr(err.text, "/f': not valid JSON at line "), rows[i]);
		expect(!value, rows[i]);
	}
}

static void test_depth_is_bounded(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_str char *deep = mem_alloc(200001);
	memset(deep, '[', 200000);
	folder_file(&folder, "f", deep);
	json_t *value = NULL;
	assert_int_equal(json_read(&folder.root, "f", &value, &err), -1);
	assert_int_equal(err.code, E_CONFIG);
}

static void test_absent_is_a_value(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	folder_make(&folder);
	json_t *value = NULL;
	assert_int_equal(json_read(&folder.root, "f", &value, &err), 0);
	assert_int_equal(json_read(&folder.root, "no/such/f", &value, &err), 0);
	assert_null(value);
}

static void test_write_is_stable_and_reads_back(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_json json_t *value = json_pack("{s:i, s:[s, n]}", "b", 1, "a", "x");
	assert_int_equal(json_write(&folder.root, "f", value, &err), 0);
	folder_expect(&folder, "f", "{\n  \"a\": [\n    \"x\",\n    null\n  ],\n  \"b\": 1\n}\n");
	auto_json json_t *back = NULL;
	assert_int_equal(json_read(&folder.root, "f", &back, &err), 1);
	assert_true(json_equal(value, back));
}

static void test_text_takes_any_bytes(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "", "" }, { "a\nb", "a\nb" }, { "gr\xc3\xbc", "gr\xc3\xbc" }, { "\xff\xc3x", "??x" }
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *value = json_text(rows[i][0]);
		assert_string_equal(json_string_value(value), rows[i][1]);
	}
	assert_true(json_is_null(json_text(NULL)));
}

static void test_list(void **state)
{
	(void)state;
	auto_strv struct strv v = { 0 };
	auto_json json_t *empty = json_strv(&v);
	assert_int_equal(json_array_size(empty), 0);
	strv_split(&v, "a b", " ");
	auto_json json_t *full = json_strv(&v);
	assert_int_equal(json_array_size(full), 2);
	assert_string_equal(json_string_value(json_array_get(full, 1)), "b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_refused),      cmocka_unit_test(test_depth_is_bounded),
		cmocka_unit_test(test_absent_is_a_value),    cmocka_unit_test(test_write_is_stable_and_reads_back),
		cmocka_unit_test(test_text_takes_any_bytes), cmocka_unit_test(test_list),
	};
	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
