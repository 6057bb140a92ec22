// SPDX-License-Identifier: Apache-2.0
#include "kmod/module/elf.h"
#include "tests/unit/forge.h"
#include "tests/unit/pack.h"
#include "tests/unit/test.h"

#include <sys/mman.h>

static const struct forge_symver imports[] = { { "module_layout", 0x11111111, NULL, false },
					       { "kmalloc", 0x22222222, NULL, false },
					       { "printk", 0x33333333, NULL, false },
					       { 0 } };
static const struct forge_symver exports[] = { { "nv_open", 0xaabbccdd, NULL, false },
					       { "nv_ops", 0x01020304, "NV_INTERNAL", true },
					       { 0 } };
static const char extra[] =
	"version=535.261.03\0srcversion=0123456789ABCDEF\0intree=Y\0firmware=a.bin\0firmware=b.bin\0"
	"import_ns=DMA_BUF\0version=later\0";
static const struct forge_module sample = {
	.name = "nvidia_uvm",
	.vermagic = "6.1.0-50-cloud-amd64 SMP preempt mod_unload modversions ",
	.depends = "nvidia,i2c-core",
	.license = "Dual MIT/GPL",
	.extra = extra,
	.imports = imports,
	.exports = exports,
	.has_btf = true,
};

static char *forged(size_t *len)
{
	return forge_ko(&sample, len);
}

static void check_sample(const struct module *m)
{
	assert_string_equal(m->name, "nvidia_uvm");
	assert_string_equal(m->version, "535.261.03");
	assert_string_equal(m->srcversion, "0123456789ABCDEF");
	assert_string_equal(m->vermagic, sample.vermagic);
	assert_string_equal(m->license, "Dual MIT/GPL");
	assert_true(m->is_intree && module_is_gpl(m) && m->has_btf && m->has_versions && m->has_layout);
	assert_int_equal(m->depends.count, 2);
	assert_string_equal(m->depends.items[1], "i2c-core");
	assert_int_equal(m->firmware.count, 2);
	assert_true(strv_has(&m->import_ns, "DMA_BUF"));
	assert_int_equal(m->machine, EM_X86_64);
	assert_int_equal(m->layout_crc, 0x11111111);
	assert_int_equal(m->struct_size, 1152);
	assert_int_equal(m->import_count, 2);
	assert_string_equal(m->imports[0].name, "kmalloc");
	assert_true(m->imports[0].has_crc && m->imports[0].crc == 0x22222222 && !m->imports[0].is_weak);
	assert_int_equal(m->exports->count, 2);
	const struct symver *e = symvers_find(m->exports, "nv_ops");
	assert_true(e && e->has_crc && e->crc == 0x01020304 && e->is_gpl);
	assert_string_equal(e->namespace, "NV_INTERNAL");
	assert_string_equal(e->owner, "nvidia_uvm");
	e = symvers_find(m->exports, "nv_open");
	assert_true(e && e->crc == 0xaabbccdd && !e->is_gpl && !*e->namespace);
}

