// SPDX-License-Identifier: Apache-2.0
// Formats: Documentation/arch/x86/boot.rst for the bzImage header; include/linux/export.h (struct kernel_symbol with
// 32-bit relative references) for the export table; include/linux/export-internal.h and module_symbol.h for
// __kflagstab, which 7.x kernels have in place of a second table: a byte for each symbol;
// Documentation/arch/arm64/booting.rst for the arm64 Image, drivers/firmware/efi/libstub/zboot-header.S for EFI zboot.
#include "kmod/module/vmlinuz.h"

#include "base/archive/archive.h"
#include "base/file/file.h"
#include "kmod/module/sections.h"

#include <ctype.h>
#include <elf.h>
#include <stdio.h>

enum { IMAGE_MAX = 1 << 30, BANNER_MAX = 1024 };
static const char BANNER[] = "Linux version ";
#define ARM64_MAGIC "ARM\x64"

struct export_table {
	const struct sections *sections;
	const char *file;
	const struct section *entries, *crcs, *flags; // crcs and flags may be NULL
	bool is_gpl;                                  // all of it; without flags
};

// The string at a virtual address; NULL when no section of the file has it.
static const char *string_at(const struct sections *s, uint64_t addr)
{
	for (size_t i = 1; i < s->count; i++) {
		const struct section *in = &s->items[i];
		if (!in->data || !in->addr || addr < in->addr || addr - in->addr >= in->size)
			continue;
		const unsigned char *p = in->data + (addr - in->addr);
		return memchr(p, '\0', in->size - (addr - in->addr)) ? (const char *)p : NULL;
	}
	return NULL;
}

static const char *reference(const struct export_table *t, size_t offset)
{
	int32_t relative = (int32_t)le32(t->entries->data + offset);
	return string_at(t->sections, t->entries->addr + offset + (uint64_t)(int64_t)relative);
}

// An entry is {value, name, namespace}, each a 32-bit distance from itself; namespaces came with 5.4.
static int read_exports(const struct export_table *t, struct symvers *sv, struct err *err)
{
	enum { FLAG_GPL_ONLY = 1 };
	size_t count = t->crcs ? t->crcs->size / 4 : t->entries->size / 12;
	size_t size = count ? t->entries->size / count : 12;
	if ((size != 12 && size != 8) || count * size != t->entries->size)
		return err_set(err, E_ELF, "'%s': %s has %zu bytes for %zu symbols", t->file, t->entries->name,
			       t->entries->size, count);
	if (t->flags && t->flags->size != count)
		return err_set(err, E_ELF, "'%s': %s has %zu bytes for %zu symbols", t->file, t->flags->name,
			       t->flags->size, count);
	for (size_t i = 0; i < count; i++) {
		struct symver symbol = { .owner = "vmlinux", .namespace = "", .is_gpl = t->is_gpl };
		symbol.name = reference(t, i * size + 4);
		if (size == 12 && le32(t->entries->data + i * size + 8) != 0)
			symbol.namespace = reference(t, i * size + 8);
		if (t->flags)
			symbol.is_gpl = t->flags->data[i] & FLAG_GPL_ONLY;
		if (!symbol.name || !*symbol.name || !symbol.namespace)
			return err_set(err, E_ELF, "'%s': entry %zu of %s has its name outside of the image", t->file,
				       i, t->entries->name);
		symbol.crc = t->crcs ? le32(t->crcs->data + 4 * i) : 0;
		symbol.has_crc = symbol.crc != 0; // zero: a symbol of assembler code without a prototype
		symvers_add(sv, &symbol);
	}
	return 0;
}

// Since 6.2 (and in Debian's 6.1) an image has the line twice: "# SMP ..." from before the final link, which is
// overridden, and "#1 SMP ...", which the kernel prints.
static void find_banner(const struct section *in, char **ret)
{
	const char *p = (const char *)in->data, *end = p + in->size;
	while ((p = memmem(p, (size_t)(end - p), BANNER, sizeof(BANNER) - 1)) != NULL) {
		const char *stop = memchr(p, '\n', end - p < BANNER_MAX ? (size_t)(end - p) : BANNER_MAX);
		size_t len = stop ? (size_t)(stop - p) : 0;
		// A format string, or a message that only starts alike.
		if (len < sizeof(BANNER) || !isdigit((unsigned char)p[sizeof(BANNER) - 1]) || memchr(p, '\0', len))
			len = 0;
		const char *unnumbered = *ret ? strstr(*ret, " # ") : NULL;
		if (len && (!*ret || unnumbered)) {
			free(*ret);
			*ret = str_ndup(p, len);
		}
		p += sizeof(BANNER) - 1;
	}
}

