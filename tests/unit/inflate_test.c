// SPDX-License-Identifier: Apache-2.0
#include "base/archive/archive.h"
#include "tests/unit/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

// NULL: LZ4's legacy frame
static int (*const filters[])(struct archive *) = { archive_write_add_filter_gzip, archive_write_add_filter_xz,
						    archive_write_add_filter_zstd, archive_write_add_filter_lz4, NULL };

static char *sample(size_t len)
{
	char *data = mem_alloc(len + 1);
	for (size_t i = 0; i < len; i++)
		data[i] = (char)(i * i >> 7 ^ i);
	return data;
}

static char *pack_any(int (*filter)(struct archive *), const char *data, size_t len, size_t *ret_len)
{
	return filter ? pack(filter, data, len, ret_len) : pack_lz4_legacy(data, len, ret_len);
}

static void test_formats(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		struct err err;
		size_t packed_len, len = 0;
		auto_str char *data = sample(100000);
		auto_str char *packed = pack_any(filters[i], data, 100000, &packed_len);
		auto_str char *out = NULL;
		assert_int_equal(archive_inflate(packed, packed_len, 1 << 20, &out, &len, &err), 0);
		assert_int_equal(len, 100000);
		assert_memory_equal(out, data, len);
	}
}

static void test_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		struct err err;
		size_t packed_len, len = 77;
		auto_str char *data = sample(5000);
		auto_str char *packed = pack_any(filters[i], data, 5000, &packed_len);
		char *out = NULL;
		assert_int_equal(archive_inflate(packed, packed_len / 2, 1 << 20, &out, &len, &err), -1);
		assert_int_equal(err.code, E_ARCHIVE);
		assert_null(out);
		assert_int_equal(len, 77);
	}
}

static void test_limit(void **state)
{
	(void)state;
	struct err err;
	size_t packed_len, len = 0;
	auto_str char *zeros = mem_alloc(1 << 20);
	auto_str char *packed = pack(archive_write_add_filter_gzip, zeros, 1 << 20, &packed_len);
	auto_str char *out = NULL;
	assert_int_equal(archive_inflate(packed, packed_len, (1 << 20) - 1, &out, &len, &err), -1);
	assert_int_equal(err.code, E_ARCHIVE);
	assert_non_null(strstr(err.text, "more than 1048575 bytes"));
	assert_int_equal(archive_inflate(packed, packed_len, 1 << 20, &out, &len, &err), 0);
	assert_int_equal(len, 1 << 20);
}

static void test_plain(void **state)
{
	(void)state;
	static const char *const texts[] = { "", "x", "CONFIG_MODULES=y\n" };
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct err err;
		size_t len = 99;
		auto_str char *out = NULL;
		assert_int_equal(archive_inflate(texts[i], strlen(texts[i]), 100, &out, &len, &err), 0);
		assert_int_equal(len, strlen(texts[i]));
		assert_string_equal(out, texts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_plain),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
