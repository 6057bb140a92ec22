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
		cmocka_unit_test(test_killed_compilers),
		cmocka_unit_test(test_progress_and_log),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