// A note is the sizes of its name and its content, its type, and both, each padded to four bytes. The kernel's makefile
// asks for a SHA-1; an id of another length may have been chosen by hand, for more than one kernel.
char *vmlinuz_gnu_build_id(const void *notes, size_t len)
{
	enum { HEAD = 12, SHA1 = 20 };
	const unsigned char *p = notes;
	for (size_t at = 0; at < len && len - at >= HEAD;) {
		uint64_t name = le32(p + at), size = le32(p + at + 4), from = at + HEAD + (name + 3) / 4 * 4;
		if (from > len || size > len - from)
			return NULL;
		if (le32(p + at + 8) == NT_GNU_BUILD_ID && name == 4 && size == SHA1 &&
		    memcmp(p + at + HEAD, "GNU", 4) == 0) {
			char *hex = mem_alloc(2 * size + 1);
			for (size_t i = 0; i < size; i++)
				snprintf(hex + 2 * i, 3, "%02x", p[from + i]);
			return hex;
		}
		at = from + (size + 3) / 4 * 4;
	}
	return NULL;
}

// What an image is known by. E_ELF: it is not a Linux kernel.
static int take_banner(struct vmlinuz *v, char *banner, const char *file, struct err *err)
{
	if (!banner)
		return err_set(err, E_ELF, "'%s' is not a Linux kernel: it has no \"Linux version\" line", file);
	const char *release = banner + sizeof(BANNER) - 1;
	v->banner = banner;
	v->release = str_ndup(release, strcspn(release, " "));
	return 0;
}

static int read_elf(const void *data, size_t len, const char *file, struct vmlinuz *ret, struct err *err)
{
	auto_vmlinuz struct vmlinuz v = { 0 };
	auto_sections struct sections s = { 0 };
	if (sections_read(data, len, file, &s, err) < 0)
		return -1;
	if (s.type != ET_EXEC && s.type != ET_DYN)
		return err_set(err, E_ELF, "'%s' is not a kernel image: ELF type %d", file, s.type);
	char *banner = NULL;
	for (size_t i = 1; i < s.count; i++)
		if (s.items[i].data && s.items[i].addr)
			find_banner(&s.items[i], &banner);
	if (take_banner(&v, banner, file, err) < 0)
		return -1;
	v.machine = s.machine;
	const struct section *notes = sections_find(&s, ".notes");
	v.gnu_build_id = notes && notes->data ? vmlinuz_gnu_build_id(notes->data, notes->size) : NULL;
	const struct section *plain = sections_find(&s, "__ksymtab"), *gpl = sections_find(&s, "__ksymtab_gpl");
	const struct section *flags = gpl ? NULL : sections_find(&s, "__kflagstab");
	const struct export_table tables[] = {
		{ &s, file, plain, sections_find(&s, "__kcrctab"), flags, false },
		{ &s, file, gpl, sections_find(&s, "__kcrctab_gpl"), NULL, true },
	};
	size_t count = flags ? 1 : ARRAY_SIZE(tables);
	if (!plain || (!gpl && !flags))
		return err_set(err, E_ELF, "'%s' has no table of exported symbols", file);
	v.has_crcs = tables[0].crcs && tables[count - 1].crcs;
	v.symvers = symvers_new();
	for (size_t i = 0; i < count; i++)
		if (read_exports(&tables[i], v.symvers, err) < 0)
			return -1;
	*ret = v;
	v = (struct vmlinuz){ 0 };
	return 0;
}

static bool is_arm64_image(const unsigned char *p, size_t len)
{
	enum { MAGIC_AT = 56 };
	return len >= MAGIC_AT + 4 && memcmp(p + MAGIC_AT, ARM64_MAGIC, 4) == 0;
}

// The kernel's memory as it is, without a word on where its tables are. Symbols could only be guessed at, so there are
// none: a proof takes them from Module.symvers or symvers.gz, or has the build of the kernel to go by.
static int read_arm64_image(const unsigned char *data, size_t len, const char *file, struct vmlinuz *ret,
			    struct err *err)
{
	const struct section all = { .data = data, .size = len };
	auto_vmlinuz struct vmlinuz v = { .machine = EM_AARCH64 };
	char *banner = NULL;
	find_banner(&all, &banner);
	if (take_banner(&v, banner, file, err) < 0)
		return -1;
	*ret = v;
	v = (struct vmlinuz){ 0 };
	return 0;
}

static bool is_bzimage(const unsigned char *p, size_t len)
{
	return len >= 0x250 && le16(p + 0x1fe) == 0xaa55 && memcmp(p + 0x202, "HdrS", 4) == 0 &&
	       le16(p + 0x206) >= 0x208;
}

