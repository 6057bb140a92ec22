// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/core.h"

#include "tests/unit/tempdir.h"

#include <elf.h>

#define DRIVER "595.45.04"

static void write_object(const struct folder *f, int machine, size_t size, const char *text)
{
	char data[256] = "";
	Elf64_Ehdr head = { .e_type = ET_REL, .e_machine = (Elf64_Half)machine };
	struct err err;
	memcpy(head.e_ident, ELFMAG, SELFMAG);
	memcpy(data, &head, sizeof(head));
	snprintf(data + sizeof(head), sizeof(data) - sizeof(head), "nvidia id: %s  Release", text);
	assert_int_equal(root_write(&f->root, "core.o", data, size, 0644, &err), 0);
}

static void test_what_is_taken_for_a_core(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		int machine;
		size_t size;
		const char *text;
		int code;
	} rows[] = {
		{ "a core", EM_X86_64, 256, DRIVER, 0 },
		{ "another version", EM_X86_64, 256, "595.45.05", E_ELF },
		{ "no version", EM_X86_64, 256, "", E_ELF },
		{ "another architecture", EM_AARCH64, 256, DRIVER, E_ARCH },
		{ "an architecture that nobody knows", 0x7777, 256, DRIVER, E_ELF },
		{ "cut short in its head", EM_X86_64, 20, DRIVER, E_ELF },
		{ "cut short before its version", EM_X86_64, sizeof(Elf64_Ehdr), DRIVER, E_ELF },
		{ "empty", EM_X86_64, 0, DRIVER, E_ELF },
	};
	const struct core_key key = { .core = &source_cores[0], .driver = DRIVER, .arch = "x86_64" };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		struct err err = { 0 };
		folder_make(&f);
		write_object(&f, rows[i].machine, rows[i].size, rows[i].text);
		int r = core_verify(&f.root, "core.o", &key, &err);
		expect(rows[i].code ? r < 0 && err.code == rows[i].code : r == 0, rows[i].what);
	}
}

static void test_no_file(void **state)
{
	(void)state;
	const struct core_key key = { .core = &source_cores[0], .driver = DRIVER, .arch = "x86_64" };
	auto_folder struct folder f;
	struct err err;
	folder_make(&f);
	assert_int_equal(core_verify(&f.root, "core.o", &key, &err), -1);
	assert_int_equal(err.code, ENOENT);
	write_object(&f, EM_X86_64, 256, DRIVER);
	assert_int_equal(root_symlink(&f.root, "core.o", "link", &err), 0);
	assert_int_equal(core_verify(&f.root, "link", &key, &err), -1);
	folder_dir(&f, "dir");
	assert_int_equal(core_verify(&f.root, "dir", &key, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_taken_for_a_core),
		cmocka_unit_test(test_no_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
