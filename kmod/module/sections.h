// SPDX-License-Identifier: Apache-2.0
// The sections of a 64-bit little-endian ELF file in memory, every offset checked.
#pragma once
#include "base/core/err.h"

struct section {
	const char *name;
	const unsigned char *data; // NULL: occupies no space in the file
	size_t size;               // of data; 0 without
	uint64_t addr;
	uint32_t type; // SHT_...
	uint32_t link, info;
	uint64_t flags;       // SHF_...
	uint64_t memory_size; // also of a section without data
};

struct sections {
	struct section *items; // index 0 is the null section
	size_t count;
	int type;    // ET_REL, ET_EXEC, ...
	int machine; // EM_...
};

// Strings and data are borrowed from data. E_ELF with the place; E_ARCH for other classes and byte orders.
int sections_read(const void *data, size_t len, const char *file, struct sections *ret, struct err *err);
const struct section *sections_find(const struct sections *s, const char *name); // the first one; NULL = none
void sections_done(struct sections *s);
#define auto_sections __attribute__((cleanup(sections_done)))

static inline uint32_t le32(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint16_t le16(const unsigned char *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}
