// SPDX-License-Identifier: Apache-2.0
// R-D3: refuse, wait and stop, on a recorded machine. No test waits for the clock: the recording changes when the note
// about waiting is written.
#include "daemons/holders_wait.h"

#include "tests/unit/tempdir.h"

#include <signal.h>

#define TICKS(flags, start) "0 (a) b) S 1 1 1 0 -1 " flags " 0 0 0 0 0 0 0 0 20 0 1 0 " start " 0 0\n"

static struct folder folder;
static struct sys sys;
static struct err err;
static const char *leaves; // the folder of a process that ends when somebody is told of the waiting
static int notes;
static char last_note[512];

static void process(int pid, const char *stat)
{
	auto_str char *fds = str_fmt("proc/%d/fd/3", pid), *path = str_fmt("proc/%d/stat", pid);
	auto_str char *comm = str_fmt("proc/%d/comm", pid), *ns = str_fmt("proc/%d/ns/mnt", pid);
	tempdir_link(&folder, fds, "/dev/nvidia0");
	tempdir_link(&folder, ns, "mnt:[1]");
	tempdir_write(&folder, path, stat);
	tempdir_write(&folder, comm, "python3\n");
}

static int setup(void **state)
{
	(void)state;
	folder_make(&folder);
	tempdir_write(&folder, "lib/modules/6.1/modules.dep", "");
	tempdir_write(&folder, "sys/module/nvidia/initstate", "live\n");
	tempdir_write(&folder, "proc/devices", "Character devices:\n195 nvidia\n");
	tempdir_link(&folder, "proc/self", "77");
	sys = sys_recorder(&folder.root);
	leaves = NULL;
	notes = 0;
	err = (struct err){ 0 };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	folder_done(&folder);
	return 0;
}

static void note(void *ctx, const char *text)
{
	(void)ctx;
	struct err ignored;
	notes++;
	snprintf(last_note, sizeof(last_note), "%s", text);
	if (leaves && str_starts(text, "waiting"))
		root_rmtree(&folder.root, leaves, &ignored);
}
static struct progress progress = { .note = note };

static int drain_now(enum holders_policy policy, int timeout_ms, struct holders *ret)
{
	const struct node node = {
		.host = &folder.root, .kern = &folder.root, .sys = &sys, .release = "6.1", .progress = &progress
	};
	struct holders_wait d = { .node = &node, .policy = policy, .timeout_ms = timeout_ms };
	return holders_wait(&d, ret, &err);
}

static void names_of_policies(void **state)
{
	(void)state;
	enum holders_policy p = HOLDERS_WAIT;
	assert_true(holders_wait_parse("stop", &p));
	assert_int_equal(p, HOLDERS_STOP);
	assert_string_equal(holders_wait_name(p), "stop");
	assert_false(holders_wait_parse("kill", &p));
	assert_false(holders_wait_parse("", &p));
	assert_int_equal(holders_wait_deadline_ms(HOLDERS_STOP, 0), 30 * 1000);
	assert_int_equal(holders_wait_deadline_ms(HOLDERS_WAIT, 0), 300 * 1000);
	assert_int_equal(holders_wait_deadline_ms(HOLDERS_STOP, 7), 7 * 1000);
	assert_int_equal(holders_wait_deadline_ms(HOLDERS_WAIT, ~0U), 24 * 60 * 60 * 1000);
}

