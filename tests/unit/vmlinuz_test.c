// SPDX-License-Identifier: Apache-2.0
#include "kmod/module/vmlinuz.h"
#include "tests/unit/forge.h"
#include "tests/unit/pack.h"
#include "tests/unit/test.h"

static const char BANNER[] = "Linux version %s (%s)\nLinux version 6.1.0-9-test (me@there) (gcc) #1 SMP Debian\n";
static const struct forge_symver exports[] = { { "kfree", 0x11223344, NULL, false },
					       { "memcpy", 0, NULL, false },
					       { "dma_buf_get", 0x55667788, "DMA_BUF", true },
					       { 0 } };

static char *kernel(bool has_crcs, size_t *len)
{
	return forge_vmlinux(BANNER, exports, has_crcs, len);
}

static void check(const struct vmlinuz *v, bool has_crcs)
{
	assert_string_equal(v->release, "6.1.0-9-test");
	assert_int_equal(v->machine, EM_X86_64);
	assert_int_equal(v->has_crcs, has_crcs);
	assert_int_equal(v->symvers->count, 3);
	const struct symver *s = symvers_find(v->symvers, "kfree");
	assert_true(s && !s->is_gpl && s->has_crc == has_crcs && s->crc == (has_crcs ? 0x11223344 : 0));
	assert_string_equal(s->owner, "vmlinux");
	s = symvers_find(v->symvers, "memcpy");
	assert_true(s && !s->has_crc);
	s = symvers_find(v->symvers, "dma_buf_get");
	assert_true(s && s->is_gpl && s->crc == (has_crcs ? 0x55667788 : 0));
	assert_string_equal(s->namespace, "DMA_BUF");
}

static void test_elf(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct err err;
		size_t len;
		auto_vmlinuz struct vmlinuz v = { 0 };
		auto_str char *file = forge_vmlinux_as(BANNER, exports, i & 1, i & 2, NULL, &len);
		if (vmlinuz_parse(file, len, "vmlinux", &v, &err) < 0)
			fail_msg("%d: %s", i, err.text);
		check(&v, i & 1);
	}
}

// NULL: LZ4's legacy frame
static int (*const filters[])(struct archive *) = { NULL, archive_write_add_filter_gzip, archive_write_add_filter_xz,
						    archive_write_add_filter_zstd };

static char *packed_kernel(size_t filter, size_t *ret_len)
{
	size_t len;
	auto_str char *elf = kernel(true, &len);
	return filters[filter] ? pack(filters[filter], elf, len, ret_len) : pack_lz4_legacy(elf, len, ret_len);
}

static char *bzimage(size_t filter, size_t *ret_len)
{
	size_t len;
	auto_str char *packed = packed_kernel(filter, &len);
	// gzip states its size inside and nothing follows
	char *file = forge_bzimage(packed, filters[filter] == archive_write_add_filter_gzip ? len - 4 : len, ret_len);
	if (filters[filter] == archive_write_add_filter_gzip)
		memcpy(file + *ret_len - 4, packed + len - 4, 4);
	return file;
}

static void test_compressed(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		struct err err = { 0 };
		size_t len;
		auto_vmlinuz struct vmlinuz whole = { 0 }, bz = { 0 };
		auto_str char *file = packed_kernel(i, &len);
		assert_int_equal(vmlinuz_parse(file, len, "vmlinux.gz", &whole, &err), 0);
		check(&whole, true);
		auto_str char *image = bzimage(i, &len);
		if (vmlinuz_parse(image, len, "vmlinuz", &bz, &err) < 0)
			fail_msg("%zu: %s", i, err.text);
		check(&bz, true);
	}
}

// An arm64 Image is known by its banner; compressed, or as UEFI starts it, it is the same.
static void test_arm64(void **state) // R-O1
{
	(void)state;
	size_t len, packed_len, size;
	auto_str char *image = forge_arm64_image(BANNER, &len);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(filters) + 1; i++) {
		size_t filter = i % ARRAY_SIZE(filters);
		struct err err = { 0 };
		auto_vmlinuz struct vmlinuz v = { 0 };
		auto_str char *row = str_fmt("row %zu", i), *packed = NULL, *zboot = NULL;
		packed = filters[filter] ? pack(filters[filter], image, len, &packed_len) :
					   pack_lz4_legacy(image, len, &packed_len);
		zboot = forge_zboot(packed, packed_len, &size);
		const char *file = i < ARRAY_SIZE(filters) ? packed : i < 2 * ARRAY_SIZE(filters) ? zboot : image;
		size = file == packed ? packed_len : file == image ? len : size;
		if (vmlinuz_parse(file, size, "Image", &v, &err) < 0)
			fail_msg("%zu: %s", i, err.text);
		expect(str_eq(v.release, "6.1.0-9-test") && v.machine == EM_AARCH64, row);
		expect(str_eq(v.banner, "Linux version 6.1.0-9-test (me@there) (gcc) #1 SMP Debian"), row);
		expect(!v.symvers && !v.has_crcs && !v.gnu_build_id, row);
	}
}

