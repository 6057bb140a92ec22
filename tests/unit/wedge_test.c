// SPDX-License-Identifier: Apache-2.0
// R-D5: a load or unload that the kernel does not come back from, or that kills its caller.
#include "kmod/load/load.h"

#include "tests/unit/forge.h"
#include "tests/unit/test.h"

#include <signal.h>
#include <time.h>

// A kernel of our own. Its calls are made by a child.
enum end { ANSWERS, HANGS, DIES };
static struct {
	enum end end;
	int error;
	const char *line; // what it logs
	char log[128];
	const struct folder *folder;
	const char *taint; // what it has then
} kernel;

static int answer(void)
{
	const struct timespec long_time = { .tv_sec = 30 };
	int log = kernel.line ? open(kernel.log, O_WRONLY | O_APPEND) : -1;
	if (log >= 0 && write(log, kernel.line, strlen(kernel.line)) < 0)
		return -1;
	if (kernel.taint)
		folder_file(kernel.folder, "proc/sys/kernel/tainted", kernel.taint);
	if (kernel.end == HANGS)
		nanosleep(&long_time, NULL);
	if (kernel.end == DIES)
		raise(SIGKILL);
	errno = kernel.error;
	return kernel.error ? -1 : 0;
}

static int take_data(const struct sys *sys, const void *data, size_t len, const char *name, const char *params)
{
	(void)sys, (void)data, (void)len, (void)name, (void)params;
	return answer();
}

static int unload(const struct sys *sys, const char *name)
{
	(void)sys, (void)name;
	return answer();
}

static const struct sys kernel_sys = { .name = "fake", .module_load_data = take_data, .module_unload = unload };

static void read_module(struct module *m)
{
	struct err err;
	size_t len;
	struct forge_module ko = { .name = "nvidia", .vermagic = "6.1" };
	char *data = forge_ko(&ko, &len);
	assert_int_equal(module_parse(data, len, "nvidia.ko", m, &err), 0);
}

static void machine(struct folder *f)
{
	folder_make(f);
	folder_dir(f, "dev");
	folder_dir(f, "proc/sys/kernel");
	folder_file(f, "dev/kmsg", "4,1,1,-;Oops: 0000 [#1] from before\n");
	memset(&kernel, 0, sizeof(kernel));
	snprintf(kernel.log, sizeof(kernel.log), "%s/dev/kmsg", f->path);
}

static void test_unload(void **state)
{
	(void)state;
	auto_folder struct folder f;
	machine(&f);
	static const struct {
		int error, timeout_ms, want, code;
	} rows[] = {
		{ 0, 0, 1, 0 },
		{ 0, 5000, 1, 0 },
		{ ENOENT, 0, 0, 0 },
		{ ENOENT, 5000, 0, 0 },
		{ EAGAIN, 0, -1, E_IN_USE },
		{ EBUSY, 5000, -1, E_IN_USE },
		{ EPERM, 0, -1, E_RIGHTS },
		{ EINTR, 5000, -1, EINTR },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *row = str_fmt("%s within %d ms", strerrorname_np(rows[i].error), rows[i].timeout_ms);
		kernel.error = rows[i].error;
		expect(unload_module(&kernel_sys, &f.root, "nvidia", rows[i].timeout_ms, &err) == rows[i].want, row);
		expect(err.code == rows[i].code, row);
	}
}

