// SPDX-License-Identifier: Apache-2.0
#include "kmod/module/versions.h"
#include "tests/unit/test.h"

#include <openssl/sha.h>

static const char LONG_NAME[] = "a_symbol_with_a_name_that_is_too_long_for_the_fifty_six_bytes_of_a_record";

static void put_classic(unsigned char *record, uint32_t crc, const char *name)
{
	char field[57] = { 0 };
	snprintf(field, sizeof(field), "%s", name);
	memset(record, 0, 64);
	memcpy(record, &crc, 4);
	memcpy(record + 8, field, 56); // without the NUL of a long name
}

static size_t put_packed(unsigned char *p, uint32_t crc, const char *name)
{
	uint32_t size = (uint32_t)(8 + strlen(name) / 4 * 4 + 4);
	memset(p, 0, size);
	memcpy(p, &size, 4);
	memcpy(p + 4, &crc, 4);
	memcpy(p + 8, name, strlen(name) + 1);
	return size;
}

static void expect_crc(const struct versions *v, const char *name, uint32_t want)
{
	uint32_t crc = 0;
	expect(versions_find(v, name, &crc) == 1, name);
	expect(crc == want, name);
}

static void test_classic(void **state)
{
	(void)state;
	struct err err;
	unsigned char data[3 * 64];
	uint32_t crc = 5;
	auto_versions struct versions v = { 0 };
	put_classic(data, 0xdeadbeef, "module_layout");
	put_classic(data + 64, 7, "kfree");
	put_classic(data + 128, 9, "a");
	assert_int_equal(versions_parse(data, sizeof(data), &v, &err), 0);
	assert_int_equal(v.count, 3);
	expect_crc(&v, "module_layout", 0xdeadbeef);
	expect_crc(&v, "kfree", 7);
	expect_crc(&v, "a", 9);
	assert_int_equal(versions_find(&v, "kfre", &crc), 0);
	assert_int_equal(versions_find(&v, LONG_NAME, &crc), 0);
	assert_int_equal(crc, 5);
}

static void test_hashed(void **state)
{
	(void)state;
	struct err err;
	unsigned char data[3 * 64];
	auto_versions struct versions v = { 0 };
	put_classic(data, 1, "module_layout");
	put_classic(data + 128, 7, "sha256"); // a symbol of that name, as Debian's 6.12 has
	put_classic(data + 64, 42, "sha256");
	SHA256((const unsigned char *)LONG_NAME, strlen(LONG_NAME), data + 64 + 8 + 7);
	assert_int_equal(versions_parse(data, sizeof(data), &v, &err), 0);
	expect_crc(&v, LONG_NAME, 42);
	expect_crc(&v, "module_layout", 1);
	expect_crc(&v, "sha256", 7);
}

static void test_packed(void **state)
{
	(void)state;
	struct err err;
	unsigned char data[512];
	for (int has_end = 0; has_end < 2; has_end++) {
		auto_versions struct versions v = { 0 };
		size_t len = put_packed(data, 0x80000001, "module_layout");
		len += put_packed(data + len, 2, "abc");
		len += put_packed(data + len, 3, LONG_NAME);
		memset(data + len, 0, 4);
		assert_int_equal(versions_parse(data, len + (has_end ? 4 : 0), &v, &err), 0);
		assert_int_equal(v.count, 3);
		expect_crc(&v, "module_layout", 0x80000001);
		expect_crc(&v, "abc", 2);
		expect_crc(&v, LONG_NAME, 3);
	}
}

static void test_extended(void **state)
{
	(void)state;
	struct err err;
	static const char names[] = "module_layout\0kfree\0rust_symbol";
	static const uint32_t crcs[] = { 11, 22, 33 };
	auto_versions struct versions v = { 0 };
	assert_int_equal(versions_parse_extended(crcs, sizeof(crcs), names, sizeof(names), &v, &err), 0);
	expect_crc(&v, "rust_symbol", 33);
	assert_int_equal(versions_parse_extended(crcs, sizeof(crcs), names, sizeof(names) - 1, &v, &err), -1);
	assert_int_equal(err.code, E_ELF);
	assert_int_equal(versions_parse_extended(crcs, 5, names, sizeof(names), &v, &err), -1);
	assert_int_equal(v.count, 3);
}

static void test_hostile(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		unsigned char data[24];
		size_t len;
	} rows[] = {
		{ "too short", { 1, 2, 3, 4 }, 4 },
		{ "record past the end", { 200, 0, 0, 0, 1, 1, 1, 1, 'a', 0 }, 12 },
		{ "record without a name", { 8, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0 }, 12 },
		{ "name without an end", { 12, 0, 0, 0, 1, 1, 1, 1, 'a', 'b', 'c', 'd' }, 12 },
		{ "unaligned record", { 11, 0, 0, 0, 1, 1, 1, 1, 'a', 0, 0, 0 }, 12 },
		{ "cut second record", { 12, 0, 0, 0, 1, 1, 1, 1, 'a', 0, 0, 0, 9, 0 }, 14 },
		{ "size that wraps", { 0xfc, 0xff, 0xff, 0xff, 1, 1, 1, 1, 'a', 0, 0, 0 }, 12 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_versions struct versions v = { 0 };
		auto_str char *copy = mem_grow(NULL, 1, rows[i].len);
		memcpy(copy, rows[i].data, rows[i].len);
		expect(versions_parse(copy, rows[i].len, &v, &err) == -1, rows[i].name);
		expect(err.code == E_ELF && v.count == 0, rows[i].name);
	}
}

static void test_unterminated_classic(void **state)
{
	(void)state;
	struct err err;
	unsigned char data[64];
	auto_versions struct versions v = { 0 };
	put_classic(data, 1, LONG_NAME);
	assert_int_equal(versions_parse(data, sizeof(data), &v, &err), -1);
	assert_string_equal(err.text, "__versions: the name at 0 does not end");
	assert_int_equal(versions_parse(data, 0, &v, &err), 0);
	assert_int_equal(v.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_classic), cmocka_unit_test(test_hashed),
		cmocka_unit_test(test_packed),  cmocka_unit_test(test_extended),
		cmocka_unit_test(test_hostile), cmocka_unit_test(test_unterminated_classic),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
