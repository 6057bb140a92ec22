// SPDX-License-Identifier: Apache-2.0
#include "base/linker/ldcache.h"
#include "base/linker/soname.h"
#include "tests/unit/library.h"
#include "tests/unit/tempdir.h"

static void put(const struct folder *f, const char *path, const char *soname, unsigned machine)
{
	struct library l = library_make(soname, machine);
	tempdir_data(f, path, &l, sizeof(l));
}

static int read_name(const struct folder *f, const char *path, struct soname *ret)
{
	struct err err;
	auto_fd int fd = root_open(&f->root, path, O_RDONLY, &err);
	assert_true(fd >= 0);
	return soname_read(fd, path, ret, &err);
}

static void soname_of_a_file(void **state)
{
	(void)state;
	auto_folder struct folder f;
	folder_make(&f);
	put(&f, "named", "libcuda.so.1", EM_X86_64);
	put(&f, "nameless", NULL, EM_AARCH64);
	put(&f, "climbing", "../libcuda.so.1", EM_X86_64);
	tempdir_write(&f, "text", "libcuda.so.1");
	tempdir_write(&f, "empty", "");
	static const struct {
		const char *path, *name;
		int r;
	} rows[] = {
		{ "named", "libcuda.so.1", 1 }, { "nameless", NULL, 1 }, { "climbing", NULL, 1 }, { "text", NULL, 0 },
		{ "empty", NULL, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_soname struct soname s = { 0 };
		expect(read_name(&f, rows[i].path, &s) == rows[i].r, rows[i].path);
		expect(s.name == rows[i].name || str_eq(s.name, rows[i].name), rows[i].path);
	}
}

// Cut at each byte, and with each byte as wrong as can be: no name, or some name, never a read outside.
static void damaged_libraries(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct library l = library_make("libcuda.so.1", EM_X86_64);
	folder_make(&f);
	for (size_t i = 0; i < sizeof(l); i++) {
		auto_soname struct soname cut = { 0 }, wrong = { 0 };
		struct library bad = l;
		tempdir_data(&f, "cut", &l, i);
		assert_in_range(read_name(&f, "cut", &cut), 0, 1);
		((unsigned char *)&bad)[i] = 0xff;
		tempdir_data(&f, "wrong", &bad, sizeof(bad));
		assert_in_range(read_name(&f, "wrong", &wrong), 0, 1);
	}
}

static uint32_t u32(const char *p)
{
	uint32_t ret;
	memcpy(&ret, p, sizeof(ret));
	return ret;
}

// "NAME=PATH" of each entry, in the order of the file.
static char *read_cache(const struct folder *f)
{
	struct err err;
	auto_str char *data = NULL, *ret = str_dup("");
	size_t len = 0;
	assert_int_equal(root_read(&f->root, "etc/ld.so.cache", &data, &len, &err), 1);
	assert_memory_equal(data, "glibc-ld.so.cache1.1", 20);
	uint32_t count = u32(data + 20);
	assert_int_equal(len, 48 + count * 24 + u32(data + 24));
	for (uint32_t i = 0; i < count; i++) {
		const char *slot = data + 48 + i * 24;
		str_add(&ret, "%x %s=%s\n", u32(slot), data + u32(slot + 4), data + u32(slot + 8));
	}
	return TAKE(ret);
}

static void links_and_cache(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_strv struct strv dirs = { 0 };
	struct err err;
	folder_make(&f);
	strv_split(&dirs, "usr/lib/ours:nowhere", ":");
	put(&f, "usr/lib/ours/libcuda.so.535.9", "libcuda.so.1", EM_X86_64);
	put(&f, "usr/lib/ours/libcuda.so.535.261", "libcuda.so.1", EM_X86_64);
	put(&f, "usr/lib/ours/libglcore.so.535.261", "libglcore.so.535.261", EM_X86_64);
	put(&f, "usr/lib/libcuda.so.1", "libcuda.so.1", EM_X86_64); // found later: not the one
	put(&f, "usr/lib/libm10.so", NULL, EM_X86_64);
	put(&f, "usr/lib/libm9.so", NULL, EM_X86_64);
	put(&f, "usr/lib/libarm.so.1", "libarm.so.1", EM_AARCH64);
	put(&f, "usr/lib/librisc.so.1", "librisc.so.1", EM_RISCV);
	put(&f, "opt/x/libx.so.2", "libx.so.2", EM_X86_64);
	tempdir_write(&f, "usr/lib/libtext.so", "INPUT(libc.so.6)");
	tempdir_write(&f, "usr/lib/ours/libgone.so.1.1", "");
	tempdir_link(&f, "usr/lib/ours/libgone.so.1", "nowhere");
	tempdir_link(&f, "lib", "usr/lib");
	tempdir_write(&f, "etc/ld.so.conf", "# ours\ninclude ld.so.conf.d/*.conf\n");
	tempdir_write(&f, "etc/ld.so.conf.d/x.conf", "/opt/x/ # with a slash\n/opt/x\ninclude /etc/ld.so.conf\n");
	tempdir_write(&f, "etc/ld.so.conf.d/x.conf.old", "/opt/none\n");
	assert_int_equal(ldcache_links(&f.root, &dirs, &err), 0);
	auto_str char *target = NULL;
	assert_int_equal(root_readlink(&f.root, "usr/lib/ours/libcuda.so.1", &target, &err), 1);
	assert_string_equal(target, "libcuda.so.535.261");
	assert_int_equal(ldcache_write(&f.root, &dirs, &err), 0);
	auto_str char *text = read_cache(&f);
	assert_string_equal(text, "303 libx.so.2=/opt/x/libx.so.2\n"
				  "303 libm10.so=/lib/libm10.so\n"
				  "303 libm9.so=/lib/libm9.so\n"
				  "303 libglcore.so.535.261=/usr/lib/ours/libglcore.so.535.261\n"
				  "303 libcuda.so.1=/usr/lib/ours/libcuda.so.1\n"
				  "a03 libarm.so.1=/lib/libarm.so.1\n");
}

// What leads out of the root leads nowhere, and a root without any library has an empty cache.
static void other_roots(void **state)
{
	(void)state;
	auto_folder struct folder f, outside;
	auto_strv struct strv none = { 0 };
	struct err err;
	folder_make(&f);
	folder_make(&outside);
	put(&outside, "libout.so.1", "libout.so.1", EM_X86_64);
	auto_str char *conf = str_fmt("%s\ninclude %s/*\ninclude\ninclude nothing/*\n", outside.path, outside.path);
	tempdir_write(&f, "etc/ld.so.conf", conf);
	assert_int_equal(ldcache_write(&f.root, &none, &err), 0);
	auto_str char *text = read_cache(&f);
	assert_string_equal(text, "");
	tempdir_write(&f, "blocked/etc", "a file");
	auto_root struct root blocked = ROOT_NONE;
	assert_int_equal(root_sub(&f.root, "blocked", &blocked, &err), 0);
	assert_true(ldcache_write(&blocked, &none, &err) < 0);
}

// What an image could have in store for who reads its configuration as root: each ends at once, with a code.
static void hostile_roots(void **state)
{
	(void)state;
	enum { GIB = 1 << 30 };
	static const char *const kinds[] = { "large", "many directories", "many files", "a tree of files",
					     "many names" };
	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		auto_folder struct folder f;
		auto_strv struct strv dirs = { 0 };
		auto_str char *conf = NULL;
		struct err err = { 0 };
		folder_make(&f);
		tempdir_write(&f, "etc/ld.so.conf", "");
		for (int i = 0; i < 5000 && kind == 1; i++)
			str_add(&conf, "/%d\n", i);
		for (int i = 0; i < 600 && kind == 2; i++)
			str_add(&conf, "include nothing/%d\n", i);
		for (int i = 0; i < 20 && kind == 3; i++) { // 20 ** 8 reads
			auto_str char *path = str_fmt("etc/d/%d", i);
			tempdir_write(&f, path, "include /etc/d/*\n");
		}
		for (int i = 0; i < 5000 && kind == 4; i++) {
			auto_str char *path = str_fmt("etc/d/%d", i);
			tempdir_write(&f, path, "");
		}
		if (kind >= 3)
			conf = str_dup("include d/*\n");
		if (conf)
			tempdir_write(&f, "etc/ld.so.conf", conf);
		auto_fd int fd = root_open(&f.root, "etc/ld.so.conf", O_RDWR, &err);
		if (kind == 0)
			assert_int_equal(ftruncate(fd, GIB), 0);
		expect(ldcache_conf_dirs(&f.root, &dirs, &err) < 0 && err.code == E_TOO_LARGE, kinds[kind]);
	}
}

