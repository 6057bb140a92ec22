// SPDX-License-Identifier: Apache-2.0
#include "kmod/module/elf.h"

#include "base/archive/archive.h"
#include "base/file/file.h"
#include "kmod/module/sections.h"
#include "kmod/module/versions.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
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

static int check_relocation_table(const struct sections *s, const struct section *table, size_t symbols,
				  const char *file, struct err *err)
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

// Where a module's relocations write, by the rules of the kernel's kernel/module/main.c (apply_relocations) and
// arch/{x86,arm64}/kernel/module.c. The kernel itself does not check: a relocation that points out of its section is a
// write to wherever that is, an oops at best. Of x86-64 and aarch64; other machines' are not checked.
static int check_relocations(const struct sections *s, const char *file, struct err *err)
{
	size_t symbols = 0;
	if (s->machine != EM_X86_64 && s->machine != EM_AARCH64)
		return 0;
	for (size_t i = s->count; i-- > 1;) // the first table counts
		symbols = s->items[i].type == SHT_SYMTAB ? s->items[i].size / sizeof(Elf64_Sym) : symbols;
	for (size_t i = 1; i < s->count; i++) {
		const struct section *table = &s->items[i];
		// The kernel applies none to what it does not load: debug information, notes of the compiler.
		bool is_applied =
			table->type == SHT_RELA && table->info < s->count && (s->items[table->info].flags & SHF_ALLOC);
		if (is_applied && check_relocation_table(s, table, symbols, file, err) < 0)
			return -1;
	}
	return 0;
}

enum { IMAGE_MAX = 1 << 30 };
// struct module: enum state, padding, list_head, then the name
enum { STRUCT_NAME = 24, STRUCT_NAME_LEN = 56 };

bool module_name_eq(const char *a, const char *b)
{
	if (!a || !b)
		return false;
	for (; *a && *b; a++, b++) {
		if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
			return false;
	}
	return *a == *b;
}

char *module_kernel_name(const char *name)
{
	char *ret = str_dup(name);
	for (char *p = ret; *p; p++)
		*p = *p == '-' ? '_' : *p;
	return ret;
}

bool module_is_gpl(const struct module *module)
{
	static const char *const gpl[] = { "GPL",          "GPL v2",       "GPL and additional rights",
					   "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL" };
	for (size_t i = 0; i < ARRAY_SIZE(gpl); i++) {
		if (str_eq(module->license, gpl[i]))
			return true;
	}
	return false;
}

static void take_field(struct module *m, const char *key, size_t key_len, const char *value)
{
	const struct {
		const char *key;
		const char **value;
	} fields[] = {
		{ "name", &m->name },         { "version", &m->version }, { "srcversion", &m->srcversion },
		{ "vermagic", &m->vermagic }, { "license", &m->license },
	};
	const struct {
		const char *key;
		struct strv *values;
	} lists[] = { { "firmware", &m->firmware }, { "import_ns", &m->import_ns }, { "alias", &m->aliases } };

	// The kernel takes the first of several; import_ns, firmware and alias may be repeated.
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (strlen(fields[i].key) == key_len && memcmp(fields[i].key, key, key_len) == 0 && !*fields[i].value)
			*fields[i].value = value;
	}
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		if (strlen(lists[i].key) == key_len && memcmp(lists[i].key, key, key_len) == 0)
			strv_add(lists[i].values, str_dup(value));
	}
	if (key_len == 7 && memcmp(key, "depends", 7) == 0 && !m->depends.count)
		strv_split(&m->depends, value, ",");
	if (key_len == 8 && memcmp(key, "parmtype", 8) == 0)
		strv_add(&m->params, str_ndup(value, strcspn(value, ":")));
	if (key_len == 6 && memcmp(key, "intree", 6) == 0)
		m->is_intree = str_eq(value, "Y");
}

static int read_modinfo(struct module *m, const struct sections *s, struct err *err)
{
	const struct section *info = sections_find(s, ".modinfo");
	if (!info || !info->size)
		return err_set(err, E_ELF, "'%s' is not a kernel module: it has no .modinfo", m->file);
	const char *text = (const char *)info->data, *end = text + info->size;
	if (end[-1] != '\0')
		return err_set(err, E_ELF, "'%s': the last string of .modinfo does not end", m->file);
	for (; text < end; text += strlen(text) + 1) {
		const char *equals = strchr(text, '=');
		if (equals)
			take_field(m, text, (size_t)(equals - text), equals + 1);
	}
	return 0;
}

