// SPDX-License-Identifier: Apache-2.0
// Starting GPUs: real child processes on a folder with made-up nodes, and the driver's reasons in words.
#include "gpu_check/gpu_record.h"

#include "tests/unit/tempdir.h"

#include <signal.h>
#include <sys/wait.h>

enum { SLOW_S = 2 };

// The second GPU fails as the driver fails, or takes long within the open, as with drivers before 550.
static int fail_second(const struct sys *sys, int dir, const char *name)
{
	(void)sys, (void)dir;
	errno = EIO;
	return str_eq(name, "nvidia1") ? -1 : open("/dev/null", O_RDWR);
}

static int delay_second(const struct sys *sys, int dir, const char *name)
{
	(void)sys, (void)dir;
	if (str_eq(name, "nvidia1"))
		sleep(SLOW_S);
	return open("/dev/null", O_RDWR);
}

static int die_in_second(const struct sys *sys, int dir, const char *name)
{
	(void)sys, (void)dir;
	if (str_eq(name, "nvidia1"))
		raise(SIGKILL);
	return open("/dev/null", O_RDWR);
}

static const char *const addresses[] = { "0000:40:00.0", "0000:41:00.0", "0000:42:00.0" };

struct world {
	struct folder t;
	struct sys sys;
	struct gpu gpus[3];
	struct facts facts;
	struct progress progress;
	struct node node;
	struct gpu_start start;
	struct gpu_results results;
	struct gpu_holds holds;
};

static void make_world(struct world *w, int (*device_open)(const struct sys *, int, const char *))
{
	*w = (struct world){ .sys = *sys_real() };
	w->sys.device_open = device_open;
	folder_make(&w->t);
	folder_dir(&w->t, "dev");
	for (unsigned i = 0; i < ARRAY_SIZE(addresses); i++) {
		auto_str char *path = str_fmt("proc/driver/nvidia/gpus/%s/information", addresses[i]);
		auto_str char *text = str_fmt("Device Minor: \t %u\nGPU Excluded:\t No\n", i);
		tempdir_write(&w->t, path, text);
		w->gpus[i] = (struct gpu){ .device = 0x2330 };
		snprintf(w->gpus[i].address, sizeof(w->gpus[i].address), "%s", addresses[i]);
	}
	w->facts.gpus = (struct gpus){ .items = w->gpus, .count = ARRAY_SIZE(addresses) };
	static char version[] = "999.1"; // one that knows how to be waited for
	w->facts.loaded.version = version;
	w->node = (struct node){ .kern = &w->t.root, .dev_root = &w->t.root, .sys = &w->sys, .progress = &w->progress };
	w->start = (struct gpu_start){ .node = &w->node, .facts = &w->facts, .timeout_ms = 200 };
}

static void end_world(struct world *w)
{
	assert_int_equal(gpu_holds_release(&w->holds), 1);
	gpu_results_done(&w->results);
	folder_done(&w->t);
}

static void start_world(struct world *w, const char *said)
{
	struct err err;
	assert_int_equal(gpu_start_all(&w->start, &w->results, &w->holds, &err), 0);
	w->results.seconds = 1;
	auto_str char *text = gpu_results_text(&w->results);
	if (strncmp(text, said, strlen(said)) != 0)
		fail_msg("'%s' does not begin with '%s'", text, said);
}