static int memory_file(const char *data, size_t len)
{
	int fd = memfd_create("module", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	return fd;
}

static void test_read(void **state)
{
	(void)state;
	struct err err;
	size_t len;
	auto_module struct module m = MODULE_NONE;
	auto_str char *ko = forged(&len);
	auto_fd int fd = memory_file(ko, len);
	assert_int_equal(module_read(fd, "nvidia-uvm.ko", &m, &err), 0);
	check_sample(&m);
	assert_true(m.fd >= 0 && m.fd != fd && m.len == len);
	assert_int_equal(m.sig.state, MODSIG_NONE);
}

// R-B5, R-N1: we inflate, and then there is no file to load from.
// As 7.x has it: a byte for each export instead of a table for those of GPL modules.
static void test_flags(void **state)
{
	(void)state;
	struct err err = { 0 };
	size_t len;
	auto_module struct module m = MODULE_NONE;
	struct forge_module ko = sample;
	ko.has_flags = true;
	char *data = forge_ko(&ko, &len);
	if (module_parse(data, len, "nvidia-uvm.ko", &m, &err) < 0)
		fail_msg("%s", err.text);
	check_sample(&m);
}

static void test_compressed(void **state)
{
	(void)state;
	int (*const filters[])(struct archive *) = { archive_write_add_filter_gzip, archive_write_add_filter_xz,
						     archive_write_add_filter_zstd };
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		struct err err;
		size_t len, packed_len;
		auto_module struct module m = MODULE_NONE;
		auto_str char *ko = forged(&len);
		auto_str char *packed = pack(filters[i], ko, len, &packed_len);
		auto_fd int fd = memory_file(packed, packed_len);
		auto_fd int cut = memory_file(packed, packed_len / 2);
		assert_int_equal(module_read(fd, "nvidia-uvm.ko.xz", &m, &err), 0);
		check_sample(&m);
		assert_int_equal(m.fd, -1);
		assert_memory_equal(m.data, ko, len);
		assert_int_equal(module_read(cut, "cut.ko.xz", &m, &err), -1);
		assert_int_equal(err.code, E_ELF);
		check_sample(&m);
	}
}

static char *exactly(const char *data, size_t len) // so that one byte too far is seen by ASan
{
	char *copy = mem_grow(NULL, 1, len ? len : 1);
	assert_non_null(copy);
	memcpy(copy, data, len);
	return copy;
}

static void expect_sane(const char *data, size_t len, const char *what, size_t at)
{
	struct err err = { 0 };
	auto_module struct module m = MODULE_NONE;
	auto_str char *row = str_fmt("%s %zu", what, at);
	int r = module_parse(exactly(data, len), len, "hostile.ko", &m, &err);
	expect(r == 0 || err.code == E_ELF || err.code == E_ARCH, row);
	expect(r == 0 ? m.name && *m.name : err.text[0] && !m.name, row);
}

static void test_every_prefix(void **state)
{
	(void)state;
	struct err err;
	size_t len;
	auto_str char *ko = forged(&len);
	for (size_t n = 0; n < len; n++) {
		auto_module struct module m = MODULE_NONE;
		expect_sane(ko, n, "prefix", n);
		// The section headers are at the very end: no true prefix is a module.
		assert_int_equal(module_parse(exactly(ko, n), n, "cut.ko", &m, &err), -1);
	}
}

static void test_every_byte(void **state)
{
	(void)state;
	static const unsigned char masks[] = { 0xff, 0x01, 0x80 };
	size_t len;
	auto_str char *ko = forged(&len);
	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		for (size_t n = 0; n < len; n++) {
			ko[n] = (char)(ko[n] ^ masks[i]);
			expect_sane(ko, len, "byte", n);
			ko[n] = (char)(ko[n] ^ masks[i]);
		}
	}
}

static void set16(char *p, uint16_t v)
{
	memcpy(p, &v, 2);
}
static void set64(char *p, uint64_t v)
{
	memcpy(p, &v, 8);
}
static Elf64_Shdr *header(char *ko, size_t index)
{
	Elf64_Ehdr *h = (Elf64_Ehdr *)(void *)ko;
	return (Elf64_Shdr *)(void *)(ko + h->e_shoff) + index;
}