// Every object leaves a string; anything else is ignored.
static void read_comment(struct module *m, const struct sections *s)
{
	enum { MOST = 16 };
	const struct section *comment = sections_find(s, ".comment");
	const char *at = comment ? (const char *)comment->data : NULL, *end = at ? at + comment->size : NULL;
	while (at < end && m->compilers.count < MOST) {
		size_t len = strnlen(at, (size_t)(end - at));
		auto_str char *text = str_ndup(at, len);
		if (*text && !strv_has(&m->compilers, text))
			strv_add(&m->compilers, TAKE(text));
		at += len + 1;
	}
}

static int read_struct(struct module *m, const struct sections *s, struct err *err)
{
	const struct section *self = sections_find(s, ".gnu.linkonce.this_module");
	if (!self || !self->size)
		return err_set(err, E_ELF, "'%s' is not a kernel module: it has no .gnu.linkonce.this_module", m->file);
	m->struct_size = self->size;
	if (!m->name && self->size >= STRUCT_NAME + STRUCT_NAME_LEN && self->data[STRUCT_NAME] != '\0' &&
	    memchr(self->data + STRUCT_NAME, '\0', STRUCT_NAME_LEN))
		m->name = (const char *)self->data + STRUCT_NAME;
	if (!m->name)
		return err_set(err, E_ELF, "'%s' does not state its module name", m->file);
	// It becomes a directory name below /sys/module, here as in the kernel.
	size_t len = strspn(m->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
	if (!len || m->name[len] || len >= STRUCT_NAME_LEN)
		return err_set(err, E_ELF, "'%s': '%.60s' is not a valid module name", m->file, m->name);
	return 0;
}

struct symbol {
	const char *name;
	uint64_t value;
	uint16_t section; // SHN_UNDEF, SHN_ABS or an index that is in range
	bool is_weak;
};

// One pass over the symbol table takes imports at once, and exports as marks of several kinds that are joined
// afterwards.
struct mark {
	const char *name; // of the exported symbol
	enum { MARK_ENTRY, MARK_CRC, MARK_NAMESPACE, MARK_FLAGS } kind;
	struct symbol symbol;
};

struct scan {
	struct module *module;
	const struct versions *versions;
	struct mark *marks;
	size_t mark_count, mark_room, import_room;
};

static void add_import(struct scan *scan, const struct symbol *symbol)
{
	struct module *m = scan->module;
	if (!*symbol->name || str_eq(symbol->name, "_GLOBAL_OFFSET_TABLE_"))
		return;
	if (m->import_count == scan->import_room) {
		scan->import_room = scan->import_room ? 2 * scan->import_room : 256;
		m->imports = mem_grow(m->imports, scan->import_room, sizeof(*m->imports));
	}
	struct module_import import = { .name = symbol->name, .is_weak = symbol->is_weak };
	import.has_crc = versions_find(scan->versions, symbol->name, &import.crc) > 0;
	m->imports[m->import_count++] = import;
}

static void add_mark(struct scan *scan, const struct symbol *symbol)
{
	static const char *const prefix[] = {
		[MARK_ENTRY] = "__ksymtab_",
		[MARK_CRC] = "__crc_",
		[MARK_NAMESPACE] = "__kstrtabns_",
		[MARK_FLAGS] = "__flags_",
	};
	for (size_t i = 0; i < ARRAY_SIZE(prefix); i++) {
		if (!str_starts(symbol->name, prefix[i]))
			continue;
		if (scan->mark_count == scan->mark_room) {
			scan->mark_room = scan->mark_room ? 2 * scan->mark_room : 256;
			scan->marks = mem_grow(scan->marks, scan->mark_room, sizeof(*scan->marks));
		}
		scan->marks[scan->mark_count++] =
			(struct mark){ .name = symbol->name + strlen(prefix[i]), .kind = (int)i, .symbol = *symbol };
	}
}

static int mark_cmp(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;
	int r = strcmp(x->name, y->name);
	return r ? r : (int)x->kind - (int)y->kind;
}

static int scan_symbols(struct scan *scan, const struct sections *s, struct err *err)
{
	const char *file = scan->module->file;
	const struct section *table = s->items + 1, *end = s->items + s->count;
	while (table < end && table->type != SHT_SYMTAB)
		table++;
	if (table >= end)
		return err_set(err, E_ELF, "'%s' has no symbol table", file);
	const struct section *names = table->link < s->count ? &s->items[table->link] : NULL;
	if (!names || names->type != SHT_STRTAB || !names->size || names->data[names->size - 1] != '\0')
		return err_set(err, E_ELF, "'%s': the symbol table has no names", file);
	for (size_t i = 1; i < table->size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym sym;
		memcpy(&sym, table->data + i * sizeof(sym), sizeof(sym));
		if (sym.st_name >= names->size)
			return err_set(err, E_ELF, "'%s': the name of symbol %zu lies outside of the names", file, i);
		if (sym.st_shndx >= s->count && sym.st_shndx < SHN_LORESERVE)
			return err_set(err, E_ELF, "'%s': symbol %zu is in section %u of %zu", file, i, sym.st_shndx,
				       s->count);
		const struct symbol symbol = {
			.name = (const char *)names->data + sym.st_name,
			.value = sym.st_value,
			.section = sym.st_shndx,
			.is_weak = ELF64_ST_BIND(sym.st_info) == STB_WEAK,
		};
		if (symbol.section == SHN_UNDEF)
			add_import(scan, &symbol);
		else
			add_mark(scan, &symbol);
	}
	return 0;
}

static const struct section *section_of(const struct sections *s, const struct symbol *symbol)
{
	return symbol->section < s->count ? &s->items[symbol->section] : NULL;
}

// Takes one property of an export from the place that its mark points to.
static int read_mark(const struct module *m, const struct sections *s, const struct mark *mark, struct symver *ret,
		     struct err *err)
{
	enum { FLAG_GPL_ONLY = 1 };
	const struct section *in = section_of(s, &mark->symbol);
	uint64_t at = mark->symbol.value;
	switch (mark->kind) {
	case MARK_ENTRY:
		return 0;
	case MARK_CRC: // the value of an absolute symbol, or a word in a section (since 5.19)
		ret->has_crc = true;
		if (mark->symbol.section == SHN_ABS) {
			ret->crc = (uint32_t)at;
			return 0;
		}
		if (!in || in->size < 4 || at > in->size - 4)
			return err_set(err, E_ELF, "'%s': the CRC of '%s' is outside of its section", m->file,
				       mark->name);
		ret->crc = le32(in->data + at);
		return 0;
	case MARK_NAMESPACE:
		if (!in || at >= in->size || !memchr(in->data + at, '\0', in->size - at))
			return err_set(err, E_ELF, "'%s': the namespace of '%s' is outside of its section", m->file,
				       mark->name);
		ret->namespace = (const char *)in->data + at;
		return 0;
	case MARK_FLAGS: // GPL-only: the export's table says so, or (7.x) a byte of its own
		if (!in || !str_eq(in->name, "__kflagstab")) // a function may have such a name
			return 0;
		if (at >= in->size)
			return err_set(err, E_ELF, "'%s': the flags of '%s' are outside of their section", m->file,
				       mark->name);
		ret->is_gpl = in->data[at] & FLAG_GPL_ONLY;
		return 0;
	}
	return 0;
}

static int join_marks(const struct scan *scan, const struct sections *s, struct err *err)
{
	struct module *m = scan->module;
	m->exports = symvers_new();
	for (size_t i = 0, next; i < scan->mark_count; i = next) {
		const struct mark *first = &scan->marks[i];
		const struct section *in = section_of(s, &first->symbol);
		struct symver symbol = { .name = first->name, .owner = m->name, .namespace = "" };
		symbol.is_gpl = in && in->name && strstr(in->name, "_gpl");
		for (next = i; next < scan->mark_count && str_eq(scan->marks[next].name, first->name); next++) {
			if (read_mark(m, s, &scan->marks[next], &symbol, err) < 0)
				return -1;
		}
		if (first->kind == MARK_ENTRY)
			symvers_add(m->exports, &symbol);
	}
	return 0;
}

static int read_symbols(struct module *m, const struct sections *s, struct err *err)
{
	auto_versions struct versions versions = { 0 };
	struct scan scan = { .module = m, .versions = &versions };
	const struct section *crcs = sections_find(s, "__version_ext_crcs"),
			     *names = sections_find(s, "__version_ext_names"), *basic = sections_find(s, "__versions");
	int r = 0;
	if (crcs && names)
		r = versions_parse_extended(crcs->data, crcs->size, names->data, names->size, &versions, err);
	else if (basic)
		r = versions_parse(basic->data, basic->size, &versions, err);
	if (r < 0)
		return err_wrap(err, "'%s'", m->file);
	m->has_versions = versions.count > 0;
	m->has_layout = versions_find(&versions, "module_layout", &m->layout_crc) > 0;
	r = scan_symbols(&scan, s, err);
	if (r == 0) {
		if (scan.mark_count)
			qsort(scan.marks, scan.mark_count, sizeof(*scan.marks), mark_cmp);
		r = join_marks(&scan, s, err);
	}
	free(scan.marks);
	return r;
}

// m has file, data and len.
static int parse_image(struct module *m, struct err *err)
{
	auto_sections struct sections s = { 0 };
	modsig_read(m->data, m->len, &m->sig);
	if (sections_read(m->data, m->sig.payload, m->file, &s, err) < 0)
		return -1;
	if (s.type != ET_REL)
		return err_set(err, E_ELF, "'%s' is not a kernel module: ELF type %d", m->file, s.type);
	m->machine = s.machine;
	m->has_btf = sections_find(&s, ".BTF") && !sections_find(&s, ".BTF.base");
	if (read_modinfo(m, &s, err) < 0 || read_struct(m, &s, err) < 0 || check_relocations(&s, m->file, err) < 0)
		return -1;
	read_comment(m, &s);
	return read_symbols(m, &s, err);
}

static bool is_compressed(const char *data, size_t len)
{
	static const struct {
		const char *magic;
		size_t len;
	} known[] = { { "\x1f\x8b", 2 },
		      { "\xfd"
			"7zXZ",
			6 },
		      { "\x28\xb5\x2f\xfd", 4 } };
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (len >= known[i].len && memcmp(data, known[i].magic, known[i].len) == 0)
			return true;
	}
	return false;
}