static int bzimage_payload(const unsigned char *p, size_t len, const char *file, const unsigned char **ret,
			   size_t *ret_len, struct err *err)
{
	size_t setup = p[0x1f1] ? p[0x1f1] : 4;
	uint64_t start = (setup + 1) * 512 + (uint64_t)le32(p + 0x248);
	uint32_t size = le32(p + 0x24c);
	if (size < 8 || start > len || len - start < size)
		return err_set(err, E_ELF, "'%s': the payload (%u bytes at %llu) runs past the end of the file at %zu",
			       file, size, (unsigned long long)start, len);
	*ret = p + start;
	// All methods but gzip, which has its own, are followed by the unpacked size.
	*ret_len = le16(p + start) == 0x8b1f ? size : size - 4;
	return 0;
}

// A program for UEFI that unpacks the kernel and starts it.
static bool is_zboot(const unsigned char *p, size_t len)
{
	enum { HEADER = 64 };
	return len >= HEADER && memcmp(p, "MZ", 2) == 0 && memcmp(p + 4, "zimg", 4) == 0;
}

// Its size does not count the unpacked size that follows.
static int zboot_payload(const unsigned char *p, size_t len, const char *file, const unsigned char **ret,
			 size_t *ret_len, struct err *err)
{
	uint32_t start = le32(p + 8), size = le32(p + 12);
	if (size == 0 || start > len || len - start < size)
		return err_set(err, E_ELF, "'%s': the payload (%u bytes at %u) runs past the end of the file at %zu",
			       file, size, start, len);
	*ret = p + start;
	*ret_len = size;
	return 0;
}

// The kernel inside an image: an ELF file, or an arm64 Image. inflated: caller frees; NULL = it was there as it is.
static int unpack_image(const void *data, size_t len, const char *file, char **inflated, const unsigned char **ret,
			size_t *ret_len, struct err *err)
{
	const unsigned char *p = data;
	*inflated = NULL;
	*ret = p;
	*ret_len = len;
	if ((len >= SELFMAG && memcmp(p, ELFMAG, SELFMAG) == 0) || is_arm64_image(p, len))
		return 0;
	if ((is_bzimage(p, len) && bzimage_payload(p, len, file, &p, &len, err) < 0) ||
	    (is_zboot(p, len) && zboot_payload(p, len, file, &p, &len, err) < 0))
		return -1;
	if (archive_inflate(p, len, IMAGE_MAX, inflated, ret_len, err) < 0) {
		err_wrap(err, "'%s'", file);
		return err_code(err, E_ELF);
	}
	*ret = (const unsigned char *)*inflated;
	return 0;
}

int vmlinuz_parse(const void *data, size_t len, const char *file, struct vmlinuz *ret, struct err *err)
{
	auto_str char *inflated = NULL;
	const unsigned char *p;
	if (unpack_image(data, len, file, &inflated, &p, &len, err) < 0)
		return -1;
	return is_arm64_image(p, len) ? read_arm64_image(p, len, file, ret, err) : read_elf(p, len, file, ret, err);
}

int vmlinuz_read(int fd, const char *name, struct vmlinuz *ret, struct err *err)
{
	const void *data;
	size_t len;
	if (file_map(fd, name, &data, &len, err) < 0)
		return -1;
	int r = vmlinuz_parse(data, len, name, ret, err);
	file_unmap(data, len);
	return r;
}

// Certificates lie one behind the other among the image's data (certs/system_certificates.S), as DER of version 3,
// which each one with extensions has. What only looks like one is none for OpenSSL.
static void find_certs(const unsigned char *p, size_t len, struct certs *ret)
{
	static const unsigned char version[] = { 0xa0, 3, 2, 1, 2 };
	enum { SEQUENCE = 0x30, LONG_FORM = 0x82, VERSION_AT = 8 };
	const unsigned char *end = p + len;
	while ((p = memmem(p, (size_t)(end - p), version, sizeof(version))) != NULL) {
		const unsigned char *start = p - VERSION_AT;
		size_t left = (size_t)(end - p) + VERSION_AT, size = 0;
		struct err ignored;
		p += sizeof(version);
		if ((size_t)(end - start) > len || start[0] != SEQUENCE || start[1] != LONG_FORM ||
		    start[4] != SEQUENCE || start[5] != LONG_FORM)
			continue;
		size = 4 + ((size_t)start[2] << 8 | start[3]);
		if (size <= left)
			modsig_certs_add(ret, start, size, "a certificate", &ignored);
	}
}

int vmlinuz_certs(int fd, const char *name, struct certs *ret, struct err *err)
{
	auto_str char *inflated = NULL;
	const unsigned char *p;
	const void *data;
	size_t len, mapped;
	if (file_map(fd, name, &data, &mapped, err) < 0)
		return -1;
	int r = unpack_image(data, mapped, name, &inflated, &p, &len, err);
	if (r == 0)
		find_certs(p, len, ret);
	file_unmap(data, mapped);
	return r;
}

void vmlinuz_done(struct vmlinuz *v)
{
	free(v->banner);
	free(v->release);
	free(v->gnu_build_id);
	symvers_free(v->symvers);
	*v = (struct vmlinuz){ 0 };
}
