// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/test.h"

#include "kmod/build/build.h"
#include "kmod/build/buildlog.h"

static void feed(struct buildlog *log, const char *text)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++)
		buildlog_line(log, lines.items[i]);
}

// R-B2: the first real error, not the tail of make.
static void test_first_error(void **state)
{
	(void)state;
	static const struct {
		const char *log, *error;
	} rows[] = {
		{ "  CC [M]  /build/src/nvidia/nv-pci.o\n"
		  "/build/src/nvidia/nv-pci.c: In function 'nv_resize_pcie_bars':\n"
		  "/build/src/nvidia/nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'\n"
		  "  223 |     r = pci_resize_resource(pci_dev, NV_GPU_BAR1, requested_size);\n"
		  "/build/src/nvidia/nv-pci.c:300:9: error: a later one\n"
		  "make[3]: *** [/usr/src/linux/scripts/Makefile.build:250: /build/src/nvidia/nv-pci.o] Error 1\n"
		  "make[1]: *** [/usr/src/linux/Makefile:2017: /build/src] Error 2\n",
		  "nvidia/nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'" },
		{ "make[3]: *** [Makefile:1: x] Error 1\n/usr/src/linux/include/linux/mm.h:12: fatal error: x.h: "
		  "gone\n",
		  "/usr/src/linux/include/linux/mm.h:12: fatal error: x.h: gone" },
		{ "/build/src/a.c:1:1: warning: quoting \"error: \" is no error\nERROR: modpost: \"foo\" [nvidia.ko] "
		  "undefined!\n"
		  "make[2]: *** [scripts/Makefile.modpost:126: Module.symvers] Error 1\n",
		  "ERROR: modpost: \"foo\" [nvidia.ko] undefined!" },
		{ "gcc-11: error: unrecognized command-line option '-fmin-function-alignment=16'\nmake: *** [a:1: b] "
		  "Error 1\n",
		  "gcc-11: error: unrecognized command-line option '-fmin-function-alignment=16'" },
		{ "ld: cannot find nv-kernel.o\nmake: *** [x] Error 1\n", "ld: cannot find nv-kernel.o" },
		{ "/bin/sh: 1: objtool: not found\nmake: *** [x] Error 127\n", "/bin/sh: 1: objtool: not found" },
		{ "make[1]: *** No rule to make target 'x', needed by 'y'.  Stop.\nmake: *** [m] Error 2\n",
		  "make[1]: *** No rule to make target 'x', needed by 'y'.  Stop." },
		{ "The kernel you are installing for is a PREEMPT_RT kernel!\n*** Failed PREEMPT_RT sanity check. "
		  "Bailing out! ***\n"
		  "make[1]: *** [Kbuild:1] Error 1\n",
		  "*** Failed PREEMPT_RT sanity check. Bailing out! ***" },
		{ "ld -m elf_x86_64 -r -o a.o b.o\n  LD [M]  /build/src/nvidia.ko\n CONFTEST: error_name\n", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buildlog log = { .fd = -1 };
		feed(&log, rows[i].log);
		expect(rows[i].error ? str_eq(log.error, rows[i].error) : !log.error,
		       log.error ? log.error : rows[i].log);
		buildlog_done(&log);
	}
}

// Of each: what came before and after the line that a person needs, as the programs say it.
static void test_first_error_of_programs(void **state)
{
	(void)state;
	static const struct {
		const char *before, *needed, *after;
	} rows[] = {
		{ "", "error: gendwarfksyms: process_module: dwarf_get_units failed: no debugging information?",
		  "make[4]: *** [/usr/src/linux/scripts/Makefile.build:295: nvidia/nv.o] Error 1" },
		{ "",
		  "scripts/gendwarfksyms/gendwarfksyms: error while loading shared libraries: libdw.so.1: cannot open "
		  "shared object file: No such file or directory",
		  "make[4]: *** [scripts/Makefile.build:295: nvidia/nv.o] Error 127" },
		{ "",
		  "scripts/mod/modpost: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by "
		  "scripts/mod/modpost)",
		  "make[2]: *** [scripts/Makefile.modpost:145: Module.symvers] Error 1" },
		{ "", "nvidia/nv.c:77: syntax error",
		  "make[3]: *** [scripts/Makefile.build:250: nvidia/nv.o] Error 1" },
		{ "nvidia/nv.o: warning: objtool: nv_open+0x12: unreachable instruction",
		  "nvidia/nv-kernel.o_binary: error: objtool: section entry mismatch",
		  "make[4]: *** [scripts/Makefile.build:433: nvidia.o] Error 255" },
		{ "", "Segmentation fault (core dumped)",
		  "make[4]: *** [scripts/Makefile.build:433: nvidia.o] Error 139\nmake: *** [Makefile:82: modules] "
		  "Error 2" },
		{ "WARNING: modpost: missing MODULE_DESCRIPTION() in nvidia.o",
		  "FATAL: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_lock'",
		  "make[1]: *** [scripts/Makefile.modpost:126: __modpost] Error 1" },
		{ "", "ERROR: \"foo\" [/build/src/nvidia.ko] undefined!",
		  "make[1]: *** [Makefile.modpost:92: __modpost] Error 1" },
		{ "libbpf: failed to find '.BTF' ELF section in vmlinux",
		  "FAILED: load BTF from vmlinux: No data available",
		  "make[1]: *** [scripts/Makefile.modfinal:57: nvidia.ko] Error 255" },
		{ "", "FAILED cannot open nvidia.ko: No such file or directory",
		  "make[1]: *** [scripts/Makefile.modfinal:57: nvidia.ko] Error 255" },
		{ "", "pahole: nvidia.ko: Invalid argument",
		  "make[1]: *** [scripts/Makefile.modfinal:57: nvidia.ko] Error 1" },
		{ "", "fixdep: error opening file: nvidia/.nv.o.d: No such file or directory",
		  "make[3]: *** [scripts/Makefile.build:250: nvidia/nv.o] Error 2" },
		{ "ld: warning: nv-kernel.o: missing .note.GNU-stack section implies executable stack",
		  "ld: nvidia/nv-kernel.o: file not recognized: file format not recognized",
		  "make[3]: *** [scripts/Makefile.build:433: nvidia.o] Error 1" },
		{ "", "ld.lld-16: error: unknown argument '--fix-cortex-a8'",
		  "make[3]: *** [scripts/Makefile.build:433: nvidia.o] Error 1" },
		{ "",
		  "/usr/bin/aarch64-linux-gnu-ld: cannot open linker script file scripts/module.lds: No such file or "
		  "directory",
		  "collect2: error: ld returned 1 exit status\nmake[1]: *** [nvidia.ko] Error 1" },
		{ "{standard input}: Assembler messages:",
		  "{standard input}:123: Error: no such instruction: `endbr64'",
		  "make[3]: *** [scripts/Makefile.build:250: nvidia/nv.o] Error 1" },
		{ "", "cc1: error: cannot load plugin ./scripts/gcc-plugins/randomize_layout_plugin.so: cannot open",
		  "make[3]: *** [scripts/Makefile.build:250: nvidia/nv.o] Error 1" },
		{ "", "cc1: out of memory allocating 65536 bytes after a total of 1703936 bytes",
		  "make[3]: *** [scripts/Makefile.build:250: nvidia/nv.o] Error 1" },
		{ "", "LLVM ERROR: out of memory",
		  "clang-16: error: clang frontend command failed with exit code 134" },
		{ "gcc: error: one that follows from it", "ld: final link failed: No space left on device",
		  "make[3]: *** [nvidia.o] Error 1" },
		{ "", "/bin/sh: 1: ld.lld: not found",
		  "make[3]: *** [scripts/Makefile.build:433: nvidia.o] Error 127" },
		{ "", "sh: scripts/basic/fixdep: Exec format error", "make[3]: *** [nvidia/nv.o] Error 126" },
		{ "", "make[3]: gcc-99: No such file or directory", "make[3]: *** [nvidia/nv.o] Error 127" },
		{ "", "***  ERROR: Kernel configuration is invalid. The following files are missing:",
		  "make: *** [Makefile:700: include/config/auto.conf] Error 1" },
		{ "", "Makefile:1062: *** \"Cannot generate ORC metadata, please install libelf-dev\".  Stop.",
		  "make: *** [Makefile:82: modules] Error 2" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buildlog log = { .fd = -1 };
		auto_str char *text =
			str_fmt("%s\n  CC [M]  nvidia/nv.o\n%s\n%s\n", rows[i].before, rows[i].needed, rows[i].after);
		feed(&log, text);
		expect(str_eq(log.error, rows[i].needed), log.error ? log.error : text);
		buildlog_done(&log);
	}
}

// Of whole logs.
static void test_logs(void **state)
{
	(void)state;
	static const struct {
		const char *what, *log, *needed;
	} rows[] = {
#define LOG(what, log, needed) { what, log, needed },
#include "tests/unit/buildlog.def"
#undef LOG
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buildlog log = { .fd = -1 };
		feed(&log, rows[i].log);
		auto_str char *got = str_fmt("%s: %s", rows[i].what, log.error ? log.error : "nothing");
		expect(str_eq(log.error, rows[i].needed), got);
		buildlog_done(&log);
	}
}

// R-M1
static void test_killed_compilers(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		bool is_killed;
	} rows[] = {
		{ "gcc: fatal error: Killed signal terminated program cc1", true },
		{ "make[3]: *** [Makefile:250: nvidia/nv.o] Error 137", true },
		{ "make[3]: *** [Makefile:250: nvidia/nv.o] Killed", true },
		{ "collect2: fatal error: ld terminated with signal 9 [Killed]", true },
		{ "make[3]: *** [Makefile:250: nvidia/nv.o] Error 1", false },
		{ "  CC [M]  /build/src/Killed.o", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buildlog log = { .fd = -1 };
		feed(&log, rows[i].line);
		expect(log.is_killed == rows[i].is_killed, rows[i].line);
		buildlog_done(&log);
	}
}

static size_t last_done, last_total;

static void on_progress(void *ctx, size_t done, size_t total)
{
	(void)ctx;
	assert_true(done <= total);
	last_done = done;
	last_total = total;
}

static void test_progress_and_log(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	struct err err;
	folder_file(&folder, "log", "");
	auto_fd int fd = root_open(&folder.root, "log", O_WRONLY, &err);
	struct buildlog log = { .fd = fd, .total = 2, .progress = on_progress };
	feed(&log, "  CC [M]  a.o\n CONFTEST: x\n  LD [M]  a.ko\n  CC [M]  b.o\n  CC [M]  more-than-expected.o\n");
	assert_int_equal(last_done, 2);
	assert_int_equal(last_total, 2);
	buildlog_done(&log);
	folder_expect(&folder, "log",
		      "  CC [M]  a.o\n CONFTEST: x\n  LD [M]  a.ko\n  CC [M]  b.o\n  CC [M]  more-than-expected.o\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_error),
		cmocka_unit_test(test_first_error_of_programs),
		cmocka_unit_test(test_logs),
		cmocka_unit_test(test_killed_compilers),
		cmocka_unit_test(test_progress_and_log),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