// R-D5. What becomes of a call that the kernel does not come back from, or that ends with its caller.
static void test_guard(void **state)
{
	(void)state;
	static const char oops[] = "1,2,2,-;BUG: kernel NULL pointer dereference, address: 0000000000000000\n"
				   "4,3,2,-;Oops: 0002 [#1] PREEMPT SMP NOPTI\n"
				   "4,4,2,-;RIP: 0010:nv_init+0x1c/0xfe0 [nvidia]\n";
	static const struct {
		const char *name;
		enum end end;
		const char *line, *taint_before, *taint_after; // NULL: there is no such file
		bool is_log_unreadable;
		int code;
		const char *want;
	} rows[] = {
		{ "hangs", HANGS, "4,2,2,-;NVRM: waiting\n", "0", "0", false, E_WEDGED,
		  "the kernel did not return within 0.2 s; process " },
		{ "hangs, and the kernel's words", HANGS, "4,2,2,-;NVRM: waiting\n", "0", "0", false, E_WEDGED,
		  "is stuck in it; kernel: NVRM: waiting" },
		{ "oopses", DIES, oops, "0", "128", false, E_WEDGED,
		  "; kernel: BUG: kernel NULL pointer dereference, address: 0000000000000000 | Oops: 0002 [#1] PREEMPT "
		  "SMP NOPTI | RIP: 0010:nv_init+0x1c/0xfe0 [nvidia]" },
		{ "oopses in a boot that oopsed before", DIES, oops, "4224", "4224", false, E_WEDGED,
		  "the kernel oopsed in it and killed process " },
		{ "the log says nothing, the taint does", DIES, NULL, "4096", "4224", false, E_WEDGED, "oopsed" },
		{ "the log is not readable, the taint is", DIES, NULL, "4224", "4224", true, E_WEDGED, "oopsed" },
		{ "killed for lack of memory", DIES, "3,2,2,-;Memory cgroup out of memory: Killed process 9 (x)\n", "0",
		  "0", false, EINTR, "was killed, and the kernel log has no oops" },
		{ "killed in a boot that oopsed before", DIES, NULL, "128", "128", false, EINTR, "no oops" },
		{ "killed, and nothing is known", DIES, NULL, NULL, NULL, true, EINTR, "no oops" },
	};
	auto_module struct module m = MODULE_NONE;
	read_module(&m);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_folder struct folder f;
		size_t row = i / 2;
		bool is_load = i % 2;
		machine(&f);
		if (rows[row].is_log_unreadable)
			assert_int_equal(unlink(kernel.log), 0);
		if (rows[row].taint_before)
			folder_file(&f, "proc/sys/kernel/tainted", rows[row].taint_before);
		kernel.end = rows[row].end;
		kernel.line = rows[row].line;
		kernel.folder = &f;
		kernel.taint = rows[row].taint_after;
		int timeout_ms = rows[row].end == HANGS ? 200 : 20000;
		int r = is_load ? load_module(&kernel_sys, &f.root, &m, NULL, timeout_ms, &err) :
				  unload_module(&kernel_sys, &f.root, "nvidia", timeout_ms, &err);
		expect(r == -1 && err.code == rows[row].code, rows[row].name);
		if (!strstr(err.text, rows[row].want) ||
		    !str_starts(err.text, is_load ? "load 'nvidia': " : "unload 'nvidia': "))
			fail_msg("%s: '%s'", rows[row].name, err.text);
	}
}

// R-D5. How the records of the kernel's log are read: the lines of all of them are in the text.
static void test_log(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder f;
	machine(&f);
	kernel.end = HANGS;
	kernel.line = "6,10,5,-;NVRM: The NVIDIA GPU 0000:40:00.0\\x0aNVRM: installed in this system is\\x0a\n"
		      " SUBSYSTEM=pci\n DEVICE=+pci:0000:40:00.0\n"
		      "4,11,6,-;plain; with a semicolon\n"
		      "4,12,6,-; <TASK>\n";
	assert_int_equal(unload_module(&kernel_sys, &f.root, "nvidia", 200, &err), -1);
	assert_int_equal(err.code, E_WEDGED);
	if (!str_ends(err.text, "; kernel: NVRM: The NVIDIA GPU 0000:40:00.0 installed in this system is | "
				"plain; with a semicolon | <TASK>"))
		fail_msg("'%s'", err.text);
}

// The call was through when its caller was killed: the module is there, and an undo has to know.
static void test_killed_behind_a_load(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder f;
	auto_module struct module m = MODULE_NONE;
	read_module(&m);
	machine(&f);
	kernel.end = DIES;
	folder_dir(&f, "sys/module/nvidia");
	folder_file(&f, "sys/module/nvidia/initstate", "coming\n");
	assert_int_equal(load_module(&kernel_sys, &f.root, &m, NULL, 20000, &err), -1);
	folder_file(&f, "sys/module/nvidia/initstate", "live\n");
	assert_int_equal(load_module(&kernel_sys, &f.root, &m, NULL, 20000, &err), 1);
}

