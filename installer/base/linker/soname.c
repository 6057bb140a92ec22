// SPDX-License-Identifier: Apache-2.0
// The few fields of ELF that this takes are at other places for each word size, and mean the same (elf.h of glibc).
#include "base/linker/soname.h"

#include "base/file/file.h"

#include <elf.h>

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

// NULL = it has none, or one that is not usable.
static char *find_name(const struct image *m, const unsigned char *dynamic)
{
	size_t word = m->shape->word;
	uint64_t soname = 0, strings = 0, start;
	bool has_soname = false;
	uint64_t at = field(m, dynamic, m->shape->offset), size = field(m, dynamic, m->shape->filesz);
	for (uint64_t end = at + size; at < end && is_in_image(m, at, 2 * word); at += 2 * word) {
		uint64_t tag = read_le(m->data + at, word), value = read_le(m->data + at + word, word);
		if (tag == DT_NULL)
			break;
		if (tag == DT_STRTAB)
			strings = value;
		if (tag == DT_SONAME) {
			has_soname = true;
			soname = value;
		}
	}
	if (!has_soname || !file_offset(m, strings, &start) || start + soname < start ||
	    !is_in_image(m, start + soname, 1))
		return NULL;
	const char *name = (const char *)m->data + start + soname;
	size_t left = m->len - (size_t)(start + soname), len = strnlen(name, left);
	return len && len < left && len <= NAME_MAX_LEN && !memchr(name, '/', len) ? str_ndup(name, len) : NULL;
}

// Type and machine lie at the same place for both word sizes.
static int parse_library(const unsigned char *data, size_t len, struct soname *ret)
{
	struct image m = { .data = data, .len = len };
	if (len < EI_NIDENT || memcmp(data, ELFMAG, SELFMAG) != 0 || data[EI_DATA] != ELFDATA2LSB)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		if (data[EI_CLASS] == shapes[i].class && len >= shapes[i].ehdr)
			m.shape = &shapes[i];
	if (!m.shape || read_le(data + offsetof(Elf64_Ehdr, e_type), sizeof(Elf64_Half)) != ET_DYN)
		return 0;
	m.phoff = read_le(data + m.shape->phoff, m.shape->word);
	m.phentsize = read_le(data + m.shape->phentsize, sizeof(Elf64_Half));
	m.phnum = read_le(data + m.shape->phnum, sizeof(Elf64_Half));
	uint64_t first = 0;
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