static void damage_class(char *ko)
{
	ko[EI_CLASS] = ELFCLASS32;
}
static void damage_order(char *ko)
{
	ko[EI_DATA] = ELFDATA2MSB;
}
static void damage_magic(char *ko)
{
	ko[0] = 'x';
}
static void damage_type(char *ko)
{
	set16(ko + offsetof(Elf64_Ehdr, e_type), ET_EXEC);
}
static void damage_shoff(char *ko)
{
	set64(ko + offsetof(Elf64_Ehdr, e_shoff), 1ULL << 60);
}
static void damage_shnum(char *ko)
{
	set16(ko + offsetof(Elf64_Ehdr, e_shnum), 0);
}
static void damage_shstrndx(char *ko)
{
	set16(ko + offsetof(Elf64_Ehdr, e_shstrndx), 60000);
}
static void damage_names(char *ko) // .modinfo ends in a NUL, too
{
	set16(ko + offsetof(Elf64_Ehdr, e_shstrndx), 1);
}
static void damage_modinfo(char *ko)
{
	header(ko, 1)->sh_size -= 1;
}
static void damage_offset(char *ko)
{
	header(ko, 1)->sh_offset = UINT64_MAX - 4;
}
static void damage_name(char *ko)
{
	header(ko, 2)->sh_name = 1 << 20;
}
static void damage_versions(char *ko)
{
	header(ko, 4)->sh_size -= 4;
}

// The evidence names the place.
static void test_damage(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		void (*damage)(char *ko);
		int code;
		const char *text;
	} rows[] = {
		{ "class", damage_class, E_ARCH, "not a 64-bit file" },
		{ "order", damage_order, E_ARCH, "big-endian" },
		{ "magic", damage_magic, E_ELF, "not an ELF file" },
		{ "type", damage_type, E_ELF, "ELF type 2" },
		{ "shoff", damage_shoff, E_ELF, "section headers run past the end of the file at" },
		{ "shnum", damage_shnum, E_ELF, "no section headers" },
		{ "shstrndx", damage_shstrndx, E_ELF, "section names are in section 60000" },
		{ "names", damage_names, E_ELF, "the section names are not a string table" },
		{ "modinfo", damage_modinfo, E_ELF, ".modinfo does not end" },
		{ "offset", damage_offset, E_ELF, "section 1 (" },
		{ "name", damage_name, E_ELF, "the name of section 2" },
		{ "versions", damage_versions, E_ELF, "__versions" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		size_t len;
		auto_module struct module m = MODULE_NONE;
		char *ko = forged(&len);
		rows[i].damage(ko);
		expect(module_parse(ko, len, "bad.ko", &m, &err) == -1, rows[i].name);
		expect(err.code == rows[i].code, rows[i].name);
		expect(strstr(err.text, rows[i].text), err.text);
	}
}

static void test_lacking(void **state)
{
	(void)state;
	static const struct {
		struct forge_module ko;
		const char *text;
	} rows[] = {
		{ { .vermagic = "6.1.0" }, "does not state its module name" },
		{ { .name = "../evil" }, "'../evil' is not a valid module name" },
		{ { .name = "" }, "is not a valid module name" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		size_t len;
		auto_module struct module m = MODULE_NONE;
		char *ko = forge_ko(&rows[i].ko, &len);
		expect(module_parse(ko, len, "bad.ko", &m, &err) == -1, rows[i].text);
		expect(err.code == E_ELF && strstr(err.text, rows[i].text), err.text);
	}
}

static void test_empty_file(void **state)
{
	(void)state;
	struct err err;
	auto_module struct module m = MODULE_NONE;
	auto_fd int fd = memory_file("", 0);
	assert_int_equal(module_read(fd, "empty.ko", &m, &err), -1);
	assert_int_equal(err.code, E_ELF);
}

static void test_names(void **state)
{
	(void)state;
	assert_true(module_name_eq("nvidia-uvm", "nvidia_uvm"));
	assert_true(module_name_eq("nvidia", "nvidia"));
	assert_false(module_name_eq("nvidia", "nvidia_uvm"));
	assert_false(module_name_eq("nvidia_uvm", "nvidia"));
	assert_false(module_name_eq(NULL, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),       cmocka_unit_test(test_flags),
		cmocka_unit_test(test_compressed), cmocka_unit_test(test_every_prefix),
		cmocka_unit_test(test_every_byte), cmocka_unit_test(test_damage),
		cmocka_unit_test(test_lacking),    cmocka_unit_test(test_empty_file),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
