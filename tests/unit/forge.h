// SPDX-License-Identifier: Apache-2.0
// Kernel modules and kernel images made of bytes, so that tests need neither a compiler nor anybody's binaries.
#pragma once
#include "base/core/str.h"

#include <elf.h>
#include <stdio.h>

enum { FORGE_MAX = 32 };

struct forge_section {
	const char *name;
	uint32_t type;
	uint64_t addr;
	char *data;
	size_t len;
	uint32_t link, info;
	uint64_t flags;
};

struct forge {
	int type, machine;
	struct forge_section section[FORGE_MAX]; // 0 is the null section
	size_t count;
	char *symbols, *strings; // of the symbol table
	size_t symbols_len, strings_len;
};

static inline void forge_append(char **data, size_t *len, const void *more, size_t more_len)
{
	*data = mem_grow(*data, *len + more_len, 1);
	memcpy(*data + *len, more, more_len);
	*len += more_len;
}

static inline struct forge forge_new(int type, int machine)
{
	struct forge f = { .type = type, .machine = machine, .count = 1 };
	Elf64_Sym null = { 0 };
	forge_append(&f.symbols, &f.symbols_len, &null, sizeof(null));
	forge_append(&f.strings, &f.strings_len, "", 1);
	return f;
}

static inline size_t forge_section(struct forge *f, const char *name, uint64_t addr, const void *data, size_t len)
{
	struct forge_section *s = &f->section[f->count];
	*s = (struct forge_section){ .name = name, .type = SHT_PROGBITS, .addr = addr };
	forge_append(&s->data, &s->len, data, len);
	return f->count++;
}

static inline void forge_symbol(struct forge *f, const char *name, size_t section, uint64_t value, int bind)
{
	Elf64_Sym sym = { .st_name = (uint32_t)f->strings_len, .st_shndx = (uint16_t)section, .st_value = value };
	sym.st_info = (unsigned char)ELF64_ST_INFO(bind, STT_NOTYPE);
	forge_append(&f->symbols, &f->symbols_len, &sym, sizeof(sym));
	forge_append(&f->strings, &f->strings_len, name, strlen(name) + 1);
}

static inline void forge_table(struct forge *f, const char *name, uint32_t type, const char *data, size_t len,
			       size_t link)
{
	size_t i = forge_section(f, name, 0, data, len);
	f->section[i].type = type;
	f->section[i].link = (uint32_t)link;
}

// The file: header, section contents, names, section headers. Releases f.
static inline char *forge_end(struct forge *f, size_t *ret_len)
{
	Elf64_Ehdr h = { .e_type = (uint16_t)f->type, .e_machine = (uint16_t)f->machine, .e_version = EV_CURRENT };
	Elf64_Shdr sh[FORGE_MAX + 3] = { 0 };
	char *file = NULL, *names = NULL;
	size_t len = 0, names_len = 0;
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	h.e_ident[EI_VERSION] = EV_CURRENT;
	h.e_ehsize = sizeof(h);
	h.e_shentsize = sizeof(sh[0]);
	if (f->type == ET_REL) {
		forge_table(f, ".symtab", SHT_SYMTAB, f->symbols, f->symbols_len, f->count + 1);
		forge_table(f, ".strtab", SHT_STRTAB, f->strings, f->strings_len, 0);
	}
	forge_append(&file, &len, &h, sizeof(h));
	forge_append(&names, &names_len, "", 1);
	for (size_t i = 1; i < f->count; i++) {
		const struct forge_section *s = &f->section[i];
		sh[i] = (Elf64_Shdr){ .sh_name = (uint32_t)names_len, .sh_type = s->type, .sh_addr = s->addr };
		sh[i].sh_offset = len;
		sh[i].sh_size = s->len;
		sh[i].sh_link = s->link;
		sh[i].sh_info = s->info;
		sh[i].sh_flags = s->flags;
		forge_append(&names, &names_len, s->name, strlen(s->name) + 1);
		if (s->len)
			forge_append(&file, &len, s->data, s->len);
		free(s->data);
	}
	sh[f->count] = (Elf64_Shdr){ .sh_name = (uint32_t)names_len, .sh_type = SHT_STRTAB, .sh_offset = len };
	forge_append(&names, &names_len, ".shstrtab", sizeof(".shstrtab"));
	sh[f->count].sh_size = names_len;
	forge_append(&file, &len, names, names_len);
	forge_append(&file, &len, "\0\0\0\0\0\0\0", -len % 8);
	h.e_shoff = len;
	h.e_shnum = (uint16_t)(f->count + 1);
	h.e_shstrndx = (uint16_t)f->count;
	forge_append(&file, &len, sh, h.e_shnum * sizeof(sh[0]));
	memcpy(file, &h, sizeof(h));
	free(names);
	free(f->symbols);
	free(f->strings);
	*ret_len = len;
	return file;
}