static void all_start_and_are_held_until_released(void **state)
{
	(void)state;
	struct world w;
	siginfo_t info = { 0 };
	make_world(&w, delay_second);
	w.start.timeout_ms = 20000;
	start_world(&w, "3 of 3 start (1.0 s)");
	assert_int_equal(w.holds.count, 3);
	pid_t first = w.holds.items[0].child;
	assert_int_equal(waitid(P_PID, (id_t)first, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	assert_int_equal(info.si_pid, 0); // it is there, and holds
	assert_int_equal(gpu_holds_release(&w.holds), 1);
	assert_int_equal(waitpid(first, NULL, WNOHANG), -1);
	end_world(&w);
}

static void one_that_fails_leaves_the_others_alone(void **state)
{
	(void)state;
	struct world w;
	make_world(&w, fail_second);
	tempdir_write(&w.t, "dev/kmsg", "");
	start_world(&w, "2 of 3 start (1.0 s); 0000:41:00.0: it does not start (EIO), and the kernel's log");
	assert_int_equal(w.results.items[1].outcome, GPU_BROKEN);
	end_world(&w);
}

static void after_one_that_hangs_no_other_is_touched(void **state)
{
	(void)state;
	struct world w;
	make_world(&w, delay_second);
	start_world(&w, "1 of 3 start (1.0 s); 0000:41:00.0: its start has not ended (process ");
	assert_int_equal(w.results.items[1].outcome, GPU_PENDING);
	assert_int_equal(w.results.items[2].outcome, GPU_UNTESTED);
	assert_int_equal(w.holds.count, 1);
	int status;
	end_world(&w);
	assert_true(wait(&status) > 0); // it was not killed, and ended when its open had
	assert_true(WIFEXITED(status));
}

static void a_killed_start_has_not_ended(void **state)
{
	(void)state;
	struct world w;
	make_world(&w, die_in_second);
	start_world(&w, "1 of 3 start (1.0 s); 0000:41:00.0: process ");
	assert_int_equal(w.results.items[1].outcome, GPU_PENDING);
	end_world(&w);
}

static void excluded_and_absent_gpus_are_said_as_such(void **state)
{
	(void)state;
	struct world w;
	make_world(&w, fail_second);
	tempdir_write(&w.t, "proc/driver/nvidia/gpus/0000:41:00.0/information",
		      "Device Minor: \t 1\nGPU Excluded:\t Yes\n");
	assert_int_equal(unlinkat(w.t.root.fd, "proc/driver/nvidia/gpus/0000:42:00.0/information", 0), 0);
	assert_int_equal(unlinkat(w.t.root.fd, "proc/driver/nvidia/gpus/0000:42:00.0", AT_REMOVEDIR), 0);
	start_world(&w,
		    "1 of 2 start (1.0 s); 0000:41:00.0: excluded (NVreg_ExcludedGpus); 0000:42:00.0: has no driver");
	auto_json json_t *json = gpu_results_json(&w.results);
	auto_gpu_results struct gpu_results read = { 0 };
	gpu_results_parse(json, &read);
	auto_json json_t *again = gpu_results_json(&read);
	assert_true(json_equal(json, again));
	end_world(&w);
}

static void lost_gpus_are_not_opened(void **state)
{
	(void)state;
	struct world w;
	make_world(&w, fail_second);
	tempdir_write(&w.t, "sys/bus/pci/devices/0000:41:00.0/config", "\xff\xff\xff\xff");
	tempdir_write(&w.t, "sys/bus/pci/devices/0000:42:00.0/config", "\xde\x10");
	start_world(&w, "2 of 3 start (1.0 s); 0000:41:00.0: fell off the bus (its PCI configuration reads as ones)");
	assert_true(w.results.items[1].is_reset_due);
	end_world(&w);
}

#define OF_41 "NVRM: GPU 0000:41:00.0: "

static const struct {
	int error;
	const char *lines[4], *reason;
	enum gpu_outcome outcome;
	bool is_reset_due;
} reasons[] = {
	{ EIO,
	  { "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM", OF_41 "RmInitAdapter failed! (0x62:0x40:1679)",
	    OF_41 "rm_init_adapter failed, device minor number 1" },
	  "GSP firmware did not boot (RmInitAdapter 0x62:0x40:1679)",
	  GPU_BROKEN,
	  false },
	{ EIO,
	  { "NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
	    OF_41 "RmInitAdapter failed! (0x62:0x40:2028)" },
	  "it needs a reset: its firmware is up already (RmInitAdapter 0x62:0x40:2028)",
	  GPU_BROKEN,
	  true },
	{ EIO,
	  { "nvidia 0000:41:00.0: Direct firmware load for nvidia/1.2/gsp_ga10x.bin failed with error -2",
	    "NVRM: RmFetchGspRmImages: No firmware image found", OF_41 "RmInitAdapter failed! (0x61:0x56:1594)" },
	  "its GSP firmware is missing (RmInitAdapter 0x61:0x56:1594)",
	  GPU_BROKEN,
	  false },
	{ EIO,
	  { OF_41 "GPU does not have the necessary power cables connected.",
	    OF_41 "RmInitAdapter failed! (0x24:0x1c:1603)" },
	  "its power cables are not connected (RmInitAdapter 0x24:0x1c:1603)",
	  GPU_BROKEN,
	  true },
	{ ENODEV,
	  { "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus." },
	  "it has fallen off the bus (kernel: NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.)",
	  GPU_BROKEN,
	  true },
	// What another GPU said meanwhile is not its reason, nor is what the driver says of every GPU.
	{ EIO,
	  { "NVRM: GPU 0000:40:00.0: RmInitAdapter failed! (0x62:0x40:1)", OF_41 "GPU UUID cache not valid!" },
	  "it does not start (EIO), and the kernel's log does not say why",
	  GPU_BROKEN,
	  false },
	{ EIO, { OF_41 "a new word" }, "it does not start (EIO; kernel: " OF_41 "a new word)", GPU_BROKEN, false },
	{ EPERM, { NULL }, "its node cannot be opened here (EPERM)", GPU_UNTESTED, false },
	{ ENOENT, { NULL }, "it has no node here", GPU_UNTESTED, false },
	{ EBUSY, { NULL }, "it is drained, or being removed (EBUSY)", GPU_UNTESTED, false },
};

static void each_reason_has_words(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		auto_strv struct strv lines = { 0 };
		struct gpu_result g = { 0 };
		for (size_t k = 0; k < ARRAY_SIZE(reasons[i].lines) && reasons[i].lines[k]; k++)
			strv_add(&lines, str_dup(reasons[i].lines[k]));
		gpu_start_explain("0000:41:00.0", reasons[i].error, &lines, &g);
		auto_str char *reason = g.reason;
		assert_string_equal(reason, reasons[i].reason);
		expect(g.outcome == reasons[i].outcome && g.is_reset_due == reasons[i].is_reset_due, reason);
	}
}

static void a_start_of_others_is_seen(void **state)
{
	(void)state;
	auto_folder struct folder t;
	auto_str char *who = NULL, *none = NULL;
	folder_make(&t);
	tempdir_write(&t, "proc/7/stat", "7 (nv_open_q) S 2 0 0\n");
	tempdir_write(&t, "proc/8/stat", "8 (gpu-start) S 1 8 8\n"); // it holds a GPU that has started
	assert_int_equal(gpu_start_find_pending(&t.root, &none), 0);
	tempdir_write(&t, "proc/9/stat", "9 (nv_open_q) D 2 0 0\n");
	assert_int_equal(gpu_start_find_pending(&t.root, &who), 1);
	assert_string_equal(who, "nv_open_q, process 9");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_start_and_are_held_until_released),
		cmocka_unit_test(one_that_fails_leaves_the_others_alone),
		cmocka_unit_test(after_one_that_hangs_no_other_is_touched),
		cmocka_unit_test(a_killed_start_has_not_ended),
		cmocka_unit_test(excluded_and_absent_gpus_are_said_as_such),
		cmocka_unit_test(lost_gpus_are_not_opened),
		cmocka_unit_test(each_reason_has_words),
		cmocka_unit_test(a_start_of_others_is_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
