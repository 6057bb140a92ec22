// SPDX-License-Identifier: Apache-2.0
// Processes of daemons on a recorded machine: which run, which only seem to, and in which order they are stopped
// (contract 1.10, R-P1).
#include "base/process/proc.h"
#include "daemons/daemon_record.h"
#include "daemons/holders_wait.h"

#include "daemons/daemon_process.h"
#include "tests/unit/tempdir.h"

#include <signal.h>
#include <sys/wait.h>

static struct folder folder;
static struct sys sys;
static struct err err;
static struct progress progress;
static const struct node node = { .host = &folder.root, .kern = &folder.root, .sys = &sys, .progress = &progress };

static int setup(void **state)
{
	(void)state;
	folder_make(&folder);
	tempdir_write(&folder, "proc/sys/kernel/random/boot_id", "this-boot\n");
	folder_dir(&folder, "run/nvidia/driver");
	folder_dir(&folder, "run/nvidia-persistenced");
	tempdir_write(&folder, "dev/null", "");
	sys = sys_recorder(&folder.root);
	err = (struct err){ 0 };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	folder_done(&folder);
	return 0;
}

static void process(int pid, int start, const char *exe)
{
	auto_str char *stat = str_fmt("proc/%d/stat", pid), *link = str_fmt("proc/%d/exe", pid),
		      *text = str_fmt("%d (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0\n", pid, start);
	tempdir_write(&folder, stat, text);
	if (exe)
		tempdir_link(&folder, link, exe);
}

static char *calls(void)
{
	char *text = NULL;
	return root_read(&folder.root, ".sys-calls", &text, NULL, &err) > 0 ? text : str_dup("");
}

#define PROGRAM "/usr/bin/nvidia-persistenced"
#define OLD "/run/nvidia/.driver.3" PROGRAM

static void who_runs(void **state)
{
	(void)state;
	static const struct {
		const char *row, *exe, *pid_file;
		int start, known, known_start;
		int want; // pid, 0 = nobody
	} rows[] = {
		{ "nobody", NULL, NULL, 0, 0, 0, 0 },
		{ "the known one", PROGRAM, NULL, 500, 41, 500, 41 },
		{ "of an earlier driver root", OLD, NULL, 500, 41, 500, 41 },
		{ "whose file is deleted", OLD " (deleted)", NULL, 500, 41, 500, 41 },
		{ "the number is another's now", PROGRAM, NULL, 900, 41, 500, 0 },
		{ "another program", "/usr/bin/python3", NULL, 500, 41, 500, 0 },
		{ "a zombie", NULL, NULL, 500, 41, 500, 0 },
		{ "by its pid file", PROGRAM, "41\n", 500, 0, 0, 41 },
		{ "by its pid file, after a restart by others", PROGRAM, "41\n", 900, 41, 500, 41 },
		{ "a stale pid file", "/usr/bin/python3", "41\n", 500, 0, 0, 0 },
		{ "of nobody", NULL, "77\n", 0, 0, 0, 0 },
		{ "that is none", PROGRAM, "no number\n", 500, 0, 0, 0 },
		{ "that names process 1", PROGRAM, "1\n", 500, 0, 0, 0 },
		{ "an empty one", PROGRAM, "", 500, 0, 0, 0 },
	};
	auto_strv struct strv argv = { 0 };
	strv_add(&argv, str_dup(PROGRAM));
	const struct daemon_unit unit = {
		.name = "p", .dir = "nvidia-persistenced", .pid_file = "p.pid", .socket = "socket", .argv = &argv
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int pid = 0;
		uint64_t start = 0;
		root_rmtree(&folder.root, "proc/41", &err);
		root_unlink(&folder.root, "run/nvidia-persistenced/p.pid", &err);
		if (rows[i].start)
			process(41, rows[i].start, rows[i].exe);
		if (rows[i].pid_file)
			tempdir_write(&folder, "run/nvidia-persistenced/p.pid", rows[i].pid_file);
		int r = daemon_find(&node, &unit, rows[i].known, (uint64_t)rows[i].known_start, &pid, &start);
		expect(r == (rows[i].want != 0) && pid == rows[i].want, rows[i].row);
		expect(!r || start == (uint64_t)rows[i].start, rows[i].row);
	}
	// What a dead one left does not keep the next from starting.
	tempdir_write(&folder, "run/nvidia-persistenced/socket", "");
	assert_true(daemon_launch(&node, "run/nvidia/driver", &unit, 1, &err) > 0);
	assert_false(root_exists(&folder.root, "run/nvidia-persistenced/socket"));
	assert_false(root_exists(&folder.root, "run/nvidia-persistenced/p.pid"));
	auto_str char *text = calls();
	assert_string_equal(text, "start " PROGRAM "\n");
}

