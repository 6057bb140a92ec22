// SPDX-License-Identifier: Apache-2.0
// The few fields of ELF that this takes are at other places for each word size, and mean the same (elf.h of glibc).
#include "base/linker/soname.h"

#include "base/file/file.h"

#include <elf.h>
#include <fcntl.h>

enum { NAME_MAX_LEN = 255 };

struct shape {
	unsigned char class;
	size_t word, ehdr, phoff, phentsize, phnum, phdr, offset, vaddr, filesz;
};
#define SHAPE(bits, class_)                                                                                         \
	{                                                                                                           \
		.class = (class_), .word = (bits) / 8, .ehdr = sizeof(Elf##bits##_Ehdr),                            \
		.phoff = offsetof(Elf##bits##_Ehdr, e_phoff), .phentsize = offsetof(Elf##bits##_Ehdr, e_phentsize), \
		.phnum = offsetof(Elf##bits##_Ehdr, e_phnum), .phdr = sizeof(Elf##bits##_Phdr),                     \
		.offset = offsetof(Elf##bits##_Phdr, p_offset), .vaddr = offsetof(Elf##bits##_Phdr, p_vaddr),       \
		.filesz = offsetof(Elf##bits##_Phdr, p_filesz)                                                      \
	}
static const struct shape shapes[] = { SHAPE(32, ELFCLASS32), SHAPE(64, ELFCLASS64) };

struct image {
	const unsigned char *data;
	size_t len;
	const struct shape *shape;
	uint64_t phoff, phentsize, phnum;
};

void soname_done(struct soname *s)
{
	free(s->name);
	*s = (struct soname){ 0 };
}

static uint64_t read_le(const unsigned char *p, size_t bytes)
{
	uint64_t ret = 0;
	for (size_t i = bytes; i-- > 0;)
		ret = ret << 8 | p[i];
	return ret;
}

static bool is_in_image(const struct image *m, uint64_t at, uint64_t len)
{
	return at <= m->len && len <= m->len - at;
}

// A program header whose type is wanted; NULL = there is none after *from.
static const unsigned char *segment(const struct image *m, uint32_t type, uint64_t *from)
{
	for (; *from < m->phnum; ++*from) {
		uint64_t at = m->phoff + *from * m->phentsize;
		if (at < m->phoff || !is_in_image(m, at, m->shape->phdr))
			return NULL;
		if (read_le(m->data + at, sizeof(uint32_t)) == type)
			return m->data + at;
	}
	return NULL;
}

static uint64_t field(const struct image *m, const unsigned char *segment, size_t offset)
{
	return read_le(segment + offset, m->shape->word);
}

// Where in the file an address of the loaded library is. False = nowhere.
static bool file_offset(const struct image *m, uint64_t address, uint64_t *ret)
{
	const unsigned char *s;
	for (uint64_t i = 0; (s = segment(m, PT_LOAD, &i)); i++) {
		uint64_t start = field(m, s, m->shape->vaddr), size = field(m, s, m->shape->filesz);
		if (address < start || address - start >= size)
			continue;
		*ret = field(m, s, m->shape->offset) + (address - start);
		return true;
	}
	return false;
}

// An entry of the dynamic section at *at, which moves on. False = there is no more.
static bool next_entry(const struct image *m, uint64_t *at, uint64_t end, uint64_t *ret_tag, uint64_t *ret_value)
{
	size_t word = m->shape->word;
	if (*at >= end || !is_in_image(m, *at, 2 * word))
		return false;
	*ret_tag = read_le(m->data + *at, word);
	*ret_value = read_le(m->data + *at + word, word);
	*at += 2 * word;
	return *ret_tag != DT_NULL;
}

// The value of the first entry of this kind.
static bool find_entry(const struct image *m, const unsigned char *dynamic, uint64_t wanted, uint64_t *ret)
{
	uint64_t at = field(m, dynamic, m->shape->offset), end = at + field(m, dynamic, m->shape->filesz), tag;
	while (next_entry(m, &at, end, &tag, ret))
		if (tag == wanted)
			return true;
	return false;
}

// NULL = none that is usable.
static char *text_at(const struct image *m, uint64_t at, size_t most)
{
	if (!is_in_image(m, at, 1))
		return NULL;
	const char *text = (const char *)m->data + at;
	size_t left = m->len - (size_t)at, len = strnlen(text, left);
	return len && len < left && len <= most ? str_ndup(text, len) : NULL;
}

// Of the section's strings.
static char *dynamic_text(const struct image *m, const unsigned char *dynamic, uint64_t offset, size_t most)
{
	uint64_t strings, start;
	return find_entry(m, dynamic, DT_STRTAB, &strings) && file_offset(m, strings, &start) &&
			       start + offset >= start ?
		       text_at(m, start + offset, most) :
		       NULL;
}

// NULL = it has none, or one that is not usable.
static char *find_name(const struct image *m, const unsigned char *dynamic)
{
	uint64_t soname;
	auto_str char *name =
		find_entry(m, dynamic, DT_SONAME, &soname) ? dynamic_text(m, dynamic, soname, NAME_MAX_LEN) : NULL;
	return name && !strchr(name, '/') ? TAKE(name) : NULL;
}

// Type and machine lie at the same place for both word sizes.
static bool parse_image(const unsigned char *data, size_t len, struct image *ret)
{
	struct image m = { .data = data, .len = len };
	if (len < EI_NIDENT || memcmp(data, ELFMAG, SELFMAG) != 0 || data[EI_DATA] != ELFDATA2LSB)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		if (data[EI_CLASS] == shapes[i].class && len >= shapes[i].ehdr)
			m.shape = &shapes[i];
	if (!m.shape)
		return false;
	m.phoff = read_le(data + m.shape->phoff, m.shape->word);
	m.phentsize = read_le(data + m.shape->phentsize, sizeof(Elf64_Half));
	m.phnum = read_le(data + m.shape->phnum, sizeof(Elf64_Half));
	*ret = m;
	return true;
}

static int parse_library(const unsigned char *data, size_t len, struct soname *ret)
{
	struct image m;
	uint64_t first = 0;
	if (!parse_image(data, len, &m) || read_le(data + offsetof(Elf64_Ehdr, e_type), sizeof(Elf64_Half)) != ET_DYN)
		return 0;
	const unsigned char *dynamic = segment(&m, PT_DYNAMIC, &first);
	if (!dynamic)
		return 0;
	*ret = (struct soname){ .name = find_name(&m, dynamic),
				.machine =
					(unsigned)read_le(data + offsetof(Elf64_Ehdr, e_machine), sizeof(Elf64_Half)),
				.is_64 = m.shape->class == ELFCLASS64 };
	return 1;
}

int soname_read(int fd, const char *name, struct soname *ret, struct err *err)
{
	const void *map = NULL;
	size_t len = 0;
	if (file_map(fd, name, &map, &len, err) < 0)
		return -1;
	int r = map ? parse_library(map, len, ret) : 0;
	file_unmap(map, len);
	return r;
}

void linker_needs_done(struct needs *n)
{
	free(n->interpreter);
	free(n->runpath);
	strv_done(&n->libraries);
	strv_done(&n->versions);
	strv_done(&n->definitions);
	*n = (struct needs){ 0 };
}

enum { RECORDS_MAX = 512, TEXT_MAX = 4096 };

static uint64_t half_at(const struct image *m, uint64_t at)
{
	return read_le(m->data + at, sizeof(Elf64_Half));
}

static uint64_t word_at(const struct image *m, uint64_t at)
{
	return read_le(m->data + at, sizeof(Elf64_Word));
}

// Of one library: its name, then a chain of versions. Those that may be missing do not count.
static void add_wanted_versions(const struct image *m, const unsigned char *dynamic, uint64_t at, struct needs *ret)
{
	uint64_t aux = at + word_at(m, at + offsetof(Elf64_Verneed, vn_aux));
	auto_str char *library =
		dynamic_text(m, dynamic, word_at(m, at + offsetof(Elf64_Verneed, vn_file)), NAME_MAX_LEN);
	for (unsigned i = 0; library && i < RECORDS_MAX && is_in_image(m, aux, sizeof(Elf64_Vernaux)); i++) {
		uint64_t next = word_at(m, aux + offsetof(Elf64_Vernaux, vna_next));
		bool is_weak = half_at(m, aux + offsetof(Elf64_Vernaux, vna_flags)) & VER_FLG_WEAK;
		auto_str char *version =
			dynamic_text(m, dynamic, word_at(m, aux + offsetof(Elf64_Vernaux, vna_name)), NAME_MAX_LEN);
		if (version && !is_weak)
			strv_add(&ret->versions, str_fmt("%s:%s", library, version));
		if (!next)
			return;
		aux += next;
	}
}

static void add_definition(const struct image *m, const unsigned char *dynamic, uint64_t at, struct needs *ret)
{
	uint64_t aux = at + word_at(m, at + offsetof(Elf64_Verdef, vd_aux));
	if (!is_in_image(m, aux, sizeof(Elf64_Verdaux)))
		return;
	char *version = dynamic_text(m, dynamic, word_at(m, aux + offsetof(Elf64_Verdaux, vda_name)), NAME_MAX_LEN);
	if (version)
		strv_add(&ret->definitions, version);
}

// The records of versions mean the same for both word sizes.
static void add_versions(const struct image *m, const unsigned char *dynamic, struct needs *ret)
{
	uint64_t at, next = 1;
	bool is_there = find_entry(m, dynamic, DT_VERNEED, &at) && file_offset(m, at, &at);
	for (unsigned i = 0; is_there && next && i < RECORDS_MAX && is_in_image(m, at, sizeof(Elf64_Verneed)); i++) {
		add_wanted_versions(m, dynamic, at, ret);
		at += next = word_at(m, at + offsetof(Elf64_Verneed, vn_next));
	}
	is_there = find_entry(m, dynamic, DT_VERDEF, &at) && file_offset(m, at, &at);
	next = 1;
	for (unsigned i = 0; is_there && next && i < RECORDS_MAX && is_in_image(m, at, sizeof(Elf64_Verdef)); i++) {
		add_definition(m, dynamic, at, ret);
		at += next = word_at(m, at + offsetof(Elf64_Verdef, vd_next));
	}
}

static int parse_needs(const unsigned char *data, size_t len, struct needs *ret)
{
	struct image m;
	uint64_t first = 0, from = 0, value, tag;
	if (!parse_image(data, len, &m))
		return 0;
	const unsigned char *interpreter = segment(&m, PT_INTERP, &first), *dynamic = segment(&m, PT_DYNAMIC, &from);
	if (interpreter)
		ret->interpreter = text_at(&m, field(&m, interpreter, m.shape->offset), TEXT_MAX);
	if (!dynamic)
		return 1;
	uint64_t at = field(&m, dynamic, m.shape->offset), end = at + field(&m, dynamic, m.shape->filesz);
	for (unsigned i = 0; i < RECORDS_MAX && next_entry(&m, &at, end, &tag, &value); i++) {
		char *name = tag == DT_NEEDED ? dynamic_text(&m, dynamic, value, NAME_MAX_LEN) : NULL;
		if (name)
			strv_add(&ret->libraries, name);
	}
	if (find_entry(&m, dynamic, DT_RUNPATH, &value) || find_entry(&m, dynamic, DT_RPATH, &value))
		ret->runpath = dynamic_text(&m, dynamic, value, TEXT_MAX);
	add_versions(&m, dynamic, ret);
	return 1;
}

int linker_needs_read(int fd, const char *name, struct needs *ret, struct err *err)
{
	const void *map = NULL;
	size_t len = 0;
	*ret = (struct needs){ 0 };
	if (file_map(fd, name, &map, &len, err) < 0)
		return -1;
	int r = map ? parse_needs(map, len, ret) : 0;
	file_unmap(map, len);
	return r;
}

// Its own directories, Debian's for each architecture, and those of the other distributions.
static int open_library(const struct root *root, const struct needs *needs, const char *name)
{
	static const char own[] = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib/aarch64-linux-gnu:"
				  "/usr/lib/aarch64-linux-gnu:/lib/powerpc64le-linux-gnu:"
				  "/usr/lib/powerpc64le-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib";
	auto_strv struct strv dirs = { 0 };
	struct err ignored;
	if (needs->runpath)
		strv_split(&dirs, needs->runpath, ":");
	strv_split(&dirs, own, ":");
	for (size_t i = 0; i < dirs.count; i++) {
		auto_str char *path = *name == '/' ? str_dup(name) : str_fmt("%s/%s", dirs.items[i], name);
		struct stat st;
		int fd = root_open(root, path, O_RDONLY, &ignored);
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			return fd;
		close_fdp(&fd);
	}
	return -1;
}

int linker_missing(const struct root *root, const struct needs *needs, char **ret, const char **ret_library,
		   struct err *err)
{
	*ret = NULL;
	*ret_library = NULL;
	if (needs->runpath && strchr(needs->runpath, '$')) // of where the program itself is
		return 0;
	if (needs->interpreter && !root_exists(root, needs->interpreter)) {
		*ret = str_dup(needs->interpreter);
		return 0;
	}
	for (size_t i = 0; i < needs->libraries.count; i++) {
		const char *name = needs->libraries.items[i];
		auto_fd int fd = open_library(root, needs, name);
		auto_needs struct needs of = { 0 };
		if (fd < 0) {
			*ret = str_dup(name);
			*ret_library = name;
			return 0;
		}
		if (linker_needs_read(fd, name, &of, err) < 0)
			return -1;
		for (size_t k = 0; k < needs->versions.count; k++) {
			const char *wanted = needs->versions.items[k], *version = strchr(wanted, ':') + 1;
			size_t len = strlen(name);
			if (strncmp(wanted, name, len) != 0 || wanted[len] != ':' || !of.definitions.count ||
			    strv_has(&of.definitions, version))
				continue;
			*ret = str_fmt("%s of %s", version, name);
			return 0;
		}
	}
	return 0;
}
