// SPDX-License-Identifier: Apache-2.0
// R-O1: compilers for a kernel of another architecture than this machine's. Those of its own: patch_test.c.
#include "kmod/kernel_tree/headers.h"
#include "kmod/kernel_tree/programs.h"
#include "kmod/kernel_tree/toolchain.h"
#include "tests/unit/library.h"
#include "tests/unit/tempdir.h"

#include <elf.h>
#include <sys/stat.h>

struct machine {
	struct folder folder;
	char *path;        // of the compilers
	const char *own;   // its architecture
	const char *other; // not its architecture
	struct tree tree;  // of a kernel of the other one
	char prefix[32];
};

static const char *const llvm[] = { "llvm-strip", "ld.lld", "llvm-nm", "llvm-objcopy", "llvm-ar" };

static void put_tool(const struct machine *m, const char *prefix, const char *name, const char *version)
{
	auto_str char *path = str_fmt("bin/%s%s", prefix, name), *text = str_fmt("#!/bin/sh\necho '%s'\n", version);
	auto_str char *full = str_fmt("%s/%s", m->folder.path, path);
	folder_file(&m->folder, path, text);
	assert_int_equal(chmod(full, 0755), 0);
}

static void machine_make(struct machine *m)
{
	static char release[] = "6.1.0-9", build[] = "/build";
	*m = (struct machine){ .own = tree_own_arch() };
	m->other = str_eq(m->own, "aarch64") ? "x86_64" : "aarch64";
	folder_make(&m->folder);
	folder_dir(&m->folder, "bin");
	folder_dir(&m->folder, "build/scripts/basic");
	m->path = str_fmt("%s/bin", m->folder.path);
	m->tree = (struct tree){ .root = m->folder.root, .release = release, .build = build };
	m->tree.arch = str_dup(m->other);
	snprintf(m->prefix, sizeof(m->prefix), "%s-linux-gnu-", m->other);
	put_tool(m, "", "gcc-13", "gcc-13 (Debian 13.2.0) 13.2.0"); // for this machine
	put_tool(m, "", "cc", "gcc-13 (Debian 13.2.0) 13.2.0");
	put_tool(m, "", "clang", "Debian clang version 16.0.6 (15~deb12u1)");
	put_tool(m, "", "make", "");
	for (size_t i = 0; i < ARRAY_SIZE(llvm); i++)
		put_tool(m, "", llvm[i], "");
	put_tool(m, m->prefix, "gcc-12", "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0");
	put_tool(m, m->prefix, "gcc", "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)");
	put_tool(m, m->prefix, "strip", "");
}

static void machine_done(struct machine *m)
{
	free(m->path);
	free(m->tree.arch);
	free(m->tree.config);
	folder_done(&m->folder);
}
#define auto_machine __attribute__((cleanup(machine_done)))

static int find(struct machine *m, const char *text, unsigned major, bool is_clang, struct toolchain *ret,
		struct err *err)
{
	auto_str char *compiler = str_dup(text);
	m->tree.compiler = compiler;
	m->tree.compiler_major = major;
	m->tree.is_clang = is_clang;
	return toolchain_find(&m->tree, m->path, NULL, ret, err);
}

static void test_cross(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned major;
		bool is_clang;
		const char *cc; // NULL = there is none
	} rows[] = {
		{ "gcc-12 (Debian 12.2.0-14) 12.2.0", 12, false, "gcc-12" }, // as the kernel's own was called
		{ "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", 11, false, "gcc" },
		{ "gcc-13 (Debian 13.2.0) 13.2.0", 13, false, NULL },
		{ "Debian clang version 16.0.6", 16, true, "clang" },
	};
	auto_machine struct machine m;
	machine_make(&m);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *prefix = rows[i].is_clang ? "" : m.prefix;
		auto_toolchain struct toolchain t = { 0 };
		auto_strv struct strv variables = { 0 };
		struct err err = { 0 };
		int r = find(&m, rows[i].text, rows[i].major, rows[i].is_clang, &t, &err);
		if (!rows[i].cc) {
			auto_str char *expected = str_fmt("expected %sgcc %u, found in", m.prefix, rows[i].major);
			expect(r < 0 && err.code == E_TOOLCHAIN && strstr(err.text, expected), rows[i].text);
			continue;
		}
		auto_str char *cc = str_fmt("%s/%s%s", m.path, prefix, rows[i].cc), *ld = str_fmt("LD=%sld", prefix),
			      *strip = str_fmt("%s/%sstrip", m.path, rows[i].is_clang ? "llvm-" : prefix),
			      *cross = str_fmt("CROSS_COMPILE=%s", prefix);
		expect(r == 0 && str_eq(t.cc, cc) && str_eq(t.strip, strip), rows[i].text);
		toolchain_binutils(&t, &variables);
		expect(strv_has(&variables, rows[i].is_clang ? "LLVM=1" : ld), rows[i].text);
		expect(strv_has(&variables, cross) == !rows[i].is_clang, rows[i].text);
	}
}