struct forge_symver {
	const char *name;
	uint32_t crc;
	const char *namespace; // of an export; NULL = none
	bool is_gpl;
};

// A module in the shape that modpost gives it. Lists end with a NULL name.
struct forge_module {
	const char *name, *vermagic, *depends, *license;
	const char *extra;                  // more of .modinfo, NUL-separated, ended by an empty string; NULL = none
	int machine;                        // 0 = x86_64
	const struct forge_symver *imports; // with CRCs; module_layout among them is no symbol
	const struct forge_symver *exports;
	size_t struct_size; // 0 = 1152
	bool has_no_versions, has_btf;
	bool has_flags;           // exports as in 7.x: one table and a byte for each
	const Elf64_Rela *relocs; // of .text, which has 64 bytes
	size_t reloc_count;
};

static inline void forge_modinfo(char **info, size_t *len, const char *key, const char *value)
{
	if (!value)
		return;
	auto_str char *field = str_fmt("%s=%s", key, value);
	forge_append(info, len, field, strlen(field) + 1);
}

static inline void forge_exports(struct forge *f, const struct forge_symver *list, bool has_flags)
{
	char entries[2][12 * FORGE_MAX] = { 0 };
	char *crcs = NULL, *strings = NULL, flags[FORGE_MAX] = { 0 };
	size_t count = 0, crcs_len = 0, strings_len = 0;
	size_t plain = forge_section(f, "__ksymtab", 0, entries[0], sizeof(entries[0]));
	size_t gpl = forge_section(f, "__ksymtab_gpl", 0, entries[1], sizeof(entries[1]));
	for (const struct forge_symver *e = list; e->name; e++, count++) {
		auto_str char *entry = str_fmt("__ksymtab_%s", e->name);
		auto_str char *crc = str_fmt("__crc_%s", e->name);
		auto_str char *ns = str_fmt("__kstrtabns_%s", e->name);
		auto_str char *flag = str_fmt("__flags_%s", e->name);
		forge_symbol(f, entry, e->is_gpl && !has_flags ? gpl : plain, 12 * count, STB_LOCAL);
		if (has_flags)
			forge_symbol(f, flag, gpl + 3, count, STB_LOCAL);
		flags[count] = e->is_gpl;
		forge_symbol(f, crc, gpl + 1, crcs_len, STB_LOCAL);
		forge_symbol(f, ns, gpl + 2, strings_len, STB_LOCAL);
		forge_append(&crcs, &crcs_len, &e->crc, 4);
		forge_append(&strings, &strings_len, e->namespace ? e->namespace : "",
			     strlen(e->namespace ? e->namespace : "") + 1);
	}
	forge_section(f, "__kcrctab", 0, crcs, crcs_len);
	forge_section(f, "__ksymtab_strings", 0, strings, strings_len);
	if (has_flags)
		forge_section(f, "__kflagstab", 0, flags, count);
	free(crcs);
	free(strings);
}

static inline void forge_imports(struct forge *f, const struct forge_module *m)
{
	char *versions = NULL;
	size_t len = 0;
	for (const struct forge_symver *i = m->imports; i->name; i++) {
		char record[64] = { 0 };
		memcpy(record, &i->crc, 4);
		snprintf(record + 8, 56, "%s", i->name);
		if (i->crc) // modpost leaves out what has no CRC
			forge_append(&versions, &len, record, sizeof(record));
		if (!str_eq(i->name, "module_layout"))
			forge_symbol(f, i->name, SHN_UNDEF, 0, STB_GLOBAL);
	}
	if (!m->has_no_versions)
		forge_section(f, "__versions", 0, versions, len);
	free(versions);
}

