// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/test.h"

static void test_versions_in_natural_order(void **state)
{
	(void)state;
	// Each row is older than the next.
	static const char *const rows[] = {
		"",
		"4.18.0-553.el8_10",
		"5.4.0-1",
		"5.14.0-427.13.1.el9_4",
		"6.1.0-9",
		"6.1.0-9-cloud",
		"6.1.0-10",
		"6.1.0-50",
		"6.1.10",
		"6.12~rc1",
		"6.12",
		"6.12.1",
		"470.256.02",
		"470.256.9",
		"470.256.010",
		"535.98",
		"535.104.05",
		"535.104.12",
		"535.261.03",
		"535.261.03+1",
		"99999999999999999999999999999.1",
		"99999999999999999999999999999.2",
	};
	for (size_t a = 0; a < ARRAY_SIZE(rows); a++)
		for (size_t b = 0; b < ARRAY_SIZE(rows); b++) {
			int r = str_version_cmp(rows[a], rows[b]);
			auto_str char *row = str_fmt("%s and %s", rows[a], rows[b]);
			expect((r > 0) - (r < 0) == (a > b) - (a < b), row);
		}
}

static void test_zeros_in_front_change_no_order(void **state)
{
	(void)state;
	assert_true(str_version_cmp("1.010", "1.9") > 0);
	assert_true(str_version_cmp("1.09", "1.10") < 0);
	assert_true(str_version_cmp("1.0", "1.00") != 0); // two names are never the same version
	assert_true((str_version_cmp("1.0", "1.00") < 0) == (str_version_cmp("1.00", "1.0") > 0));
}

static void test_u64(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int base;
		bool is_number;
		uint64_t value;
	} rows[] = {
		{ "0", 10, true, 0 },
		{ "42", 10, true, 42 },
		{ "18446744073709551615", 10, true, UINT64_MAX },
		{ "18446744073709551616", 10, false, 0 },
		{ "0x10de", 0, true, 0x10de },
		{ "0X10DE", 16, true, 0x10de },
		{ "10de", 16, true, 0x10de },
		{ "ffffffffffffffff", 16, true, UINT64_MAX },
		{ "10000000000000000", 16, false, 0 },
		{ "0644", 0, true, 0644 },
		{ "0644", 8, true, 0644 },
		{ "8", 8, false, 0 },
		{ "", 10, false, 0 },
		{ "0x", 0, false, 0 },
		{ " 1", 10, false, 0 },
		{ "1 ", 10, false, 0 },
		{ "1\n", 10, false, 0 },
		{ "+1", 10, false, 0 },
		{ "-1", 10, false, 0 },
		{ "1.5", 10, false, 0 },
		{ "a", 10, false, 0 },
		{ "12a", 10, false, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t value = 4711;
		expect(str_u64(rows[i].text, rows[i].base, &value) == rows[i].is_number, rows[i].text);
		expect(value == (rows[i].is_number ? rows[i].value : 4711), rows[i].text);
	}
	uint64_t value = 4711;
	assert_false(str_u64(NULL, 10, &value));
}

static void test_trim(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "", "" },          { " ", "" },      { "\n\t ", "" }, { "a", "a" },
		{ " a b\n", "a b" }, { "a\r\n", "a" }, { "\ta", "a" },  { " \xff ", "\xff" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *copy = str_dup(rows[i][0]);
		assert_string_equal(str_trim(copy), rows[i][1]);
	}
}

static void test_split_and_join(void **state)
{
	(void)state;
	static const struct {
		const char *text, *separators, *joined;
		size_t count;
	} rows[] = {
		{ "", ",", "", 0 },       { ",,", ",", "", 0 },        { "a", ",", "a", 1 },
		{ "a,b", ",", "a+b", 2 }, { ",a,,b,", ",", "a+b", 2 }, { "a b\tc\n", " \t\n", "a+b+c", 3 },
		{ "a b", ",", "a b", 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv v = { 0 };
		strv_split(&v, rows[i].text, rows[i].separators);
		auto_str char *joined = strv_join(&v, "+");
		expect(v.count == rows[i].count, rows[i].text);
		expect(str_eq(joined, rows[i].joined), rows[i].text);
		expect(!v.items || !v.items[v.count], rows[i].text);
	}
}

static void test_list(void **state)
{
	(void)state;
	auto_strv struct strv v = { 0 };
	strv_sort(&v);
	assert_false(strv_has(&v, "a"));
	strv_split(&v, "nvidia_uvm nvidia nvidia-drm", " ");
	strv_sort(&v);
	assert_string_equal(v.items[0], "nvidia");
	assert_string_equal(v.items[1], "nvidia-drm");
	assert_string_equal(v.items[2], "nvidia_uvm");
	assert_true(strv_has(&v, "nvidia"));
	assert_false(strv_has(&v, "nvidi"));
	assert_false(strv_has(&v, NULL));
	strv_done(&v);
	assert_null(v.items);
	strv_done(&v);
}

static void test_ends_and_equality(void **state)
{
	(void)state;
	assert_true(str_starts("nvidia", "nv"));
	assert_true(str_starts("nvidia", ""));
	assert_false(str_starts("nv", "nvidia"));
	assert_true(str_ends("nvidia.ko", ".ko"));
	assert_true(str_ends("x", ""));
	assert_false(str_ends("o", ".ko"));
	assert_true(str_eq("a", "a"));
	assert_false(str_eq("a", "b"));
	assert_false(str_eq(NULL, "a"));
	assert_false(str_eq(NULL, NULL));
}

static void test_building_and_giving_away(void **state)
{
	(void)state;
	auto_str char *s = NULL;
	str_add(&s, "%d", 1);
	for (int i = 2; i <= 2000; i++)
		str_add(&s, ",%d", i);
	assert_true(str_starts(s, "1,2,3,") && str_ends(s, ",1999,2000"));
	auto_str char *taken = TAKE(s);
	assert_null(s);
	assert_int_equal(strlen(taken), 8892);
	auto_str char *cut = str_ndup("nvidia.ko", 6);
	assert_string_equal(cut, "nvidia");
	assert_null(str_dup(NULL));
	str_set(&cut, "kernel");
	assert_string_equal(cut, "kernel");
	str_set(&cut, cut);
	assert_string_equal(cut, "kernel");
	str_set(&cut, NULL);
	assert_null(cut);
	int fd = 7;
	assert_int_equal(TAKE_FD(fd), 7);
	assert_int_equal(fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions_in_natural_order),
		cmocka_unit_test(test_zeros_in_front_change_no_order),
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_trim),
		cmocka_unit_test(test_split_and_join),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_ends_and_equality),
		cmocka_unit_test(test_building_and_giving_away),
	};
	return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