// What a build would miss is missed before it; gcc needs none of it.
static void test_llvm(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(llvm); i++) {
		auto_machine struct machine m;
		auto_toolchain struct toolchain clang = { 0 }, gcc = { 0 };
		struct err err = { 0 };
		machine_make(&m);
		auto_str char *path = str_fmt("bin/%s", llvm[i]), *said = str_fmt("no %s in %s", llvm[i], m.path);
		assert_int_equal(root_unlink(&m.folder.root, path, &err), 1);
		assert_int_equal(find(&m, "gcc-12 (Debian 12.2.0-14) 12.2.0", 12, false, &gcc, &err), 0);
		assert_int_equal(find(&m, "Debian clang version 16.0.6", 16, true, &clang, &err), -1);
		expect(err.code == E_TOOLCHAIN && str_starts(err.text, said), err.text);
	}
}

static void put_fixdep(const struct machine *m, const char *build, const char *arch)
{
	struct err err;
	Elf64_Ehdr head = { .e_ident = ELFMAG };
	auto_str char *dir = str_fmt("%s/scripts/basic", build), *path = str_fmt("%s/fixdep", dir);
	head.e_machine = str_eq(arch, "aarch64") ? EM_AARCH64 : EM_X86_64;
	folder_dir(&m->folder, dir);
	assert_int_equal(root_write(&m->folder.root, path, (const char *)&head, sizeof(head), 0755, &err), 0);
}

// kbuild's programs come with the headers and run here.
static void test_scripts(void **state)
{
	(void)state;
	static const char compiler[] = "gcc-12 (Debian 12.2.0-14) 12.2.0";
	auto_machine struct machine m;
	machine_make(&m);
	for (int is_own = 0; is_own < 2; is_own++) {
		const char *arch = is_own ? m.own : m.other;
		auto_toolchain struct toolchain t = { 0 };
		struct err err = { 0 };
		put_fixdep(&m, "build", arch);
		assert_string_equal(tree_file_arch(&m.folder.root, "build/scripts/basic/fixdep"), arch);
		int r = find(&m, compiler, 12, false, &t, &err);
		assert_int_equal(r, is_own ? 0 : -1);
		if (is_own)
			continue;
		auto_str char *said =
			str_fmt("/build/scripts' are for %s and cannot run on %s: give headers", m.other, m.own);
		assert_int_equal(err.code, E_TOOLCHAIN);
		assert_non_null(strstr(err.text, said));
	}
}

// A tree of this machine's architecture with all of kbuild's own parts, for the options of config.
static void prepare_tree(struct machine *m, const char *config)
{
	static const char *const parts[] = { "scripts/mod/modpost", "scripts/genksyms/genksyms",
					     "scripts/gendwarfksyms/gendwarfksyms", "tools/objtool/objtool",
					     "scripts/module.lds" };
	put_fixdep(m, "build", m->own);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		auto_str char *path = str_fmt("build/%s", parts[i]);
		tempdir_write(&m->folder, path, "");
	}
	tempdir_write(&m->folder, "build/scripts/Makefile.modfinal", "\t-T scripts/module.lds -o $@\n");
	m->tree.source = m->tree.build;
	m->tree.config = str_dup(config);
	free(m->tree.arch);
	m->tree.arch = str_dup(m->own);
	put_tool(m, "", "strip", "");
	put_tool(m, "", "gcc-12", "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0");
}

