// SPDX-License-Identifier: Apache-2.0
// A kernel image asked for its exports: hosts without headers can still be checked.
//
// Understood: an x86 bzImage (boot protocol >= 2.08, payload gzip, xz, zstd, lz4), an ELF vmlinux, an arm64 Image, an
// EFI zboot image of one, and each of them compressed as a whole. An ELF image must still have its section headers, as
// Debian's, Ubuntu's and Fedora's have. Exports in two tables, or (7.x) in one with flags. An arm64 Image is flat: it
// tells its banner alone.
#pragma once
#include "kmod/module/modsig.h"
#include "kmod/module/symvers.h"

struct vmlinuz {
	// "Linux version 6.1.0-56-cloud-amd64 (...) ... #1 SMP ...", without the newline: as /proc/version shows it.
	char *banner;
	char *release;           // its third word
	char *gnu_build_id;      // hex; NULL = it has none
	int machine;             // EM_X86_64, ...
	struct symvers *symvers; // owner "vmlinux"; without CRCs when the kernel has no modversions; NULL = it does
				 // not tell
	bool has_crcs;
};

// E_ELF with the place for an image that is damaged or in no format above.
int vmlinuz_read(int fd, const char *name, struct vmlinuz *ret, struct err *err);
int vmlinuz_parse(const void *data, size_t len, const char *name, struct vmlinuz *ret, struct err *err);
// Adds the certificates inside an image: those built into the kernel, and its own modules' one, are among them.
int vmlinuz_certs(int fd, const char *name, struct certs *ret, struct err *err);
void vmlinuz_done(struct vmlinuz *v);
// The GNU build id among the ELF notes of an image or of /sys/kernel/notes, as hex; NULL = none. Caller frees.
char *vmlinuz_gnu_build_id(const void *notes, size_t len);
#define auto_vmlinuz __attribute__((cleanup(vmlinuz_done)))