static void record(int owner_start)
{
	static const char *const names[] = { "nvlsm", "nvidia-fabricmanager", "nvidia-persistenced" };
	auto_daemon_record struct daemon_record r = { .owner = 99,
						      .owner_start = (uint64_t)owner_start,
						      .driver = str_dup("run/nvidia/driver"),
						      .items = mem_alloc(3 * sizeof(struct daemon_entry)),
						      .count = 3 };
	for (size_t i = 0; i < r.count; i++) {
		auto_str char *exe = str_fmt("/usr/bin/%s", names[i]);
		r.items[i] = (struct daemon_entry){ .name = str_dup(names[i]),
						    .state = str_dup("up"),
						    .pid = 41 + (int)i,
						    .start = 500,
						    .is_needed = i < 2,
						    .restarts = 2,
						    .last = str_dup("ended by signal 9"),
						    .dir = str_dup(names[i]),
						    .env = str_dup("A=b"),
						    .socket = str_dup("socket") };
		strv_add(&r.items[i].log, str_dup("a line"));
		strv_add(&r.items[i].argv, str_dup(exe));
		strv_add(&r.items[i].argv, str_dup("-c"));
		process(41 + (int)i, 500, exe);
	}
	assert_int_equal(daemon_record_write(&folder.root, "this-boot", &r, &err), 0);
}