// A compile would run these; whether it does depends on the kernel's configuration.
static void test_parts_of_a_tree(void **state)
{
	(void)state;
	static const struct {
		const char *config, *gone;
		bool is_refused;
	} rows[] = {
		{ "", NULL, false },
		{ "", "scripts/mod/modpost", true },
		{ "", "scripts/module.lds", true },
		{ "", "scripts/genksyms/genksyms", false },
		{ "CONFIG_MODVERSIONS=y\n", "scripts/genksyms/genksyms", true },
		{ "CONFIG_MODVERSIONS=y\nCONFIG_GENDWARFKSYMS=y\n", "scripts/genksyms/genksyms", false },
		{ "CONFIG_MODVERSIONS=y\nCONFIG_GENDWARFKSYMS=y\n", "scripts/gendwarfksyms/gendwarfksyms", true },
		{ "", "tools/objtool/objtool", false },
		{ "CONFIG_OBJTOOL=y\n", "tools/objtool/objtool", true },
		{ "CONFIG_GCC_PLUGIN_RANDSTRUCT=y\n", "scripts/gcc-plugins/randomize_layout_plugin.so", true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_machine struct machine m;
		struct err err = { 0 };
		machine_make(&m);
		prepare_tree(&m, rows[i].config);
		auto_str char *gone = str_fmt("build/%s", rows[i].gone ? rows[i].gone : "none"),
			      *said = str_fmt("/%s' is missing", gone);
		root_unlink(&m.folder.root, gone, &err);
		int r = programs_check_tree(&m.tree, &err);
		expect(r == (rows[i].is_refused ? -1 : 0), gone);
		expect(r == 0 || (err.code == E_HEADERS_NOT_FOUND && strstr(err.text, said)), err.text);
	}
	auto_machine struct machine debian;
	struct err err = { 0 };
	machine_make(&debian);
	prepare_tree(&debian, "");
	root_unlink(&debian.folder.root, "build/scripts/module.lds", &err);
	tempdir_write(&debian.folder, "build/arch/x86/module.lds", "");
	assert_int_equal(programs_check_tree(&debian.tree, &err), 0);
}

// Programs that came with the headers need libraries of where they are run: known before the compile.
static void test_libraries(void **state)
{
	(void)state;
	static const char modversions[] = "CONFIG_MODVERSIONS=y\nCONFIG_GENDWARFKSYMS=y\n";
	static const struct {
		const char *config, *path, *needed, *version, *said; // NULL = it is no matter
	} rows[] = {
		{ modversions, "scripts/gendwarfksyms/gendwarfksyms", "libdw.so.1", NULL,
		  "needs libdw.so.1, which %s does not have: install libdw1 (Debian, Ubuntu) or elfutils-libs" },
		{ "", "scripts/gendwarfksyms/gendwarfksyms", "libdw.so.1", NULL, NULL },
		{ "CONFIG_OBJTOOL=y\n", "tools/objtool/objtool", "libelf.so.1", NULL, "needs libelf.so.1, which %s" },
		{ "CONFIG_OBJTOOL=y\n", "tools/objtool/objtool.real-x86", "libelf.so.1", NULL, "install libelf1" },
		{ "", "scripts/mod/modpost", "libfoo.so.7", NULL, "libfoo.so.7, which %s does not have: install the" },
		{ "", "scripts/mod/modpost", "libc.so.6", "GLIBC_2.38",
		  "needs GLIBC_2.38 of libc.so.6, which %s does not have: the headers are of a newer distribution" },
		{ "", "scripts/mod/modpost", "libc.so.6", "GLIBC_2.34", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_machine struct machine m;
		struct err err = { 0 };
		struct linked program = linked_make(rows[i].needed, rows[i].version, NULL),
			      libc = linked_make(NULL, NULL, "GLIBC_2.34");
		machine_make(&m);
		prepare_tree(&m, rows[i].config);
		auto_str char *path = str_fmt("build/%s", rows[i].path);
		tempdir_data(&m.folder, path, &program, sizeof(program));
		tempdir_data(&m.folder, "lib64/libc.so.6", &libc, sizeof(libc));
		int r = programs_check(&m.tree, &m.folder.root, "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0", &err);
		expect(r == (rows[i].said ? -1 : 0), rows[i].path);
		if (!rows[i].said)
			continue;
		const char *place = strstr(rows[i].said, "%s");
		auto_str char *said = place ? str_fmt("%.*s%s%s", (int)(place - rows[i].said), rows[i].said,
						      m.folder.path, place + 2) :
					      str_dup(rows[i].said);
		expect(err.code == E_TOOLCHAIN && strstr(err.text, said), err.text);
	}
}

// The same for the compiler that is found: with nothing else to say about it.
static void test_libraries_of_this_machine(void **state)
{
	(void)state;
	auto_machine struct machine m;
	struct linked program = linked_make("libkmodsmith-has-none.so.1", NULL, NULL);
	for (int is_lacking = 0; is_lacking < 2; is_lacking++) {
		auto_toolchain struct toolchain t = { 0 };
		struct err err = { 0 };
		if (!is_lacking) {
			machine_make(&m);
			prepare_tree(&m, "");
		} else {
			tempdir_data(&m.folder, "build/scripts/mod/modpost", &program, sizeof(program));
		}
		int r = find(&m, "gcc-12 (Debian 12.2.0-14) 12.2.0", 12, false, &t, &err);
		assert_int_equal(r, is_lacking ? -1 : 0);
		expect(!is_lacking || strstr(err.text, "has-none.so.1, which this machine does not have"), err.text);
	}
}

static void test_plugins(void **state)
{
	(void)state;
	static const char debian[] = "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0",
			  redhat[] = "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)";
	static const struct {
		const char *compiler, *inside; // of the plugin, '|' for NUL
		bool is_refused;
	} rows[] = {
		{ debian,
		  "12.2.0|20220819||../src/configure -v --with-pkgversion='Debian 12.2.0-14+deb12u1' --with-bugurl=x|",
		  false },
		{ debian, "12.2.0|20220819||../src/configure -v --with-pkgversion='Debian 12.2.0-14' --with-bugurl=x|",
		  true },
		{ debian, "12.3.0|20220819||../src/configure -v --with-pkgversion='Debian 12.2.0-14+deb12u1' -x|",
		  true },
		{ redhat, "11.4.1|20231218|Red Hat 11.4.1-3||../configure --enable-bootstrap|", false },
		{ redhat, "11.4.1|20230605|Red Hat 11.4.1-2||../configure --enable-bootstrap|", true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_machine struct machine m;
		auto_str char *inside = str_dup(rows[i].inside);
		struct err err = { 0 };
		size_t len = strlen(inside);
		machine_make(&m);
		prepare_tree(&m, "CONFIG_GCC_PLUGINS=y\nCONFIG_GCC_PLUGIN_LATENT_ENTROPY=y\n");
		for (size_t k = 0; k < len; k++)
			inside[k] = inside[k] == '|' ? '\0' : inside[k];
		tempdir_data(&m.folder, "build/scripts/gcc-plugins/latent_entropy_plugin.so", inside, len);
		int r = programs_check(&m.tree, &m.folder.root, rows[i].compiler, &err);
		expect(r == (rows[i].is_refused ? -1 : 0), rows[i].inside);
		expect(r == 0 || (err.code == E_TOOLCHAIN && strstr(err.text, rows[i].compiler)), err.text);
	}
}

// Of two trees of a kernel in the store the one whose programs run here is taken, and the other when it is alone.
static void test_stored(void **state)
{
	(void)state;
	static const struct headers_source stored = { .kind = HEADERS_STORE, .name = "store" };
	for (int i = 0; i < 3; i++) {
		auto_machine struct machine m;
		auto_root struct root store = ROOT_NONE;
		struct err err = { 0 };
		machine_make(&m);
		for (int k = 0; k < (i == 2 ? 1 : 2); k++) {
			auto_str char *build = str_fmt("store/%064d/usr/src/kernels/5.14", k);
			put_fixdep(&m, build, i == k ? m.own : m.other);
			const char *const files[][2] = { { "scripts/mod/modpost", "" },
							 { ".config", "CONFIG_ARM64=y\n" },
							 { "Makefile", "" },
							 { "include/generated/autoconf.h", "" },
							 { "include/generated/utsrelease.h",
							   "#define UTS_RELEASE \"5.14\"\n" } };
			auto_str char *dir = str_fmt("%s/include/generated", build);
			folder_dir(&m.folder, dir);
			for (size_t f = 0; f < ARRAY_SIZE(files); f++) {
				auto_str char *path = str_fmt("%s/%s", build, files[f][0]);
				tempdir_write(&m.folder, path, files[f][1]);
			}
		}
		auto_tree struct tree t = { .root = ROOT_NONE };
		auto_str char *from = NULL;
		assert_int_equal(root_sub(&m.folder.root, "store", &store, &err), 0);
		if (headers_find(&stored, 1, "5.14", NULL, &store, &t, &from, &err) < 0)
			fail_msg("%s", err.text);
		assert_string_equal(tree_scripts_arch(&t), i == 2 ? m.other : m.own);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cross),
					    cmocka_unit_test(test_llvm),
					    cmocka_unit_test(test_scripts),
					    cmocka_unit_test(test_stored),
					    cmocka_unit_test(test_parts_of_a_tree),
					    cmocka_unit_test(test_libraries),
					    cmocka_unit_test(test_libraries_of_this_machine),
					    cmocka_unit_test(test_plugins) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
