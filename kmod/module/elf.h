// SPDX-License-Identifier: Apache-2.0
// One kernel module file, parsed: what it is, what it imports, what it exports.
//
// Files are untrusted: every offset is checked, and what is inconsistent is E_ELF with the place. Files compressed with
// gzip, xz or zstd are inflated here, because not every kernel does and because a signature is inside. Known sizes:
// 64-bit little-endian modules; others are E_ARCH.
#pragma once
#include "kmod/module/modsig.h"
#include "kmod/module/symvers.h"

struct module_import {
	const char *name;
	uint32_t crc;
	bool has_crc; // false: the module records none for it
	bool is_weak; // may stay unresolved
};

struct module {
	char *file;       // for messages
	int fd;           // of the file as it is on disk, owned; -1 when it had to be inflated
	const char *data; // the uncompressed image, signature included
	size_t len;
	bool is_mapped; // from fd, and not allocated

	// Of .modinfo, borrowed from data; NULL = absent. name has underscores, as the kernel knows it.
	const char *name, *version, *srcversion, *vermagic, *license;
	bool is_intree;
	struct strv depends; // module names as modpost wrote them: compare with module_name_eq
	struct strv firmware;
	struct strv aliases;   // of the devices that it drives, as modprobe knows them
	struct strv import_ns; // namespaces of symbols that it may use
	struct strv params;    // names of its parameters
	struct strv compilers; // as .comment names them, each once; empty = unknown

	int machine;                   // EM_X86_64, EM_AARCH64, ...
	struct module_import *imports; // undefined symbols, in symbol-table order; without module_layout
	size_t import_count;
	bool has_versions; // it records CRCs at all: built for a kernel with modversions
	bool has_layout;
	uint32_t layout_crc; // of module_layout
	struct symvers *exports;
	size_t struct_size; // of .gnu.linkonce.this_module
	bool has_btf;       // BTF that only fits one kernel: .BTF without .BTF.base
	struct modsig sig;
};

// fd stays the caller's (it is duplicated); reading starts at the beginning whatever its offset.
int module_read(int fd, const char *file, struct module *ret, struct err *err);
// From memory (malloc), taken over whatever happens: an image that is in no file, or whose file shall not be loaded
// by descriptor.
int module_parse(char *data, size_t len, const char *file, struct module *ret, struct err *err);
void module_done(struct module *module);
#define auto_module __attribute__((cleanup(module_done)))
#define MODULE_NONE ((struct module){ .fd = -1 })

bool module_name_eq(const char *a, const char *b); // "-" and "_" are the same to the kernel
char *module_kernel_name(const char *name);        // as sys/module has it: with "_". Caller frees
// Whether the kernel lets it use GPL-only symbols (include/linux/license.h).
bool module_is_gpl(const struct module *module);