// The lines of x86 and arm64 kernels.
static void test_oops(void **state)
{
	(void)state;
	static const struct {
		const char *lines, *told;
		bool is_oops;
	} rows[] = {
		{ "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] PREEMPT SMP\nCPU: 0 "
		  "PID: 9",
		  "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] PREEMPT SMP", true },
		{ "kernel BUG at nv.c:9!\ninvalid opcode: 0000 [#2] SMP",
		  "kernel BUG at nv.c:9!|invalid opcode: 0000 [#2] SMP", true },
		{ "Unable to handle kernel paging request at virtual address ffff\nMem abort info:\n"
		  "Internal error: Oops: 0000000096000045 [#1] SMP\npc : nv_init+0x18/0x1000 [nvidia]",
		  "Unable to handle kernel paging request at virtual address ffff|Internal error: Oops: "
		  "0000000096000045 [#1] "
		  "SMP|pc : nv_init+0x18/0x1000 [nvidia]",
		  true },
		{ "BUG: unable to handle page fault\nOops: 0002 [#1] SMP\nRIP: 0010:hang+0x5/0x10 [stub]\n"
		  "---[ end trace ]---\nRIP: 0010:hang+0x5/0x10 [stub]",
		  "BUG: unable to handle page fault|Oops: 0002 [#1] SMP|RIP: 0010:hang+0x5/0x10 [stub]", true },
		{ "BUG: workqueue lockup - pool cpus=0", "BUG: workqueue lockup - pool cpus=0", false },
		{ "WARNING: CPU: 0 PID: 9 at nv.c:1\nnvidia: array [#x]", "", false },
		{ "", "", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv lines = { 0 }, told = { 0 };
		strv_split(&lines, rows[i].lines, "\n");
		expect(load_find_oops(&lines, &told) == rows[i].is_oops, rows[i].lines);
		auto_str char *text = told.count ? strv_join(&told, "|") : str_dup("");
		expect(str_eq(text, rows[i].told), text);
	}
}

// R-D5. Stacks as Linux 6.1 shows them.
static void test_wedged(void **state)
{
	(void)state;
	static const char stack[] = "[<0>] msleep+0x29/0x40\n"
				    "[<0>] nvidia_exit_module+0x1c/0xfe0 [nvidia]\n"
				    "[<0>] __do_sys_delete_module.constprop.0+0x17a/0x2e0\n"
				    "[<0>] do_syscall_64+0x55/0xb0\n"
				    "[<0>] entry_SYSCALL_64_after_hwframe+0x6e/0xd8\n"
				    "[<0>] a_sixth+0x1/0x2\n";
	static const struct {
		const char *row, *stack, *line, *want;
	} rows[] = {
		{ "all of it", stack, "NVRM: Attempting to remove device 0000:40:00.0",
		  "unload 'nvidia': it hangs; it is in msleep, nvidia_exit_module [nvidia], "
		  "__do_sys_delete_module.constprop.0, do_syscall_64, entry_SYSCALL_64_after_hwframe; "
		  "kernel: NVRM: Attempting to remove device 0000:40:00.0 | more" },
		{ "no right to read the stack", NULL, "line", "unload 'nvidia': it hangs; kernel: line | more" },
		{ "an empty stack and a silent kernel", "", NULL, "unload 'nvidia': it hangs" },
		{ "frames of an old kernel",
		  "[<ffffffffc0a8>] f+0x1/0x2 [nvidia]\n[<ffffffffffff>] 0xffffffffffffffff\n", NULL,
		  "unload 'nvidia': it hangs; it is in f [nvidia], 0xffffffffffffffff" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_strv struct strv lines = { 0 };
		if (rows[i].line) {
			strv_add(&lines, str_dup(rows[i].line));
			strv_add(&lines, str_dup("more"));
		}
		expect(load_explain_wedge("unload 'nvidia'", "it hangs", rows[i].stack, &lines, &err) == -1,
		       rows[i].row);
		expect(err.code == E_WEDGED, rows[i].row);
		if (!str_eq(err.text, rows[i].want))
			fail_msg("%s: '%s'", rows[i].row, err.text);
	}
}

// However long a stack is, what the kernel said last is in the text, up to its end.
static void test_wedged_long(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_strv struct strv lines = { 0 };
	auto_str char *stack = NULL;
	for (int i = 0; i < 5; i++)
		str_add(&stack, "[<0>] %0120d+0x1/0x2\n", i);
	for (int i = 0; i < 100; i++)
		strv_add(&lines, str_fmt("line %d", i));
	assert_int_equal(load_explain_wedge("unload 'nvidia_modeset'",
					    "the kernel did not return within 60 s; process 4194304 is stuck in it",
					    stack, &lines, &err),
			 -1);
	assert_non_null(strstr(err.text, " | line 98 | line 99"));
	assert_null(strstr(err.text, "line 0"));
	assert_true(str_ends(err.text, "line 99"));
	strv_add(&lines, str_fmt("first word %0300d last word", 0));
	load_explain_wedge("load 'nvidia'", "it hangs", NULL, &lines, &err);
	assert_true(str_ends(err.text, "0 last word"));
	assert_null(strstr(err.text, "first word"));
	assert_int_equal(strlen(err.text), strlen("load 'nvidia': it hangs; kernel: ") + 240);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unload), cmocka_unit_test(test_guard),
		cmocka_unit_test(test_oops),   cmocka_unit_test(test_killed_behind_a_load),
		cmocka_unit_test(test_wedged), cmocka_unit_test(test_wedged_long),
		cmocka_unit_test(test_log),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
