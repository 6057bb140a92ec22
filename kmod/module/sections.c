// SPDX-License-Identifier: Apache-2.0
// libelf interprets the headers; that a section lies inside the file and that its names end is checked here, because
// libelf promises neither for a damaged file and the kernel refuses both.
#include "kmod/module/sections.h"

#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>

static void end_elfp(Elf **elf)
{
	elf_end(*elf);
}
#define auto_elf __attribute__((cleanup(end_elfp)))

static int check_header(Elf *elf, size_t len, const char *file, GElf_Ehdr *h, struct err *err)
{
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return err_set(err, E_ELF, "'%s' is not an ELF file", file);
	if (gelf_getclass(elf) != ELFCLASS64)
		return err_set(err, E_ARCH, "'%s' is not a 64-bit file", file);
	if (!gelf_getehdr(elf, h))
		return err_set(err, E_ELF, "'%s': the ELF header is truncated: the file has %zu bytes", file, len);
	if (h->e_ident[EI_DATA] != ELFDATA2LSB)
		return err_set(err, E_ARCH, "'%s' is big-endian", file);
	if (h->e_shnum == 0 || h->e_shentsize != sizeof(Elf64_Shdr))
		return err_set(err, E_ELF, "'%s' has no section headers", file);
	if (h->e_shoff > len || (len - h->e_shoff) / sizeof(Elf64_Shdr) < h->e_shnum)
		return err_set(err, E_ELF, "'%s': section headers run past the end of the file at %zu", file, len);
	if (h->e_shstrndx == SHN_UNDEF || h->e_shstrndx >= h->e_shnum)
		return err_set(err, E_ELF, "'%s': section names are in section %u of %u", file, h->e_shstrndx,
			       h->e_shnum);
	return 0;
}

static int take_section(Elf *elf, size_t index, const char *data, size_t len, const char *file, struct section *ret,
			struct err *err)
{
	GElf_Shdr sh;
	Elf_Scn *scn = elf_getscn(elf, index);
	if (!scn || !gelf_getshdr(scn, &sh))
		return err_set(err, E_ELF, "'%s': section header %zu cannot be read", file, index);
	*ret = (struct section){ .addr = sh.sh_addr,
				 .type = sh.sh_type,
				 .link = sh.sh_link,
				 .info = sh.sh_info,
				 .flags = sh.sh_flags,
				 .memory_size = sh.sh_size };
	if (index == 0 || sh.sh_type == SHT_NOBITS || sh.sh_type == SHT_NULL)
		return 0;
	if (sh.sh_offset > len || len - sh.sh_offset < sh.sh_size)
		return err_set(err, E_ELF,
			       "'%s': section %zu (%" PRIu64 " bytes at %" PRIu64
			       ") runs past the end of the file at %zu",
			       file, index, sh.sh_size, sh.sh_offset, len);
	ret->data = (const unsigned char *)data + sh.sh_offset;
	ret->size = sh.sh_size;
	return 0;
}

static bool is_string_table(const struct section *s)
{
	return s->type == SHT_STRTAB && s->size > 0 && s->data[s->size - 1] == '\0';
}

int sections_read(const void *data, size_t len, const char *file, struct sections *ret, struct err *err)
{
	GElf_Ehdr h;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return err_set(err, E_SYSTEM, "libelf is older than its header");
	auto_elf Elf *elf = elf_memory((char *)(uintptr_t)data, len); // read-only in spite of its type
	if (check_header(elf, len, file, &h, err) < 0)
		return -1;
	auto_sections struct sections s = { .count = h.e_shnum, .type = h.e_type, .machine = h.e_machine };
	s.items = mem_alloc(s.count * sizeof(*s.items));
	for (size_t i = 0; i < s.count; i++) {
		if (take_section(elf, i, data, len, file, &s.items[i], err) < 0)
			return -1;
	}
	const struct section *names = &s.items[h.e_shstrndx];
	if (!is_string_table(names))
		return err_set(err, E_ELF, "'%s': the section names are not a string table", file);
	for (size_t i = 0; i < s.count; i++) {
		GElf_Shdr sh;
		if (!gelf_getshdr(elf_getscn(elf, i), &sh) || sh.sh_name >= names->size)
			return err_set(err, E_ELF, "'%s': the name of section %zu lies outside of the names", file, i);
		s.items[i].name = (const char *)names->data + sh.sh_name;
	}
	*ret = s;
	s = (struct sections){ 0 };
	return 0;
}

const struct section *sections_find(const struct sections *s, const char *name)
{
	for (size_t i = 1; i < s->count; i++) {
		if (str_eq(s->items[i].name, name))
			return &s->items[i];
	}
	return NULL;
}

void sections_done(struct sections *s)
{
	free(s->items);
	*s = (struct sections){ 0 };
}
