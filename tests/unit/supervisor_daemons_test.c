// SPDX-License-Identifier: Apache-2.0
// R-P1: daemons of a recorded machine are started, adopted and started again, under the node's lock, with hours in a
// moment.
#include "supervisor/supervisor.h"

#include "journal/node_lock.h"
#include "tests/unit/tempdir.h"

#define PERSISTENCED "usr/bin/nvidia-persistenced"
#define FABRIC "usr/bin/nv-fabricmanager"
#define NVLSM "opt/nvidia/nvlsm/sbin/nvlsm"

static struct folder folder;
static struct sys sys;
static struct err err;
static struct progress progress;
static const struct node node = { .host = &folder.root, .kern = &folder.root, .sys = &sys, .progress = &progress };
static struct supervisor k;
static int64_t now;
static char *no_environment[] = { NULL };

static void program(const char *path)
{
	auto_str char *full = str_fmt("run/nvidia/driver/%s", path);
	tempdir_write(&folder, full, "");
}

static void load(bool is_loaded)
{
	if (is_loaded)
		tempdir_write(&folder, "sys/module/nvidia/initstate", "live\n");
	else
		root_rmtree(&folder.root, "sys/module/nvidia", &err);
}

static void machine(void)
{
	static const char EXPORT[] =
		"{\"boot\": \"this-boot\", \"dir\": \"run/nvidia/driver\", \"driver\": \"535.261.03\", "
		"\"payload\": \"x\", \"generation\": 1, \"pieces\": []}";
	tempdir_write(&folder, "proc/sys/kernel/random/boot_id", "this-boot\n");
	tempdir_write(&folder, "proc/sys/kernel/osrelease", "6.1\n");
	tempdir_write(&folder, "run/kmodsmith/export.json", EXPORT);
	tempdir_write(&folder, "run/nvidia/driver/" FABRIC_PAYLOAD_CONFIG, "DAEMONIZE=1\n");
	load(true);
}

static void open_supervisor(void)
{
	k = (struct supervisor){ .node = &node };
	expect(supervisor_open(&k, no_environment, &err) == 0, err.text);
}

static int setup(void **state)
{
	(void)state;
	folder_make(&folder);
	machine();
	sys = sys_recorder(&folder.root);
	now = 1000;
	open_supervisor();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	supervisor_done(&k);
	folder_done(&folder);
	return 0;
}

static const struct supervised_daemon *kept(const char *name)
{
	size_t i = 0;
	while (i < k.plan.count && !str_eq(k.plan.items[i].name, name))
		i++;
	if (i == k.plan.count)
		fail_msg("%s is not kept", name);
	return &k.daemons[i];
}

static void assert_state(const char *name, enum supervised_state state)
{
	assert_string_equal(restart_policy_state_name(kept(name)->s.state), restart_policy_state_name(state));
}

// Until nothing is due within ms.
static void pass(int64_t ms)
{
	int64_t end = now + ms;
	for (int64_t due = supervisor_tick(&k, now); due <= end; due = supervisor_tick(&k, now))
		now = due > now ? due : now + 1;
	now = end;
}

static void end_process(int pid)
{
	auto_str char *path = str_fmt("proc/%d", pid);
	assert_int_equal(root_rmtree(&folder.root, path, &err), 1);
}

static void assert_calls(const char *want)
{
	auto_str char *text = NULL;
	if (root_read(&folder.root, ".sys-calls", &text, NULL, &err) <= 0)
		text = str_dup("");
	for (char *c = text; *c; c++)
		*c = *c == '\n' ? ';' : *c;
	assert_string_equal(text, want);
	root_unlink(&folder.root, ".sys-calls", &err);
}

#define START_FABRIC "start /" FABRIC " -c /run/nvidia-fabricmanager/fabricmanager.cfg;"

