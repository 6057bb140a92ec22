// SPDX-License-Identifier: Apache-2.0
#include "base/process/proc.h"

#include "base/core/date.h"
#include "tests/unit/test.h"

#include <signal.h>

// The shell is only here to play programs that end, write and hang in all ways.
static int run(const char *script, int timeout_ms, struct proc_end *ret, struct err *err)
{
	const char *const argv[] = { "/bin/sh", "-c", script, NULL }, *const env[] = { "PATH=/usr/bin:/bin", NULL };
	return proc_run(&(struct proc){ .argv = argv, .env = env, .timeout_ms = timeout_ms }, ret, err);
}

static bool is_alive(pid_t pid)
{
	return kill(pid, 0) == 0;
}

// A killed process stays visible until the process that inherited it has reaped it.
static bool is_gone_soon(pid_t pid)
{
	for (int i = 0; i < 3000 && is_alive(pid); i++) {
		char path[40], stat[200] = "";
		snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
		auto_fd int fd = open(path, O_RDONLY);
		if (fd >= 0 && read(fd, stat, sizeof(stat) - 1) > 0 && strstr(stat, ") Z "))
			return true;
		usleep(10000);
	}
	return !is_alive(pid);
}

static void test_kinds_of_end(void **state)
{
	(void)state;
	static const struct {
		const char *script;
		int timeout_ms, status, signal;
		bool is_timed_out;
	} rows[] = {
		{ "exit 0", 0, 0, 0, false },
		{ "exit 0", 10000, 0, 0, false },
		{ "exit 3", 0, 3, 0, false },
		{ "exit 255", 10000, 255, 0, false },
		{ "kill -9 $$", 0, -1, SIGKILL, false },
		{ "kill -SEGV $$", 10000, -1, SIGSEGV, false },
		{ "kill -TERM $$", 10000, -1, SIGTERM, false },
		{ "exec sleep 60", 100, -1, SIGTERM, true },
		{ "trap 'exit 7' TERM; sleep 60 & wait", 2000, 7, 0, true },
		{ "exec >/dev/null 2>&1; exec sleep 60", 100, -1, SIGTERM, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct proc_end end;
		struct err err;
		long start = clock_ms();
		expect(run(rows[i].script, rows[i].timeout_ms, &end, &err) == 0, rows[i].script);
		expect(end.status == rows[i].status && end.signal == rows[i].signal, rows[i].script);
		expect(end.is_timed_out == rows[i].is_timed_out, rows[i].script);
		expect(clock_ms() - start < 40000, rows[i].script); // none is waited for to its end
	}
}

static void test_must_accepts_only_success(void **state)
{
	(void)state;
	static const struct {
		const char *script;
		int timeout_ms;
		const char *text; // NULL = works
	} rows[] = {
		{ "echo fine", 0, NULL },
		{ "echo one; echo two >&2; exit 4", 0, "'/bin/sh' failed with status 4: two" },
		{ "echo bye; kill -9 $$", 0, "'/bin/sh' was killed by signal 9: bye" },
		{ "echo still here; exec sleep 60", 2000, "'/bin/sh' did not end within 2000 ms: still here" },
		{ "exit 1", 0, "'/bin/sh' failed with status 1: no output" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct proc_end end;
		struct err err = { 0 };
		const char *const argv[] = { "/bin/sh", "-c", rows[i].script, NULL }, *const env[] = { "PATH=/bin",
												       NULL };
		struct proc proc = { .argv = argv, .env = env, .timeout_ms = rows[i].timeout_ms };
		expect(proc_must(&proc, &end, &err) == (rows[i].text ? -1 : 0), rows[i].script);
		expect(!rows[i].text || (err.code == E_SYSTEM && str_eq(err.text, rows[i].text)), err.text);
	}
}

static void test_a_program_that_cannot_start(void **state)
{
	(void)state;
	struct proc_end end;
	struct err err;
	if (is_emulated())
		skip();
	const char *const none[] = { "/no/such/program", NULL }, *const file[] = { "/etc/os-release", NULL };
	assert_int_equal(proc_run(&(struct proc){ .argv = none }, &end, &err), -1);
	assert_int_equal(err.code, ENOENT);
	assert_true(strstr(err.text, "'/no/such/program'"));
	assert_int_equal(proc_run(&(struct proc){ .argv = file }, &end, &err), -1);
	assert_int_equal(err.code, EACCES);
	const char *const here[] = { "/bin/true", NULL };
	assert_int_equal(proc_run(&(struct proc){ .argv = here, .dir = "/no/such/dir" }, &end, &err), -1);
	assert_int_equal(err.code, ENOENT);
}

static void test_a_timeout_ends_the_whole_group(void **state)
{
	(void)state;
	// A grandchild that ignores SIGTERM, with the pipe kept open and with it closed.
	static const char *const scripts[] = {
		"(trap '' TERM; sleep 61; sleep 61) & echo $!; wait",
		"(trap '' TERM; exec >/dev/null 2>&1; sleep 61; sleep 61) & echo $!; wait",
	};
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		struct proc_end end;
		struct err err;
		uint64_t pid = 0;
		assert_int_equal(run(scripts[i], 2000, &end, &err), 0);
		assert_true(end.is_timed_out);
		expect(str_u64(str_trim(end.tail), 10, &pid), end.tail);
		expect(is_gone_soon((pid_t)pid), scripts[i]);
	}
}

static void test_a_background_daemon_does_not_block(void **state)
{
	(void)state;
	struct proc_end end;
	struct err err;
	long start = clock_ms();
	assert_int_equal(run("sleep 120 & echo $!", 0, &end, &err), 0);
	assert_int_equal(end.status, 0);
	assert_true(clock_ms() - start < 60000);
	uint64_t pid = 0;
	assert_true(str_u64(str_trim(end.tail), 10, &pid));
	assert_true(is_alive((pid_t)pid)); // a program that ended well keeps what it started
	kill((pid_t)pid, SIGKILL);
}

static void collect(void *ctx, const char *line)
{
	strv_add(ctx, str_dup(line));
}

static void test_lines(void **state)
{
	(void)state;
	static const char script[] = "echo one; echo two >&2; echo; printf 'a\\000b\\n'; printf last";
	const char *const argv[] = { "/bin/sh", "-c", script, NULL };
	auto_strv struct strv lines = { 0 };
	struct proc_end end;
	struct err err;
	assert_int_equal(proc_run(&(struct proc){ .argv = argv, .line = collect, .ctx = &lines }, &end, &err), 0);
	auto_str char *joined = strv_join(&lines, "|");
	assert_string_equal(joined, "one|two||a?b|last");
	assert_string_equal(end.tail, "one\ntwo\n\na?b\nlast\n");
}

static void test_much_output_is_all_seen_and_its_end_is_kept(void **state)
{
	(void)state;
	static const char script[] = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done";
	const char *const argv[] = { "/bin/sh", "-c", script, NULL };
	auto_strv struct strv lines = { 0 };
	struct proc_end end;
	struct err err;
	assert_int_equal(proc_run(&(struct proc){ .argv = argv, .line = collect, .ctx = &lines }, &end, &err), 0);
	assert_int_equal(lines.count, 20000);
	assert_string_equal(lines.items[19999], "line 19999");
	assert_true(str_starts(end.tail, "line 19")); // whole lines only
	assert_true(str_ends(end.tail, "\nline 19999\n"));
	assert_true(strlen(end.tail) > sizeof(end.tail) - 20);
}

static void test_a_line_without_end(void **state)
{
	(void)state;
	static const char script[] = "head -c 100000 /dev/zero | tr '\\0' x; echo; echo end";
	const char *const argv[] = { "/bin/sh", "-c", script, NULL }, *const env[] = { "PATH=/usr/bin:/bin", NULL };
	auto_strv struct strv lines = { 0 };
	struct proc_end end;
	struct err err;
	struct proc proc = { .argv = argv, .env = env, .line = collect, .ctx = &lines };
	assert_int_equal(proc_run(&proc, &end, &err), 0);
	size_t len = 0;
	for (size_t i = 0; i < lines.count; i++)
		len += strlen(lines.items[i]);
	assert_int_equal(len, 100003);
	assert_string_equal(lines.items[lines.count - 1], "end");
	assert_true(str_ends(end.tail, "x\nend\n") || str_eq(end.tail, "end\n"));
}

static void test_environment_directory_and_input(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	folder_file(&folder, "input", "typed\n");
	struct proc_end end;
	struct err err;
	setenv("KMODSMITH_LEAK", "1", 1);
	const char *const argv[] = { "/bin/sh", "-c", "echo \"$A,${KMODSMITH_LEAK-unset}\"; pwd; cat", NULL };
	const char *const env[] = { "A=b", "PATH=/usr/bin:/bin", NULL };
	auto_fd int in = root_open(&folder.root, "input", O_RDONLY, &err);
	assert_int_equal(dup2(in, 0), 0); // our own input, which is not the program's: that is the null device
	struct proc proc = { .argv = argv, .env = env, .dir = folder.path };
	assert_int_equal(proc_run(&proc, &end, &err), 0);
	auto_str char *want = str_fmt("b,unset\n%s\n", folder.path);
	assert_string_equal(end.tail, want);
	proc.dir = NULL;
	assert_int_equal(proc_must(&proc, &end, &err), 0);
	assert_true(end.peak_kib > 0);
}

// Of a caller that left one open without O_CLOEXEC: a daemon would hold its lock as long as it lives.
static void test_no_other_descriptor(void **state)
{
	(void)state;
	struct proc_end end;
	struct err err = { 0 };
	auto_fd int left = open("/dev/null", O_RDONLY);
	assert_true(left > 2);
	assert_int_equal(run("for fd in /proc/self/fd/*; do [ ${fd##*/} -lt 3 ] || readlink $fd; done", 0, &end, &err),
			 0);
	assert_null(strstr(end.tail, "/dev/null"));
}

static void test_signals_are_as_new(void **state)
{
	(void)state;
	struct proc_end end;
	struct err err;
	sigset_t block, old;
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigprocmask(SIG_BLOCK, &block, &old);
	signal(SIGPIPE, SIG_IGN);
	int r = run("kill -PIPE $$; exit 5", 10000, &end, &err);
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(r, 0);
	assert_int_equal(end.signal, SIGPIPE);
}

static void test_find(void **state)
{
	(void)state;
	auto_str char *sh = proc_find(PROC_PATH, "sh"), *none = proc_find(PROC_PATH, "no-such-program");
	assert_true(str_ends(sh, "/sh") && sh[0] == '/');
	assert_null(none);
	auto_folder struct folder folder;
	folder_make(&folder);
	folder_dir(&folder, "sh"); // a directory is no program
	auto_str char *path = str_fmt("%s:/bin", folder.path), *found = proc_find(path, "sh");
	assert_string_equal(found, "/bin/sh");
	auto_str char *relative = proc_find(".:bin", "sh"); // never from where we happen to be
	assert_null(relative);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds_of_end),
		cmocka_unit_test(test_must_accepts_only_success),
		cmocka_unit_test(test_a_program_that_cannot_start),
		cmocka_unit_test(test_a_timeout_ends_the_whole_group),
		cmocka_unit_test(test_a_background_daemon_does_not_block),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_much_output_is_all_seen_and_its_end_is_kept),
		cmocka_unit_test(test_a_line_without_end),
		cmocka_unit_test(test_environment_directory_and_input),
		cmocka_unit_test(test_no_other_descriptor),
		cmocka_unit_test(test_signals_are_as_new),
		cmocka_unit_test(test_find),
	};
	return cmocka_run_group_tests_name("proc", tests, NULL, NULL);
}
