// SPDX-License-Identifier: Apache-2.0
// What a kernel exports: symbol -> CRC, owner, kind, namespace. Filled from Module.symvers (plain, gzip, xz, zstd),
// from a kernel image (kmod/module/vmlinuz.h) or from modules (kmod/module/elf.h); looked up by name through a hash.
#pragma once
#include "base/core/err.h"

struct symver {
	const char *name;
	const char *owner;     // "vmlinux", or a module: "nvidia", "drivers/gpu/drm/drm"
	const char *namespace; // "" = none
	uint32_t crc;
	bool has_crc; // false: exported, CRC not known (a kernel without modversions)
	bool is_gpl;  // only for modules with a GPL-compatible licence
};

struct symvers {
	struct symver *items; // in the order of adding
	size_t count, room;
	uint32_t *slots;   // index + 1; 0 = free
	size_t slot_count; // a power of two, at least twice count
	struct block *blocks;
};
struct symvers *symvers_new(void);
void symvers_free(struct symvers *sv); // NULL is fine
static inline void symvers_freep(struct symvers **sv)
{
	symvers_free(*sv);
}
#define auto_symvers __attribute__((cleanup(symvers_freep)))

// Copies the strings. A name that is there already stays as it is: what was added first wins.
void symvers_add(struct symvers *sv, const struct symver *symbol);
void symvers_add_all(struct symvers *sv, const struct symvers *from); // from may be NULL
// Text of Module.symvers: CRC, symbol, owner, kind and (since 5.4) namespace, separated by tabs. name is for
// messages. A malformed line is E_HEADERS_MISMATCH with its number, and nothing is added.
int symvers_add_text(struct symvers *sv, const char *text, size_t len, const char *name, struct err *err);
// From a file, compressed or not.
int symvers_add_file(struct symvers *sv, int fd, const char *name, struct err *err);

const struct symver *symvers_find(const struct symvers *sv, const char *name); // NULL = not exported