static void in_the_foreground(void **state)
{
	(void)state;
	struct stat before, after;
	program(FABRIC);
	tempdir_write(&folder, "proc/driver/nvidia-nvswitch/devices/0000:01:00.0/x", "");
	pass(100);
	assert_calls(START_FABRIC);
	assert_state("nvidia-fabricmanager", SUPERVISED_UP);
	assert_true(supervisor_is_well(&k) && k.is_known);
	assert_true(root_exists(&folder.root, FABRIC_CONFIG));
	assert_string_equal(kept("nvidia-persistenced")->s.why_not,
			    "the driver's user space has no /usr/bin/nvidia-persistenced");
	// P9: hours of nothing write nothing.
	assert_int_equal(root_stat(&folder.root, "run/kmodsmith/daemons.json", &before, &err), 1);
	pass(60 * 60 * 1000);
	assert_int_equal(root_stat(&folder.root, "run/kmodsmith/daemons.json", &after, &err), 1);
	assert_true(before.st_ino == after.st_ino);
	for (unsigned i = 1; i <= 3; i++) {
		end_process(kept("nvidia-fabricmanager")->s.pid);
		supervisor_tick(&k, now);
		assert_state("nvidia-fabricmanager", SUPERVISED_DOWN);
		assert_false(supervisor_is_well(&k));
		assert_calls("");
		pass(4000 + 100);
		assert_calls(START_FABRIC);
		assert_int_equal(kept("nvidia-fabricmanager")->s.restarts, i);
		assert_true(supervisor_is_well(&k));
	}
}

static void process(int pid, const char *exe)
{
	auto_str char *stat = str_fmt("proc/%d/stat", pid), *link = str_fmt("proc/%d/exe", pid),
		      *text = str_fmt("%d (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 500 0\n", pid);
	tempdir_write(&folder, stat, text);
	tempdir_link(&folder, link, exe);
}

static void in_the_background(void **state)
{
	(void)state;
	program(PERSISTENCED);
	pass(1000);
	assert_calls("start /" PERSISTENCED " --persistence-mode;");
	assert_state("nvidia-persistenced", SUPERVISED_STARTING);
	assert_true(supervisor_is_well(&k)); // nobody needs it
	int launched = kept("nvidia-persistenced")->s.pid;
	end_process(launched);
	supervisor_ended(&k, launched, 0, now);
	pass(200);
	assert_state("nvidia-persistenced", SUPERVISED_STARTING);
	process(4242, "/" PERSISTENCED);
	tempdir_write(&folder, "run/nvidia-persistenced/nvidia-persistenced.pid", "4242\n");
	pass(200);
	assert_state("nvidia-persistenced", SUPERVISED_UP);
	assert_int_equal(kept("nvidia-persistenced")->s.pid, 4242);
	assert_false(kept("nvidia-persistenced")->is_foreign);
	supervisor_ended(&k, 4242, 9, now);
	assert_string_equal(kept("nvidia-persistenced")->s.last, "ended by signal 9");
}

static void one_that_leaves_nothing_behind(void **state)
{
	(void)state;
	program(PERSISTENCED);
	pass(100);
	int launched = kept("nvidia-persistenced")->s.pid;
	end_process(launched);
	supervisor_ended(&k, launched, 1 << 8, now);
	assert_string_equal(kept("nvidia-persistenced")->s.last, "ended with exit status 1");
	assert_state("nvidia-persistenced", SUPERVISED_DOWN);
	pass(1100);
	launched = kept("nvidia-persistenced")->s.pid;
	end_process(launched);
	supervisor_ended(&k, launched, 0, now);
	pass(11 * 1000);
	assert_string_equal(kept("nvidia-persistenced")->s.last, "it did not start in time");
}

