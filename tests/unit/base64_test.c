// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/test.h"

#include "base/crypto/base64.h"

static void test_round_trip(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		// RFC 4648, section 10
		{ "", "" },
		{ "f", "Zg==" },
		{ "ab", "YWI=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
		{ "\xff\xfe\xfb", "//77" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *text = base64_text(rows[i][0], strlen(rows[i][0])), *back = NULL;
		size_t len = 99;
		expect(str_eq(text, rows[i][1]), rows[i][1]);
		expect(base64_parse(text, &back, &len), text);
		expect(len == strlen(rows[i][0]) && str_eq(back, rows[i][0]), text);
	}
}

static void test_every_byte(void **state)
{
	(void)state;
	unsigned char all[256];
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (unsigned char)i;
	auto_str char *text = base64_text(all, sizeof(all)), *back = NULL;
	size_t len = 0;
	assert_true(base64_parse(text, &back, &len));
	assert_int_equal(len, sizeof(all));
	assert_memory_equal(back, all, sizeof(all));
}

static void test_what_is_refused(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"Z",    "Zg",   "Zg=",   "Zg===",  "=",    "====",    "Z===",   "Zg==Zg==", "Zm=v",
		"Zh==", "Zm9=", "Zm 9v", "Zm9v\n", "Zm-_", "Zm9\xff", "Zg==\n", "A=B=",
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *data = NULL;
		size_t len = 7;
		expect(!base64_parse(rows[i], &data, &len), rows[i]);
		expect(!data && len == 7, rows[i]);
	}
}

static void test_loose(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		// NULL = refused
		{ "", "" },
		{ "\n", "" },
		{ "Zg==", "f" },
		{ "Zg", "f" },
		{ "Zg=", "f" },
		{ "Zm9v", "foo" },
		{ "Zm9v\n", "foo" },
		{ "Zm\r\n9vYg==\n", "foob" },
		{ " Zm9v\tYmE", "fooba" },
		{ "Z", NULL },
		{ "Zm9vY", NULL },
		{ "Zg==Zg==", NULL },
		{ "Zh", NULL },
		{ "Zm-_", NULL },
		{ "Zm9\xff", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *data = NULL;
		size_t len = 7;
		expect(base64_parse_loose(rows[i][0], &data, &len) == (rows[i][1] != NULL), rows[i][0]);
		expect(rows[i][1] ? str_eq(data, rows[i][1]) && len == strlen(rows[i][1]) : !data && len == 7,
		       rows[i][0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_loose),
	};
	return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