// Whether: by counts; who: never.
static void who_is_in_the_way(void **state)
{
	(void)state;
	static const struct {
		const char *row;
		enum holders_policy policy;
		bool is_held, is_mounted, is_foreign, has_drm, has_daemons, has_console;
		unsigned references, foreign_references;
		const char *want; // NULL = nobody
	} rows[] = {
		{ "nobody", HOLDERS_REFUSE, .want = NULL },
		{ "a process", HOLDERS_WAIT, .is_held = true, .references = 3, .want = "1 holder(s), first: pid 42 " },
		{ "a process that is asked", HOLDERS_STOP, .is_held = true, .references = 3, .want = "first: pid 42 " },
		{ "a mount alone", HOLDERS_REFUSE, .is_mounted = true, .want = NULL },
		{ "a mount does not count", HOLDERS_WAIT, .is_held = true, .is_mounted = true, .references = 3,
		  .want = "1 holder(s), first: pid 42 " },
		{ "a module", HOLDERS_WAIT, .is_foreign = true, .references = 1, .want = "first: module gdrdrv" },
		{ "an idle module goes", HOLDERS_STOP, .is_foreign = true, .references = 1, .want = NULL },
		{ "a module that is used", HOLDERS_STOP, .is_foreign = true, .references = 1, .foreign_references = 1,
		  .want = "uses module gdrdrv (1 reference, 0 dependents)" },
		{ "nobody to be seen", HOLDERS_REFUSE, .references = 1,
		  .want = "not visible from here uses module nvidia" },
		{ "our daemons", HOLDERS_REFUSE, .references = 3, .has_daemons = true, .want = NULL },
		{ "our daemons, and a process", HOLDERS_REFUSE, .is_held = true, .references = 6, .has_daemons = true,
		  .want = "1 holder(s), first: pid 42 " },
		{ "the console", HOLDERS_STOP, .has_drm = true, .foreign_references = 1, .has_console = true,
		  .want = "the kernel's console uses module nvidia_drm: fb0" },
		{ "the console, and our daemons", HOLDERS_REFUSE, .has_drm = true, .has_daemons = true,
		  .has_console = true, .want = "the kernel's console" },
		{ "the console, and a process", HOLDERS_REFUSE, .is_held = true, .has_drm = true, .has_console = true,
		  .want = "1 holder(s), first: pid 42 " },
		{ "nvidia-drm keeps devices open in the kernel", HOLDERS_REFUSE, .has_drm = true, .references = 5,
		  .want = NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char gdrdrv[] = "gdrdrv", nvidia[] = "nvidia", comm[] = "a", node[] = "/dev/nvidia0",
		     drm[] = "nvidia_drm";
		char *names[] = { gdrdrv };
		struct strv foreign = { .items = names, .count = rows[i].is_foreign };
		struct loaded_module modules[] = {
			{ .name = nvidia, .is_driver = true, .refcount = rows[i].references, .holders = foreign },
			{ .name = rows[i].has_drm ? drm : gdrdrv, .refcount = rows[i].foreign_references },
		};
		struct modules loaded = { .items = modules,
					  .count = 1 + (size_t)(rows[i].is_foreign || rows[i].has_drm) };
		struct holder list[2];
		struct holders h = { .items = list, .modules = foreign };
		char console[] = "fb0";
		h.console = rows[i].has_console ? console : NULL;
		if (rows[i].is_mounted)
			list[h.count++] = (struct holder){ .pid = 7, .comm = comm, .kind = HOLDER_MOUNT, .path = node };
		if (rows[i].is_held)
			list[h.count++] = (struct holder){ .pid = 42, .comm = comm, .kind = HOLDER_FD, .path = node };
		auto_str char *who = holders_wait_blocker(rows[i].policy, &loaded, &h, rows[i].has_daemons);
		expect(rows[i].want ? who && strstr(who, rows[i].want) : !who, rows[i].row);
	}
}

static void refusal_does_not_wait(void **state)
{
	(void)state;
	auto_holders struct holders h = { 0 };
	process(42, TICKS("4194304", "500"));
	assert_int_equal(drain_now(HOLDERS_REFUSE, 60 * 1000, &h), -1);
	assert_int_equal(err.code, E_IN_USE);
	assert_non_null(strstr(err.text, "1 holder(s), first: pid 42 python3"));
	assert_int_equal(h.count, 1);
	assert_int_equal(notes, 0);
}

static void waiting_ends_with_the_last_holder(void **state)
{
	(void)state;
	auto_holders struct holders h = { 0 };
	process(42, TICKS("4194304", "500"));
	leaves = "proc/42";
	assert_int_equal(drain_now(HOLDERS_WAIT, 60 * 1000, &h), 0);
	assert_int_equal(h.count, 0);
	assert_int_equal(notes, 1);
	assert_string_equal(last_note, "waiting for users of the driver: 1 holder(s), first: pid 42 python3 (uid 0) fd "
				       "/dev/nvidia0");
	assert_false(root_exists(&folder.root, ".sys-calls"));
}

static void waiting_has_an_end(void **state)
{
	(void)state;
	auto_holders struct holders h = { 0 };
	process(42, TICKS("4194304", "500"));
	assert_int_equal(drain_now(HOLDERS_WAIT, 1, &h), -1);
	assert_int_equal(err.code, E_IN_USE);
	assert_int_equal(h.count, 1);
	assert_false(root_exists(&folder.root, ".sys-calls"));
}

static void stopping_asks_each_process_once(void **state)
{
	(void)state;
	auto_holders struct holders h = { 0 };
	process(42, TICKS("4194304", "500"));
	process(43, TICKS("4194304", "501"));
	assert_int_equal(drain_now(HOLDERS_STOP, 60 * 1000, &h), 0);
	folder_expect(&folder, ".sys-calls", "signal 15 42\nsignal 15 43\n");
}

// A process that does not exit gets one SIGTERM and never SIGKILL.
static int heard;
static int signal_deaf(const struct sys *s, int process, int pid, int signal)
{
	(void)s, (void)process, (void)pid;
	assert_int_equal(signal, SIGTERM);
	heard++;
	return 0;
}

static void stopping_never_forces(void **state)
{
	(void)state;
	auto_holders struct holders h = { 0 };
	heard = 0;
	sys.process_signal = signal_deaf;
	process(42, TICKS("4194304", "500"));
	assert_int_equal(drain_now(HOLDERS_STOP, 600, &h), -1);
	assert_int_equal(err.code, E_IN_USE);
	assert_int_equal(heard, 1);
	assert_int_equal(h.count, 1);
}

static void stopping_spares_the_system(void **state)
{
	(void)state;
	auto_holders struct holders h = { 0 };
	heard = 0;
	sys.process_signal = signal_deaf;
	process(1, TICKS("4194304", "3"));
	process(42, TICKS("2129984", "4")); // PF_KTHREAD
	process(43, "");                    // tells nothing of itself
	assert_int_equal(drain_now(HOLDERS_STOP, 1, &h), -1);
	assert_int_equal(err.code, E_IN_USE);
	assert_int_equal(h.count, 3);
	assert_int_equal(heard, 0);
}

// The pid is reused by another process between the look and the pidfd.
static int open_successor(const struct sys *s, int pid)
{
	(void)s;
	static int successors;
	auto_str char *stat = str_fmt(TICKS("4194304", "%d"), 900 + successors++);
	assert_int_equal(pid, 42);
	folder_file(&folder, "proc/42/stat", stat);
	return open("/", O_RDONLY | O_CLOEXEC);
}

static void a_reused_number_is_nobody(void **state)
{
	(void)state;
	auto_holders struct holders h = { 0 };
	heard = 0;
	sys.process_open = open_successor;
	sys.process_signal = signal_deaf;
	process(42, TICKS("4194304", "500"));
	assert_int_equal(drain_now(HOLDERS_STOP, 1, &h), -1);
	assert_int_equal(err.code, E_IN_USE);
	assert_int_equal(heard, 0);
}

// A proc of another pid namespace: its 42 is not ours.
static void foreign_numbers_are_not_used(void **state)
{
	(void)state;
	auto_holders struct holders h = { 0 };
	heard = 0;
	sys.process_signal = signal_deaf;
	sys.record = NULL;
	process(42, TICKS("4194304", "500"));
	assert_int_equal(drain_now(HOLDERS_STOP, 1000, &h), -1);
	assert_int_equal(err.code, E_RIGHTS);
	assert_int_equal(heard, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(names_of_policies),         TEST(who_is_in_the_way),
		TEST(refusal_does_not_wait),     TEST(waiting_ends_with_the_last_holder),
		TEST(waiting_has_an_end),        TEST(stopping_asks_each_process_once),
		TEST(stopping_never_forces),     TEST(stopping_spares_the_system),
		TEST(a_reused_number_is_nobody), TEST(foreign_numbers_are_not_used),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
