// SPDX-License-Identifier: Apache-2.0
// A header and an array of section headers, each copied because nothing promises its alignment in a file. What lies
// outside of the file is refused, as the kernel refuses it.
#include "kmod/module/sections.h"

#include <elf.h>
#include <inttypes.h>

static int read_header(const void *data, size_t len, const char *file, Elf64_Ehdr *ret, struct err *err)
{
	const unsigned char *ident = data;
	if (len < EI_NIDENT || memcmp(ident, ELFMAG, SELFMAG) != 0 || ident[EI_VERSION] != EV_CURRENT ||
	    ident[EI_CLASS] == ELFCLASSNONE || ident[EI_CLASS] >= ELFCLASSNUM || ident[EI_DATA] == ELFDATANONE ||
	    ident[EI_DATA] >= ELFDATANUM)
		return err_set(err, E_ELF, "'%s' is not an ELF file", file);
	if (ident[EI_CLASS] != ELFCLASS64)
		return err_set(err, E_ARCH, "'%s' is not a 64-bit file", file);
	if (len < sizeof(*ret))
		return err_set(err, E_ELF, "'%s': the ELF header is truncated: the file has %zu bytes", file, len);
	if (ident[EI_DATA] != ELFDATA2LSB)
		return err_set(err, E_ARCH, "'%s' is big-endian", file);
	memcpy(ret, data, sizeof(*ret));
	if (ret->e_shnum == 0 || ret->e_shentsize != sizeof(Elf64_Shdr))
		return err_set(err, E_ELF, "'%s' has no section headers", file);
	if (ret->e_shoff > len || (len - ret->e_shoff) / sizeof(Elf64_Shdr) < ret->e_shnum)
		return err_set(err, E_ELF, "'%s': section headers run past the end of the file at %zu", file, len);
	if (ret->e_shstrndx == SHN_UNDEF || ret->e_shstrndx >= ret->e_shnum)
		return err_set(err, E_ELF, "'%s': section names are in section %u of %u", file, ret->e_shstrndx,
			       ret->e_shnum);
	return 0;
}

static Elf64_Shdr header_at(const char *data, const Elf64_Ehdr *h, size_t index)
{
	Elf64_Shdr sh;
	memcpy(&sh, data + h->e_shoff + index * sizeof(sh), sizeof(sh));
	return sh;
}

static int take_section(const Elf64_Shdr *sh, size_t index, const char *data, size_t len, const char *file,
			struct section *ret, struct err *err)
{
	*ret = (struct section){ .addr = sh->sh_addr,
				 .type = sh->sh_type,
				 .link = sh->sh_link,
				 .info = sh->sh_info,
				 .flags = sh->sh_flags,
				 .memory_size = sh->sh_size };
	if (index == 0 || sh->sh_type == SHT_NOBITS || sh->sh_type == SHT_NULL)
		return 0;
	if (sh->sh_offset > len || len - sh->sh_offset < sh->sh_size)
		return err_set(err, E_ELF,
			       "'%s': section %zu (%" PRIu64 " bytes at %" PRIu64
			       ") runs past the end of the file at %zu",
			       file, index, sh->sh_size, sh->sh_offset, len);
	ret->data = (const unsigned char *)data + sh->sh_offset;
	ret->size = sh->sh_size;
	return 0;
}

static bool is_string_table(const struct section *s)
{
	return s->type == SHT_STRTAB && s->size > 0 && s->data[s->size - 1] == '\0';
}

int sections_read(const void *data, size_t len, const char *file, struct sections *ret, struct err *err)
{
	Elf64_Ehdr h;
	if (read_header(data, len, file, &h, err) < 0)
		return -1;
	auto_sections struct sections s = { .count = h.e_shnum, .type = h.e_type, .machine = h.e_machine };
	s.items = mem_alloc(s.count * sizeof(*s.items));
	for (size_t i = 0; i < s.count; i++) {
		Elf64_Shdr sh = header_at(data, &h, i);
		if (take_section(&sh, i, data, len, file, &s.items[i], err) < 0)
			return -1;
	}
	const struct section *names = &s.items[h.e_shstrndx];
	if (!is_string_table(names))
		return err_set(err, E_ELF, "'%s': the section names are not a string table", file);
	for (size_t i = 0; i < s.count; i++) {
		Elf64_Shdr sh = header_at(data, &h, i);
		if (sh.sh_name >= names->size)
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