int module_read(int fd, const char *file, struct module *ret, struct err *err)
{
	auto_module struct module m = { .file = str_dup(file), .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), .is_mapped = true };
	const void *map;
	if (m.fd < 0)
		return err_set(err, errno, "read '%s'", file);
	if (file_map(m.fd, file, &map, &m.len, err) < 0)
		return -1;
	m.data = map;
	if (is_compressed(m.data, m.len)) {
		char *image;
		size_t len;
		if (archive_inflate(m.data, m.len, IMAGE_MAX, &image, &len, err) < 0) {
			err_wrap(err, "'%s'", file);
			return err_code(err, E_ELF);
		}
		return module_parse(image, len, file, ret, err);
	}
	if (parse_image(&m, err) < 0)
		return -1;
	*ret = m;
	m = MODULE_NONE;
	return 0;
}

int module_parse(char *data, size_t len, const char *file, struct module *ret, struct err *err)
{
	auto_module struct module m = { .file = str_dup(file), .fd = -1, .data = data, .len = len };
	if (parse_image(&m, err) < 0)
		return -1;
	*ret = m;
	m = MODULE_NONE;
	return 0;
}

void module_done(struct module *m)
{
	if (m->fd >= 0)
		close(m->fd);
	if (m->is_mapped)
		file_unmap(m->data, m->len);
	else
		free((char *)(uintptr_t)m->data);
	free(m->file);
	free(m->imports);
	strv_done(&m->depends);
	strv_done(&m->aliases);
	strv_done(&m->firmware);
	strv_done(&m->import_ns);
	strv_done(&m->params);
	strv_done(&m->compilers);
	symvers_free(m->exports);
	modsig_done(&m->sig);
	*m = MODULE_NONE;
}