static inline void forge_relocs(struct forge *f, const struct forge_module *m)
{
	static const char text[64];
	size_t at = forge_section(f, ".text", 0, text, sizeof(text));
	f->section[at].flags = SHF_ALLOC | SHF_EXECINSTR;
	forge_table(f, ".rela.text", SHT_RELA, (const char *)m->relocs, m->reloc_count * sizeof(*m->relocs), 0);
	f->section[at + 1].info = (uint32_t)at;
}

static inline char *forge_ko(const struct forge_module *m, size_t *ret_len)
{
	struct forge f = forge_new(ET_REL, m->machine ? m->machine : EM_X86_64);
	char *info = NULL;
	size_t len = 0, size = m->struct_size ? m->struct_size : 1152;
	forge_modinfo(&info, &len, "license", m->license ? m->license : "GPL");
	forge_modinfo(&info, &len, "depends", m->depends ? m->depends : "");
	forge_modinfo(&info, &len, "name", m->name);
	forge_modinfo(&info, &len, "vermagic", m->vermagic);
	for (const char *p = m->extra; p && *p; p += strlen(p) + 1)
		forge_append(&info, &len, p, strlen(p) + 1);
	forge_section(&f, ".modinfo", 0, info, len);
	char *self = mem_alloc(size);
	forge_section(&f, ".gnu.linkonce.this_module", 0, self, size);
	if (m->has_btf)
		forge_section(&f, ".BTF", 0, "\x9f\xeb", 2);
	if (m->imports)
		forge_imports(&f, m);
	if (m->exports)
		forge_exports(&f, m->exports, m->has_flags);
	if (m->relocs)
		forge_relocs(&f, m);
	free(info);
	free(self);
	return forge_end(&f, ret_len);
}

// ELF notes of a kernel: another one first, then its GNU build id of 20 bytes; as sys/kernel/notes has them, too.
enum { FORGE_NOTES = 12 + 4 + 8 + 12 + 4 + 20 };
static inline void forge_notes(const char *id, char ret[FORGE_NOTES])
{
	static const uint32_t xen[3] = { 4, 6, 18 }, gnu[3] = { 4, 20, NT_GNU_BUILD_ID };
	memset(ret, 0, FORGE_NOTES);
	memcpy(ret, xen, 12);
	memcpy(ret + 12, "Xen", 4);
	memcpy(ret + 24, gnu, 12);
	memcpy(ret + 36, "GNU", 4);
	if (id)
		memcpy(ret + 40, id, 20);
}