static void test_arm64_damaged(void **state)
{
	(void)state;
	struct err err;
	size_t len, size;
	auto_vmlinuz struct vmlinuz v = { 0 };
	auto_str char *image = forge_arm64_image(BANNER, &len), *none = forge_arm64_image("Linux version %s", &size);
	assert_int_equal(vmlinuz_parse(none, size, "Image", &v, &err), -1);
	assert_int_equal(err.code, E_ELF);
	assert_string_equal(err.text, "'Image' is not a Linux kernel: it has no \"Linux version\" line");
	auto_str char *zboot = forge_zboot(image, len, &size);
	assert_int_equal(vmlinuz_parse(zboot, size - 5, "vmlinuz.efi", &v, &err), -1);
	assert_int_equal(err.code, E_ELF);
	assert_non_null(strstr(err.text, "'vmlinuz.efi': the payload ("));
	auto_str char *empty = forge_zboot("", 0, &size);
	assert_int_equal(vmlinuz_parse(empty, size, "vmlinuz.efi", &v, &err), -1);
	assert_non_null(strstr(err.text, "the payload (0 bytes at 512) runs past the end"));
}

static void test_banner(void **state)
{
	(void)state;
	struct err err;
	size_t len;
	auto_vmlinuz struct vmlinuz v = { 0 };
	auto_str char *none = forge_vmlinux("Linux version %s", exports, true, &len);
	assert_int_equal(vmlinuz_parse(none, len, "vmlinux", &v, &err), -1);
	assert_non_null(strstr(err.text, "no \"Linux version\" line"));
	// Of two lines the numbered one is the kernel's; see vmlinuz.c.
	auto_str char *two =
		forge_vmlinux("Linux version 6.2 (a) # SMP\nLinux version 6.2 (a) #1 SMP\n", exports, true, &len);
	assert_int_equal(vmlinuz_parse(two, len, "vmlinux", &v, &err), 0);
	assert_string_equal(v.banner, "Linux version 6.2 (a) #1 SMP");
}

static void expect_sane(const char *data, size_t len, const char *what, size_t at)
{
	struct err err = { 0 };
	auto_vmlinuz struct vmlinuz v = { 0 };
	auto_str char *row = str_fmt("%s %zu", what, at);
	auto_str char *copy = mem_grow(NULL, 1, len + 1);
	memcpy(copy, data, len);
	int r = vmlinuz_parse(copy, len, "hostile", &v, &err);
	expect(r == 0 || err.code == E_ELF || err.code == E_ARCH, row);
	expect((r == 0) == (v.banner != NULL), row);
}

static void test_every_prefix(void **state)
{
	(void)state;
	size_t len;
	auto_str char *elf = kernel(true, &len);
	for (size_t n = 0; n < len; n++)
		expect_sane(elf, n, "elf", n);
	auto_str char *image = bzimage(0, &len);
	for (size_t n = 0; n < len; n += 7)
		expect_sane(image, n, "bzImage", n);
	auto_str char *arm64 = forge_arm64_image(BANNER, &len), *zboot = forge_zboot(arm64, len, &len);
	for (size_t n = 0; n < len; n += 3)
		expect_sane(zboot, n, "zboot", n);
}

static void test_every_byte(void **state)
{
	(void)state;
	size_t len;
	for (int has_flags = 0; has_flags < 2; has_flags++) {
		auto_str char *elf = forge_vmlinux_as(BANNER, exports, true, has_flags, NULL, &len);
		for (size_t n = 0; n < len; n++) {
			elf[n] = (char)~elf[n];
			expect_sane(elf, len, "elf", n);
			elf[n] = (char)~elf[n];
		}
	}
	auto_str char *image = bzimage(1, &len);
	for (size_t n = 0x1f0; n < len; n++) {
		image[n] = (char)~image[n];
		expect_sane(image, len, "bzImage", n);
		image[n] = (char)~image[n];
	}
	auto_str char *arm64 = forge_arm64_image(BANNER, &len), *zboot = forge_zboot(arm64, len, &len);
	for (size_t n = 0; n < len; n++) {
		zboot[n] = (char)~zboot[n];
		expect_sane(zboot, len, "zboot", n);
		zboot[n] = (char)~zboot[n];
	}
}

static void test_no_kernel(void **state)
{
	(void)state;
	static const struct {
		const char *data;
		size_t len;
	} rows[] = { { "", 0 },
		     { "MZ", 2 },
		     { "hello", 5 },
		     { "\x1f\x8b\x08", 3 },
		     { "\xfd"
		       "7zXZ",
		       6 } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		auto_vmlinuz struct vmlinuz v = { 0 };
		assert_int_equal(vmlinuz_parse(rows[i].data, rows[i].len, "vmlinuz", &v, &err), -1);
		assert_int_equal(err.code, E_ELF);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elf),        cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_arm64),      cmocka_unit_test(test_arm64_damaged),
		cmocka_unit_test(test_banner),     cmocka_unit_test(test_every_prefix),
		cmocka_unit_test(test_every_byte), cmocka_unit_test(test_no_kernel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
