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

// A program or library that needs another one, in a version (NULL = any), and has a version for others (NULL = none).
struct linked {
	Elf64_Ehdr head;
	Elf64_Phdr load, dynamic;
	Elf64_Dyn dyn[8];
	Elf64_Verneed need;
	Elf64_Vernaux wanted;
	Elf64_Verdef def;
	Elf64_Verdaux defined;
	char strings[128];
};

static inline struct linked linked_make(const char *needed, const char *version, const char *definition)
{
	enum { BASE = 0x10000, NEEDED = 1, VERSION = 33, DEFINITION = 65, RUNPATH = 97 };
	struct linked l = {
		.head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			  .e_type = ET_EXEC,
			  .e_machine = EM_X86_64,
			  .e_phoff = offsetof(struct linked, load),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 2 },
		.load = { .p_type = PT_LOAD, .p_vaddr = BASE, .p_filesz = sizeof(l) },
		.dynamic = { .p_type = PT_DYNAMIC,
			     .p_offset = offsetof(struct linked, dyn),
			     .p_vaddr = BASE + offsetof(struct linked, dyn),
			     .p_filesz = sizeof(l.dyn) },
		.need = { .vn_version = 1,
			  .vn_cnt = 1,
			  .vn_file = NEEDED,
			  .vn_aux = offsetof(struct linked, wanted) - offsetof(struct linked, need) },
		.wanted = { .vna_name = VERSION },
		.def = { .vd_version = 1,
			 .vd_cnt = 1,
			 .vd_aux = offsetof(struct linked, defined) - offsetof(struct linked, def) },
		.defined = { .vda_name = DEFINITION },
	};
	const Elf64_Dyn dyn[] = {
		{ .d_tag = DT_STRTAB, .d_un.d_ptr = BASE + offsetof(struct linked, strings) },
		{ .d_tag = needed ? DT_NEEDED : DT_DEBUG, .d_un.d_val = NEEDED },
		{ .d_tag = version ? DT_VERNEED : DT_DEBUG, .d_un.d_ptr = BASE + offsetof(struct linked, need) },
		{ .d_tag = definition ? DT_VERDEF : DT_DEBUG, .d_un.d_ptr = BASE + offsetof(struct linked, def) },
		{ .d_tag = DT_DEBUG, .d_un.d_val = RUNPATH }, // for a test to make DT_RUNPATH of it
	};
	memcpy(l.dyn, dyn, sizeof(dyn));
	strncpy(l.strings + NEEDED, needed ? needed : "", 31);
	strncpy(l.strings + VERSION, version ? version : "", 31);
	strncpy(l.strings + DEFINITION, definition ? definition : "", 31);
	return l;
}
