// SPDX-License-Identifier: Apache-2.0
// A relocation that points out of its section is a write to wherever that is: the kernel does not look.
#include "kmod/module/elf.h"
#include "tests/unit/forge.h"
#include "tests/unit/test.h"

enum { TEXT = 64 }; // of forge_relocs()

// 0 = taken, else the code.
static int read_with(const Elf64_Rela *relocs, size_t count, int machine, struct err *err)
{
	static const struct forge_symver imports[] = { { "printk", 1, NULL, false }, { 0 } };
	size_t len;
	auto_module struct module m = MODULE_NONE;
	const struct forge_module ko = { .name = "nvidia",
					 .vermagic = "6.1",
					 .machine = machine,
					 .imports = imports,
					 .relocs = relocs,
					 .reloc_count = count };
	char *data = forge_ko(&ko, &len);
	*err = (struct err){ 0 };
	return module_parse(data, len, "nvidia.ko", &m, err) < 0 ? err->code : 0;
}

static void test_bounds(void **state) // R-O1: arm64, too
{
	(void)state;
	static const struct {
		int machine;
		uint32_t type;
		uint64_t offset, symbol;
		const char *want; // NULL = it is right
	} rows[] = {
		{ EM_X86_64, R_X86_64_PC32, 0, 1, NULL },
		{ EM_X86_64, R_X86_64_PC32, TEXT - 4, 1, NULL },
		{ EM_X86_64, R_X86_64_PC32, TEXT - 3, 1,
		  "relocation 0 of .rela.text writes 4 bytes at 61, and .text has 64" },
		{ EM_X86_64, R_X86_64_PLT32, TEXT, 1, "writes 4 bytes at 64" },
		{ EM_X86_64, R_X86_64_64, TEXT - 8, 1, NULL },
		{ EM_X86_64, R_X86_64_64, TEXT - 7, 1, "writes 8 bytes at 57" },
		{ EM_X86_64, R_X86_64_PC64, TEXT - 7, 1, "writes 8 bytes" },
		{ EM_X86_64, R_X86_64_NONE, TEXT, 1, NULL },
		{ EM_X86_64, R_X86_64_32S, UINT64_MAX, 1, "writes 4 bytes at 18446744073709551615" },
		{ EM_X86_64, R_X86_64_32S, UINT64_MAX - 3, 1, "writes 4 bytes" },
		{ EM_X86_64, R_X86_64_32, 0, 0, NULL },
		{ EM_X86_64, R_X86_64_32, 0, 2, "relocation 0 of .rela.text is to symbol 2 of 2" },
		{ EM_X86_64, R_X86_64_32, 0, UINT32_MAX, "is to symbol 4294967295 of 2" },
		{ EM_AARCH64, R_AARCH64_CALL26, TEXT - 4, 1, NULL },
		{ EM_AARCH64, R_AARCH64_CALL26, TEXT - 3, 1, "writes 4 bytes" },
		{ EM_AARCH64, R_AARCH64_ABS64, TEXT - 7, 1, "writes 8 bytes" },
		{ EM_AARCH64, R_AARCH64_PREL32, TEXT - 4, 1, NULL },
		{ EM_AARCH64, R_AARCH64_PREL16, TEXT - 2, 1, NULL },
		{ EM_AARCH64, R_AARCH64_PREL16, TEXT - 1, 1, "writes 2 bytes" },
		{ EM_AARCH64, R_AARCH64_CALL26, 0, 2, "is to symbol 2 of 2" },
		{ EM_PPC64, 1, TEXT, 9, NULL }, // not looked at
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		const Elf64_Rela reloc = { .r_offset = rows[i].offset,
					   .r_info = ELF64_R_INFO(rows[i].symbol, rows[i].type) };
		int code = read_with(&reloc, 1, rows[i].machine, &err);
		if (code != (rows[i].want ? E_ELF : 0) || (rows[i].want && !strstr(err.text, rows[i].want)))
			fail_msg("row %zu: '%s'", i, err.text);
	}
}

// Every single bit of a table that is right.
static void test_every_bit(void **state)
{
	(void)state;
	static const Elf64_Rela right[] = {
		{ .r_offset = 0, .r_info = ELF64_R_INFO(1, R_X86_64_PC32) },
		{ .r_offset = 32, .r_info = ELF64_R_INFO(1, R_X86_64_64) },
		{ .r_offset = TEXT - 4, .r_info = ELF64_R_INFO(0, R_X86_64_PLT32) },
	};
	size_t refused = 0;
	for (size_t bit = 0; bit < 8 * sizeof(right); bit++) {
		struct err err;
		Elf64_Rela relocs[ARRAY_SIZE(right)];
		memcpy(relocs, right, sizeof(right));
		((unsigned char *)relocs)[bit / 8] ^= (unsigned char)(1U << bit % 8);
		const Elf64_Rela *hit = &relocs[bit / (8 * sizeof(*hit))];
		int code = read_with(relocs, ARRAY_SIZE(relocs), EM_X86_64, &err);
		bool is_outside = hit->r_offset >= TEXT || ELF64_R_SYM(hit->r_info) > 1;
		if ((code && code != E_ELF) || (is_outside && !code))
			fail_msg("bit %zu: '%s'", bit, err.text);
		refused += code != 0;
	}
	assert_in_range(refused, 3 * (57 + 31), 3 * 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_every_bit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
