// SPDX-License-Identifier: Apache-2.0
#include "kmod/module/symvers.h"
#include "tests/unit/pack.h"
#include "tests/unit/test.h"

#include <sys/mman.h>

static const char TEXT[] = "0x12345678\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n"
			   "0xffffffff\tdma_buf_get\tvmlinux\tEXPORT_SYMBOL_GPL\tDMA_BUF\n"
			   "0x00000000\tmemcpy_asm\tvmlinux\tEXPORT_SYMBOL\t\n"
			   "0x00000abc\tdrm_open\tdrivers/gpu/drm/drm\tEXPORT_SYMBOL_GPL\n";

static void check_text(const struct symvers *sv)
{
	assert_int_equal(sv->count, 4);
	const struct symver *s = symvers_find(sv, "kfree");
	assert_true(s && s->crc == 0x12345678 && s->has_crc && !s->is_gpl);
	assert_string_equal(s->owner, "vmlinux");
	assert_string_equal(s->namespace, "");
	s = symvers_find(sv, "dma_buf_get");
	assert_true(s && s->crc == 0xffffffff && s->is_gpl);
	assert_string_equal(s->namespace, "DMA_BUF");
	s = symvers_find(sv, "memcpy_asm");
	assert_true(s && !s->has_crc);
	s = symvers_find(sv, "drm_open"); // four columns, as before 5.4
	assert_true(s && s->crc == 0xabc && s->is_gpl);
	assert_string_equal(s->owner, "drivers/gpu/drm/drm");
	assert_null(symvers_find(sv, "kfre"));
	assert_string_equal(sv->items[0].name, "kfree");
}

static void test_text(void **state)
{
	(void)state;
	struct err err;
	auto_symvers struct symvers *sv = symvers_new();
	assert_null(symvers_find(sv, "kfree"));
	assert_int_equal(symvers_add_text(sv, TEXT, sizeof(TEXT) - 1, "Module.symvers", &err), 0);
	check_text(sv);
	// What is there stays.
	assert_int_equal(symvers_add_text(sv, "0x1\tkfree\tother\tEXPORT_SYMBOL\t", 30, "more", &err), 0);
	check_text(sv);
}

static void test_files(void **state)
{
	(void)state;
	int (*const filters[])(struct archive *) = { NULL, archive_write_add_filter_gzip, archive_write_add_filter_xz,
						     archive_write_add_filter_zstd };
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		struct err err;
		size_t len = sizeof(TEXT) - 1;
		auto_symvers struct symvers *sv = symvers_new();
		auto_str char *packed = filters[i] ? pack(filters[i], TEXT, len, &len) : str_dup(TEXT);
		auto_fd int fd = memfd_create("symvers", MFD_CLOEXEC);
		assert_int_equal(write(fd, packed, len), len);
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		assert_int_equal(symvers_add_file(sv, fd, "symvers.gz", &err), 0);
		check_text(sv);
	}
}

static void test_malformed(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"0x1\ta\tvmlinux\n",
		"12345678\ta\tvmlinux\tEXPORT_SYMBOL\n",
		"0x123456789\ta\tvmlinux\tEXPORT_SYMBOL\n",
		"0xzz\ta\tvmlinux\tEXPORT_SYMBOL\n",
		"0x1\t\tvmlinux\tEXPORT_SYMBOL\n",
		"0x1\ta\t\tEXPORT_SYMBOL\n",
		"0x1\ta\tvmlinux\tSOMETHING\n",
		"<html>\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_symvers struct symvers *sv = symvers_new();
		auto_str char *text = str_fmt("0x1\tgood\tvmlinux\tEXPORT_SYMBOL\t\n%s", rows[i]);
		expect(symvers_add_text(sv, text, strlen(text), "Module.symvers", &err) == -1, rows[i]);
		expect(err.code == E_HEADERS_MISMATCH && strstr(err.text, "line 2"), rows[i]);
		expect(sv->count == 0, rows[i]);
		expect(symvers_add_text(sv, "0x2\tbad\tvmlinux\tEXPORT_SYMBOL\t\n", 30, "Module.symvers", &err) == 0,
		       rows[i]);
		expect(symvers_add_text(sv, text, strlen(text), "Module.symvers", &err) == -1, rows[i]);
		expect(sv->count == 1 && symvers_find(sv, "bad") && !symvers_find(sv, "good"), rows[i]);
	}
}

static void test_many(void **state)
{
	(void)state;
	auto_symvers struct symvers *sv = symvers_new();
	for (uint32_t i = 0; i < 20000; i++) {
		auto_str char *name = str_fmt("symbol_%u", i);
		auto_str char *owner = str_fmt("module_%u", i / 100);
		struct symver s = { .name = name, .owner = owner, .namespace = "", .crc = i, .has_crc = true };
		symvers_add(sv, &s);
		symvers_add(sv, &s);
	}
	assert_int_equal(sv->count, 20000);
	for (uint32_t i = 0; i < 20000; i++) {
		auto_str char *name = str_fmt("symbol_%u", i);
		auto_str char *owner = str_fmt("module_%u", i / 100);
		const struct symver *s = symvers_find(sv, name);
		assert_true(s && s->crc == i && str_eq(s->owner, owner));
	}
	assert_null(symvers_find(sv, "symbol_20000"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_text), cmocka_unit_test(test_files),
					    cmocka_unit_test(test_malformed), cmocka_unit_test(test_many) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