static void taken_over(void **state)
{
	(void)state;
	program(PERSISTENCED);
	process(4242, "/run/nvidia/.driver.3/" PERSISTENCED);
	tempdir_write(&folder, "run/nvidia-persistenced/nvidia-persistenced.pid", "4242\n");
	pass(100);
	assert_calls("");
	assert_state("nvidia-persistenced", SUPERVISED_UP);
	assert_true(kept("nvidia-persistenced")->is_foreign);
	end_process(4242);
	pass(1500);
	assert_calls("start /" PERSISTENCED " --persistence-mode;");
	int launched = kept("nvidia-persistenced")->s.pid;
	process(4343, "/" PERSISTENCED);
	tempdir_write(&folder, "run/nvidia-persistenced/nvidia-persistenced.pid", "4343\n");
	end_process(launched);
	supervisor_ended(&k, launched, 0, now);
	pass(100);
	assert_false(kept("nvidia-persistenced")->is_foreign);
	// And by the next one, without its pid file.
	supervisor_done(&k);
	root_unlink(&folder.root, "run/nvidia-persistenced/nvidia-persistenced.pid", &err);
	open_supervisor();
	pass(100);
	assert_calls("");
	assert_int_equal(kept("nvidia-persistenced")->s.pid, 4343);
	assert_false(kept("nvidia-persistenced")->is_foreign);
}

static void not_while_somebody_changes_the_node(void **state)
{
	(void)state;
	program(PERSISTENCED);
	int lock = node_lock_take(&folder.root, NODE_LOCK_CHANGE, &err);
	assert_true(lock >= 0);
	pass(5000);
	assert_calls("");
	assert_false(k.is_known);
	load(false); // the lock goes with the driver
	close(lock);
	pass(60 * 1000);
	assert_calls("");
	assert_true(k.is_known);
	load(true);
	pass(WAITING_POLL_MS);
	assert_calls("start /" PERSISTENCED " --persistence-mode;");
}

static void without_an_export_nothing_is_ever_due(void **state)
{
	(void)state;
	enum { HOUR_MS = 60 * 60 * 1000 };
	root_unlink(&folder.root, "run/kmodsmith/export.json", &err);
	assert_true(supervisor_tick(&k, now) > now + HOUR_MS);
	assert_true(k.is_known && supervisor_is_well(&k));
	assert_false(root_exists(&folder.root, "run/kmodsmith/daemons.json"));
}

// What the bridge needs is named while it is missing; the manager follows when the other has been up for a while.
static void behind_a_bridge(void **state)
{
	(void)state;
	program(FABRIC);
	program(NVLSM);
	tempdir_write(&folder, "sys/class/infiniband/mlx5_0/device/vpd", "SW_MNG");
	tempdir_write(&folder, "sys/module/mlx5_core/initstate", "live\n");
	pass(1000);
	assert_calls("");
	assert_string_equal(kept("nvlsm")->s.why_not, "waiting for host modules that are not loaded: ib_umad");
	assert_state("nvidia-fabricmanager", SUPERVISED_WAITING);
	assert_false(supervisor_is_well(&k));
	tempdir_write(&folder, "sys/module/ib_umad/initstate", "live\n");
	pass(WAITING_POLL_MS);
	assert_string_equal(kept("nvlsm")->s.why_not, "waiting for the GUID of the management bridge's port");
	tempdir_write(&folder, "sys/class/infiniband/mlx5_0/ports/1/gids/0", "fe80:0:0:0:0:0:0:1\n");
	pass(WAITING_POLL_MS + 100);
	assert_state("nvlsm", SUPERVISED_UP);
	assert_string_equal(kept("nvidia-fabricmanager")->s.why_not, "waiting for nvlsm");
	pass(FOLLOW_MS);
	assert_state("nvidia-fabricmanager", SUPERVISED_UP);
	assert_true(supervisor_is_well(&k));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(in_the_foreground, setup, teardown),
		cmocka_unit_test_setup_teardown(in_the_background, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_leaves_nothing_behind, setup, teardown),
		cmocka_unit_test_setup_teardown(taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(not_while_somebody_changes_the_node, setup, teardown),
		cmocka_unit_test_setup_teardown(without_an_export_nothing_is_ever_due, setup, teardown),
		cmocka_unit_test_setup_teardown(behind_a_bridge, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