// An ELF kernel image with a banner and export tables; exports end with a NULL name. has_flags: as 7.x, one table and a
// byte for each symbol. id: its GNU build id, 20 bytes; NULL = none.
static inline char *forge_vmlinux_as(const char *banner, const struct forge_symver *exports, bool has_crcs,
				     bool has_flags, const char *id, size_t *ret_len)
{
	const uint64_t base = 0xffffffff81000000;
	const uint64_t text_at = base + 0x10000, table_at[2] = { base + 0x20000, base + 0x30000 };
	struct forge f = forge_new(ET_EXEC, EM_X86_64);
	char *strings = NULL, *table[2] = { 0 }, *crcs[2] = { 0 }, flags[FORGE_MAX] = { 0 };
	size_t strings_len = 0, table_len[2] = { 0 }, crcs_len[2] = { 0 }, count = 0;
	forge_append(&strings, &strings_len, "", 1);
	for (const struct forge_symver *e = exports; e->name; e++) {
		bool in = e->is_gpl && !has_flags;
		uint64_t at = table_at[in] + table_len[in];
		uint64_t name = text_at + strings_len;
		forge_append(&strings, &strings_len, e->name, strlen(e->name) + 1);
		uint64_t ns = e->namespace ? text_at + strings_len : text_at;
		if (e->namespace)
			forge_append(&strings, &strings_len, e->namespace, strlen(e->namespace) + 1);
		int32_t entry[3] = { 0, (int32_t)(name - (at + 4)), (int32_t)(ns - (at + 8)) };
		forge_append(&table[in], &table_len[in], entry, sizeof(entry));
		forge_append(&crcs[in], &crcs_len[in], &e->crc, 4);
		flags[count++] = e->is_gpl;
	}
	char notes[FORGE_NOTES];
	forge_notes(id, notes);
	forge_section(&f, ".rodata", base, banner, strlen(banner) + 1);
	forge_section(&f, ".notes", base + 0x70000, notes, id ? sizeof(notes) : 0);
	forge_section(&f, "__ksymtab_strings", text_at, strings, strings_len);
	forge_section(&f, "__ksymtab", table_at[0], table[0] ? table[0] : "", table_len[0]);
	if (has_flags)
		forge_section(&f, "__kflagstab", base + 0x60000, flags, count);
	else
		forge_section(&f, "__ksymtab_gpl", table_at[1], table[1] ? table[1] : "", table_len[1]);
	if (has_crcs) {
		forge_section(&f, "__kcrctab", base + 0x40000, crcs[0] ? crcs[0] : "", crcs_len[0]);
		if (!has_flags)
			forge_section(&f, "__kcrctab_gpl", base + 0x50000, crcs[1] ? crcs[1] : "", crcs_len[1]);
	}
	for (int i = 0; i < 2; i++) {
		free(table[i]);
		free(crcs[i]);
	}
	free(strings);
	return forge_end(&f, ret_len);
}

static inline char *forge_vmlinux(const char *banner, const struct forge_symver *exports, bool has_crcs,
				  size_t *ret_len)
{
	return forge_vmlinux_as(banner, exports, has_crcs, false, NULL, ret_len);
}

// An arm64 Image: a header, then the kernel's memory, in which its banner is somewhere.
static inline char *forge_arm64_image(const char *banner, size_t *ret_len)
{
	char head[64] = "MZ", memory[512] = { 0 };
	char *file = NULL;
	memcpy(head + 56, "ARM\x64", 4);
	*ret_len = 0;
	forge_append(&file, ret_len, head, sizeof(head));
	forge_append(&file, ret_len, memory, sizeof(memory));
	forge_append(&file, ret_len, banner, strlen(banner));
	forge_append(&file, ret_len, memory, sizeof(memory));
	return file;
}

// What UEFI starts: a header, the compressed image, and the unpacked size, which does not count.
static inline char *forge_zboot(const char *payload, size_t payload_len, size_t *ret_len)
{
	enum { START = 512 };
	char head[START] = "MZ";
	uint32_t offset = START, length = (uint32_t)payload_len, unpacked = 4711;
	char *file = NULL;
	memcpy(head + 4, "zimg", 4);
	memcpy(head + 8, &offset, 4);
	memcpy(head + 12, &length, 4);
	*ret_len = 0;
	forge_append(&file, ret_len, head, sizeof(head));
	forge_append(&file, ret_len, payload, payload_len);
	forge_append(&file, ret_len, &unpacked, 4);
	return file;
}

// The same as a bzImage: boot sector and header, then the payload and the unpacked size.
static inline char *forge_bzimage(const char *payload, size_t payload_len, size_t *ret_len)
{
	char setup[2 * 512] = { 0 };
	uint32_t offset = 16, length = (uint32_t)payload_len + 4, unpacked = 0;
	char *file = NULL, pad[16] = { 0 };
	setup[0x1f1] = 1;
	memcpy(setup + 0x1fe, "\x55\xaa", 2);
	memcpy(setup + 0x202, "HdrS\x0f\x02", 6);
	memcpy(setup + 0x248, &offset, 4);
	memcpy(setup + 0x24c, &length, 4);
	*ret_len = 0;
	forge_append(&file, ret_len, setup, sizeof(setup));
	forge_append(&file, ret_len, pad, sizeof(pad));
	forge_append(&file, ret_len, payload, payload_len);
	forge_append(&file, ret_len, &unpacked, 4);
	return file;
}