static int read_needs(const struct folder *f, const char *path, struct needs *ret)
{
	struct err err;
	auto_fd int fd = root_open(&f->root, path, O_RDONLY, &err);
	assert_true(fd >= 0);
	return linker_needs_read(fd, path, ret, &err);
}

// What the linker would say before the program starts.
static void libraries_that_a_program_lacks(void **state)
{
	(void)state;
	static const struct {
		const char *needed, *version;      // of the program
		const char *at, *definition;       // the library in the root; NULL = none
		const char *runpath, *interpreter; // of the program
		const char *missing;
		bool is_whole; // all of the library
	} rows[] = {
		{ NULL, NULL, NULL, NULL, NULL, NULL, NULL, false },
		{ "libdw.so.1", NULL, NULL, NULL, NULL, NULL, "libdw.so.1", true },
		{ "libdw.so.1", NULL, "usr/lib64/libdw.so.1", NULL, NULL, NULL, NULL, false },
		{ "libdw.so.1", "ELFUTILS_0.122", "lib/x86_64-linux-gnu/libdw.so.1", "ELFUTILS_0.122", NULL, NULL, NULL,
		  false },
		{ "libc.so.6", "GLIBC_2.38", "lib/x86_64-linux-gnu/libc.so.6", "GLIBC_2.36", NULL, NULL,
		  "GLIBC_2.38 of libc.so.6", false },
		{ "libc.so.6", "GLIBC_2.38", "lib64/libc.so.6", NULL, NULL, NULL, NULL, false },  // has no versions
		{ "libdw.so.1", NULL, "opt/x/libdw.so.1", NULL, NULL, NULL, "libdw.so.1", true }, // not the linker's
		{ "libdw.so.1", NULL, "opt/x/libdw.so.1", NULL, "/opt/x", NULL, NULL, false },
		{ "libdw.so.1", NULL, NULL, NULL, "$ORIGIN/lib", NULL, NULL, false }, // nobody can tell
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		auto_needs struct needs needs = { 0 };
		auto_str char *missing = NULL;
		const char *library = NULL;
		struct err err;
		folder_make(&f);
		struct linked program = linked_make(rows[i].needed, rows[i].version, NULL),
			      own = linked_make(NULL, NULL, rows[i].definition);
		if (rows[i].runpath) {
			program.dyn[4].d_tag = DT_RUNPATH;
			size_t at = program.dyn[4].d_un.d_val;
			snprintf(program.strings + at, sizeof(program.strings) - at, "%s", rows[i].runpath);
		}
		tempdir_data(&f, "program", &program, sizeof(program));
		if (rows[i].at)
			tempdir_data(&f, rows[i].at, &own, sizeof(own));
		assert_int_equal(read_needs(&f, "program", &needs), 1);
		assert_int_equal(linker_missing(&f.root, &needs, &missing, &library, &err), 0);
		expect(rows[i].missing ? str_eq(missing, rows[i].missing) : !missing, missing ? missing : "nothing");
		expect(rows[i].is_whole == !!library, rows[i].needed);
	}
}

