// SPDX-License-Identifier: Apache-2.0
// A shared library made of bytes: nothing but what says its name.
#pragma once
#include "base/core/str.h"

#include <elf.h>

struct library {
	Elf64_Ehdr head;
	Elf64_Phdr load, dynamic;
	Elf64_Dyn dyn[3];
	char strings[64];
};

// Loaded at an address that is not its place in the file, as real ones are.
static inline struct library library_make(const char *soname, unsigned machine)
{
	enum { BASE = 0x10000 };
	struct library l = {
		.head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			  .e_type = ET_DYN,
			  .e_machine = (Elf64_Half)machine,
			  .e_phoff = offsetof(struct library, load),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 2 },
		.load = { .p_type = PT_LOAD, .p_vaddr = BASE, .p_filesz = sizeof(l) },
		.dynamic = { .p_type = PT_DYNAMIC,
			     .p_offset = offsetof(struct library, dyn),
			     .p_vaddr = BASE + offsetof(struct library, dyn),
			     .p_filesz = sizeof(l.dyn) },
		.dyn = { { .d_tag = soname ? DT_SONAME : DT_DEBUG, .d_un.d_val = 1 },
			 { .d_tag = DT_STRTAB, .d_un.d_ptr = BASE + offsetof(struct library, strings) } },
	};
	size_t len = soname ? strlen(soname) : 0;
	if (len && len < sizeof(l.strings) - 1)
		memcpy(l.strings + 1, soname, len);
	return l;
}
