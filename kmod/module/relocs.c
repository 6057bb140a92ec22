// SPDX-License-Identifier: Apache-2.0
// The rules are those of the kernel's kernel/module/main.c (apply_relocations) and arch/{x86,arm64}/kernel/module.c.
#include "kmod/module/relocs.h"

#include <elf.h>
#include <inttypes.h>

// How many bytes are written. What is not listed is an instruction, or refused by the kernel before it writes.
static unsigned width_of(int machine, uint32_t type)
{
	static const struct {
		int machine;
		uint32_t type;
		unsigned width;
	} others[] = {
		{ EM_X86_64, R_X86_64_NONE, 0 },    { EM_X86_64, R_X86_64_64, 8 },
		{ EM_X86_64, R_X86_64_PC64, 8 },    { EM_AARCH64, R_AARCH64_NONE, 0 },
		{ EM_AARCH64, R_AARCH64_ABS64, 8 }, { EM_AARCH64, R_AARCH64_PREL64, 8 },
		{ EM_AARCH64, R_AARCH64_ABS16, 2 }, { EM_AARCH64, R_AARCH64_PREL16, 2 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (others[i].machine == machine && others[i].type == type)
			return others[i].width;
	return 4;
}

static size_t symbol_count(const struct sections *s)
{
	for (size_t i = 1; i < s->count; i++)
		if (s->items[i].type == SHT_SYMTAB)
			return s->items[i].size / sizeof(Elf64_Sym);
	return 0;
}

static int check_section(const struct sections *s, const struct section *table, size_t symbols, const char *file,
			 struct err *err)
{
	const struct section *target = &s->items[table->info];
	Elf64_Rela r;
	for (size_t i = 0; i < table->size / sizeof(r); i++) {
		memcpy(&r, table->data + i * sizeof(r), sizeof(r));
		unsigned width = width_of(s->machine, (uint32_t)ELF64_R_TYPE(r.r_info));
		if (width > target->memory_size || r.r_offset > target->memory_size - width)
			return err_set(err, E_ELF,
				       "'%s': relocation %zu of %s writes %u bytes at %" PRIu64 ", and %s has %" PRIu64,
				       file, i, table->name, width, (uint64_t)r.r_offset, target->name,
				       target->memory_size);
		if (ELF64_R_SYM(r.r_info) >= symbols)
			return err_set(err, E_ELF, "'%s': relocation %zu of %s is to symbol %" PRIu64 " of %zu", file,
				       i, table->name, (uint64_t)ELF64_R_SYM(r.r_info), symbols);
	}
	return 0;
}

int relocs_check(const struct sections *s, const char *file, struct err *err)
{
	size_t symbols = symbol_count(s);
	if (s->machine != EM_X86_64 && s->machine != EM_AARCH64)
		return 0;
	for (size_t i = 1; i < s->count; i++) {
		const struct section *table = &s->items[i];
		// The kernel applies none to what it does not load: debug information, notes of the compiler.
		bool is_applied =
			table->type == SHT_RELA && table->info < s->count && (s->items[table->info].flags & SHF_ALLOC);
		if (is_applied && check_section(s, table, symbols, file, err) < 0)
			return -1;
	}
	return 0;
}