static void linker_that_is_missing(void **state)
{
	(void)state;
	static const char linker[] = "/nix/ld-linux.so.2";
	auto_folder struct folder f;
	struct linked program = linked_make(NULL, NULL, NULL);
	struct err err;
	folder_make(&f);
	program.load.p_type = PT_INTERP;
	program.load.p_offset = offsetof(struct linked, strings);
	memcpy(program.strings, linker, sizeof(linker));
	tempdir_data(&f, "program", &program, sizeof(program));
	for (int is_there = 0; is_there < 2; is_there++) {
		auto_needs struct needs needs = { 0 };
		auto_str char *missing = NULL;
		const char *library = NULL;
		if (is_there)
			tempdir_write(&f, "nix/ld-linux.so.2", "");
		assert_int_equal(read_needs(&f, "program", &needs), 1);
		assert_int_equal(linker_missing(&f.root, &needs, &missing, &library, &err), 0);
		assert_true(is_there ? !missing : str_eq(missing, linker));
	}
}

static void damaged_programs(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct linked l = linked_make("libc.so.6", "GLIBC_2.38", "A_1");
	folder_make(&f);
	for (size_t i = 0; i < sizeof(l); i++) {
		auto_needs struct needs cut = { 0 }, wrong = { 0 };
		struct linked bad = l;
		tempdir_data(&f, "cut", &l, i);
		assert_in_range(read_needs(&f, "cut", &cut), 0, 1);
		((unsigned char *)&bad)[i] = 0xff;
		tempdir_data(&f, "wrong", &bad, sizeof(bad));
		assert_in_range(read_needs(&f, "wrong", &wrong), 0, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(soname_of_a_file),
		cmocka_unit_test(damaged_libraries),
		cmocka_unit_test(libraries_that_a_program_lacks),
		cmocka_unit_test(linker_that_is_missing),
		cmocka_unit_test(damaged_programs),
		cmocka_unit_test(links_and_cache),
		cmocka_unit_test(other_roots),
		cmocka_unit_test(hostile_roots),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