static void what_is_recorded(void **state)
{
	(void)state;
	static const char *const nonsense[] = { "", "[]", "{\"boot_id\": \"this-boot\"", "null" };
	auto_daemon_record struct daemon_record r = { 0 }, none = { 0 };
	record(7);
	assert_int_equal(daemon_record_read(&folder.root, "other-boot", &none, &err), 0);
	assert_int_equal(daemon_record_read(&folder.root, "this-boot", &r, &err), 1);
	assert_int_equal(r.count, 3);
	const struct daemon_entry *e = &r.items[1];
	assert_string_equal(e->name, "nvidia-fabricmanager");
	assert_true(e->pid == 42 && e->start == 500 && e->is_needed && e->restarts == 2 && e->argv.count == 2);
	assert_string_equal(e->last, "ended by signal 9");
	assert_string_equal(e->socket, "socket");
	assert_string_equal(e->env, "A=b");
	assert_string_equal(e->log.items[0], "a line");
	assert_null(e->pid_file);
	assert_true(daemon_entry_runs(e, &folder.root));
	assert_false(daemon_record_owned(&r, &folder.root));
	process(99, 7, NULL);
	assert_true(daemon_record_owned(&r, &folder.root));
	assert_int_equal(daemon_record_forget(&folder.root, &err), 1);
	assert_int_equal(daemon_record_forget(&folder.root, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		tempdir_write(&folder, "run/kmodsmith/daemons.json", nonsense[i]);
		expect(daemon_record_read(&folder.root, "this-boot", &none, &err) == 0, nonsense[i]);
	}
}

static void holder(struct holders *h, int pid, int start)
{
	h->items = mem_grow(h->items, h->count + 1, sizeof(*h->items));
	h->items[h->count++] = (struct holder){ .pid = pid, .start = (uint64_t)start, .comm = str_dup("x") };
}

static void ours_are_no_holders(void **state)
{
	(void)state;
	auto_holders struct holders h = { 0 }, others = { 0 };
	holder(&h, 40, 500);
	holder(&h, 41, 500); // ours, twice
	holder(&h, 41, 500);
	holder(&h, 42, 900); // the number of one of ours
	holder(&h, 43, 500);
	holder(&h, 50, 0);
	holder(&others, 41, 500);
	assert_int_equal(holders_wait_omit_daemons(&folder.root, &folder.root, &others, &err), 0);
	assert_int_equal(others.count, 1); // nothing is recorded yet
	record(7);
	assert_int_equal(holders_wait_omit_daemons(&folder.root, &folder.root, &h, &err), 1);
	assert_int_equal(h.count, 3);
	assert_int_equal(h.items[0].pid, 40);
	assert_int_equal(h.items[1].pid, 42);
	assert_int_equal(h.items[2].pid, 50);
}

// A daemon of another supervisor is a holder like any other: that supervisor would start it again.
static void of_others(void **state)
{
	(void)state;
	auto_daemon_record struct daemon_record r = { 0 };
	auto_holders struct holders h = { 0 };
	auto_daemon_stop struct daemon_stop s = { .node = &node };
	record(7);
	assert_int_equal(daemon_record_read(&folder.root, "this-boot", &r, &err), 1);
	for (size_t i = 0; i < r.count; i++)
		r.items[i].is_foreign = true;
	assert_int_equal(daemon_record_write(&folder.root, "this-boot", &r, &err), 0);
	holder(&h, 41, 500);
	assert_int_equal(holders_wait_omit_daemons(&folder.root, &folder.root, &h, &err), 0);
	assert_int_equal(h.count, 1);
	assert_int_equal(daemon_stop_all(&s, &err), 0);
	auto_str char *text = calls();
	assert_string_equal(text, "");
}

static void stopped_backwards_and_started_again(void **state)
{
	(void)state;
	auto_daemon_stop struct daemon_stop s = { .node = &node };
	assert_int_equal(daemon_stop_all(&s, &err), 0); // there are none
	record(7);
	root_rmtree(&folder.root, "proc/41", &err); // and one of them has ended before
	assert_int_equal(daemon_stop_all(&s, &err), 1);
	auto_str char *stopped = calls();
	assert_string_equal(stopped, "signal 15 43\nsignal 15 42\n");
	daemon_stop_undo(&s);
	auto_str char *started = calls();
	assert_string_equal(started + strlen(stopped),
			    "start /usr/bin/nvidia-fabricmanager -c\nstart /usr/bin/nvidia-persistenced -c\n");
	auto_daemon_record struct daemon_record r = { 0 };
	assert_int_equal(daemon_record_read(&folder.root, "this-boot", &r, &err), 1);
	assert_true(daemon_entry_runs(&r.items[1], &folder.root) && r.items[1].pid != 42);
	assert_false(daemon_entry_runs(&r.items[0], &folder.root));
}

// A real process that takes some time to exit: once daemon_end() returns, the next one can use its socket.
static void its_end_is_waited_for(void **state)
{
	(void)state;
	if (is_emulated())
		skip(); // proc shows no program of ours
	auto_root struct root kern = ROOT_NONE;
	assert_int_equal(root_init(&kern, "/", &err), 0);
	auto_str char *self = realpath("/proc/self/exe", NULL);
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t term;
		int number;
		sigemptyset(&term);
		sigaddset(&term, SIGTERM);
		sigprocmask(SIG_BLOCK, &term, NULL);
		if (write(ready[1], "x", 1) == 1 && sigwait(&term, &number) == 0)
			usleep(300000);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	const struct node here = { .host = &kern, .kern = &kern, .sys = sys_real() };
	expect(daemon_end(&here, self, pid, proc_start_time(&kern, pid), &err) == 0, err.text);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), pid);
	close(ready[0]);
	close(ready[1]);
}

static void whoever_keeps_them_starts_them(void **state)
{
	(void)state;
	auto_daemon_stop struct daemon_stop s = { .node = &node };
	record(7);
	process(99, 7, NULL);
	assert_int_equal(daemon_stop_all(&s, &err), 1);
	auto_str char *before = calls();
	daemon_stop_undo(&s);
	auto_str char *after = calls();
	assert_string_equal(before, after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_runs, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_recorded, setup, teardown),
		cmocka_unit_test_setup_teardown(ours_are_no_holders, setup, teardown),
		cmocka_unit_test_setup_teardown(of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(its_end_is_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(stopped_backwards_and_started_again, setup, teardown),
		cmocka_unit_test_setup_teardown(whoever_keeps_them_starts_them, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
