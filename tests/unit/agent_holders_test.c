// SPDX-License-Identifier: Apache-2.0
// The holders of a node's driver as its agent counts them: the recorded machines of tests/hosts, with processes that
// come, go, or may not be inspected. T08, R-D2.
#include "base/file/copy.h"
#include "cluster/agent/observe.h"
#include "tests/unit/tempdir.h"

#include <sys/stat.h>

#define TRAINING "0f3a9c1e-57d2-4a6b-9c0e-1b2d3e4f5a6b" // the pod of pid 4242 on the machine "held"
#define OTHER "00000000-57d2-4a6b-9c0e-1b2d3e4f5a6b"
#define CGROUP(pod)                                                                            \
	"0::/kubepods.slice/kubepods-pod" pod ".slice/cri-containerd-ab12cd34ab12cd34ab12cd34" \
	"ab12cd34ab12cd34ab12cd34ab12cd34ab12cd34.scope\n"
#define BUSY_MAP "7f1000000000-7f1000200000 rw-s 00000000 00:05 511   /dev/nvidia0\n"
#define BOOT "748698d1-a6e1-4a39-810d-4cbe5541c323"

enum { CHANGES = 4, ALL = 5 }; // of "held": four processes, and a module that is not the driver's

struct change {
	const char *path, *text; // NULL = it is removed
	bool is_link;
};
static const struct row {
	const char *text, *machine;
	struct change changes[CHANGES];
	int count;
	const char *pods;
} rows[] = {
	{ "no driver is loaded, so there is no holder", "h100x2-unloaded", { { 0 } }, 0, "" },
	{ "an idle driver", "h100x8", { { 0 } }, 0, "" },
	{ "four processes, of which one is a pod's, and a module", "held", { { 0 } }, ALL, TRAINING },
	{ "one of them ends", "held", { { "proc/5150", NULL, false } }, ALL - 1, TRAINING },
	{ "the pod's ends", "held", { { "proc/4242", NULL, false } }, ALL - 1, "" },
	{ "one more of the same pod: its pod is named once",
	  "held",
	  { { "proc/8000/maps", BUSY_MAP, false },
	    { "proc/8000/cgroup", CGROUP("0f3a9c1e_57d2_4a6b_9c0e_1b2d3e4f5a6b"), false } },
	  ALL + 1,
	  TRAINING },
	{ "one of another pod: in the order of names, so that the same pods are the same text",
	  "held",
	  { { "proc/8000/maps", BUSY_MAP, false },
	    { "proc/8000/cgroup", CGROUP("00000000_57d2_4a6b_9c0e_1b2d3e4f5a6b"), false } },
	  ALL + 1,
	  OTHER " " TRAINING },
	{ "a pod with driver files in its mounts and no device open stops no unload",
	  "held",
	  { { "proc/8000/mountinfo", "600 599 0:5 /nvidia0 /dev/nvidia0 ro - devtmpfs udev rw\n", false },
	    { "proc/8000/ns/mnt", "mnt:[8]", true },
	    { "proc/8000/cgroup", CGROUP("00000000_57d2_4a6b_9c0e_1b2d3e4f5a6b"), false } },
	  ALL,
	  TRAINING },
	{ "our own nvidia-persistenced is not a holder",
	  "held",
	  { { "proc/611/stat", "611 (nvidia-persiste) S 1 611 611 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 0 0\n",
	      false },
	    { "run/kmodsmith/daemons.json",
	      "{\"boot_id\": \"" BOOT "\", \"driver_root\": null, \"daemons\": [{\"name\": \"nvidia-persistenced\", "
	      "\"state\": \"running\", \"pid\": 611, \"start\": 777, \"dir\": \".\", \"argv\": [\"x\"]}]}",
	      false } },
	  ALL - 1,
	  TRAINING },
	{ "of daemons that were started before the boot nothing is left",
	  "held",
	  { { "proc/611/stat", "611 (nvidia-persiste) S 1 611 611 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 0 0\n",
	      false },
	    { "run/kmodsmith/daemons.json",
	      "{\"boot_id\": \"another\", \"driver_root\": null, \"daemons\": [{\"name\": \"nvidia-persistenced\", "
	      "\"state\": \"running\", \"pid\": 611, \"start\": 777, \"dir\": \".\", \"argv\": [\"x\"]}]}",
	      false } },
	  ALL,
	  TRAINING },
	{ "the kernel does not say which it is: nothing is known",
	  "held",
	  { { "proc/sys/kernel/osrelease", NULL, false } },
	  AGENT_UNKNOWN,
	  "" },
	{ "where modules lie cannot be read: nothing is known",
	  "held",
	  { { "lib/modules/6.1.0-50-cloud-amd64/modules.dep", NULL, false },
	    { "lib/modules/6.1.0-50-cloud-amd64/modules.dep", "modules.dep", true } },
	  AGENT_UNKNOWN,
	  "" },
	{ "processes cannot be listed: nothing is known",
	  "held",
	  { { "proc/devices", NULL, false }, { "proc/devices", "devices", true } },
	  AGENT_UNKNOWN,
	  "" },
	{ "the record of our daemons is damaged: whoever holds the driver is a holder",
	  "held",
	  { { "run/kmodsmith/daemons.json", "daemons.json", true } },
	  ALL,
	  TRAINING },
};

static void copy(struct folder *folder, const char *machine, struct root *ret)
{
	auto_root struct root hosts = ROOT_NONE;
	struct err err;
	folder_make(folder);
	assert_int_equal(root_init(&hosts, "tests/hosts", &err), 0);
	assert_int_equal(copy_tree(&hosts, machine, &folder->root, "m", &err), 0);
	assert_int_equal(root_sub(&folder->root, "m", ret, &err), 0);
}

static void change(const struct folder *folder, const struct change *c)
{
	auto_str char *path = str_fmt("m/%s", c->path), *full = str_fmt("%s/%s", folder->path, path);
	if (!c->text)
		nftw(full, folder_remove_one_, 16, FTW_DEPTH | FTW_PHYS);
	else if (c->is_link)
		tempdir_link(folder, path, c->text);
	else
		tempdir_write(folder, path, c->text);
}

static void expect_holders(const struct agent_holders *h, int count, const char *pods, const char *row)
{
	auto_str char *text = strv_join(&h->pods, " ");
	if (h->count != count || !str_eq(text ? text : "", pods))
		fail_msg("%s: %d of pods '%s', not %d of '%s'", row, h->count, text ? text : "", count, pods);
}

static void counts_the_holders(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		auto_root struct root machine = ROOT_NONE;
		struct agent_holders h = { 0 };
		copy(&folder, rows[i].machine, &machine);
		for (size_t c = 0; c < CHANGES && rows[i].changes[c].path; c++)
			change(&folder, &rows[i].changes[c]);
		const struct node node = { .host = &machine, .kern = &machine, .state = &machine };
		const struct agent_paths at = { .node = &node };
		agent_read_holders(&at, &h);
		expect_holders(&h, rows[i].count, rows[i].pods, rows[i].text);
		agent_holders_done(&h);
		expect(h.count == 0 && h.pods.count == 0, rows[i].text);
	}
}

// A coordinator takes the same generation for the same holders: it counts up with every difference, and only then.
static void the_generation_counts_changes(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		struct change change;
		unsigned generation;
		int count;
		const char *pods;
	} steps[] = {
		{ "the first look", { 0 }, 1, ALL, TRAINING },
		{ "nothing happened", { 0 }, 1, ALL, TRAINING },
		{ "one went", { "proc/5150", NULL, false }, 2, ALL - 1, TRAINING },
		{ "as many, of another pod",
		  { "proc/4242/cgroup", CGROUP("00000000_57d2_4a6b_9c0e_1b2d3e4f5a6b"), false },
		  3,
		  ALL - 1,
		  OTHER },
		{ "as many, and no pod any more", { "proc/4242/cgroup", "0::/\n", false }, 4, ALL - 1, "" },
		{ "nothing happened, once more", { 0 }, 4, ALL - 1, "" },
	};
	auto_folder struct folder folder;
	auto_root struct root machine = ROOT_NONE;
	struct agent_holders h = { 0 };
	copy(&folder, "held", &machine);
	const struct node node = { .host = &machine, .kern = &machine, .state = &machine };
	const struct agent_paths at = { .node = &node };
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		if (steps[i].change.path)
			change(&folder, &steps[i].change);
		agent_read_holders(&at, &h);
		expect_holders(&h, steps[i].count, steps[i].pods, steps[i].text);
		expect(h.generation == steps[i].generation, steps[i].text);
	}
	agent_holders_done(&h);
}

// Without CAP_SYS_PTRACE "nobody" may be a lie, and whoever hears it takes the driver out; "some" is true.
static void an_unreadable_process_is_not_no_holder(void **state)
{
	(void)state;
	static const struct {
		const char *text, *machine, *closed, *references; // of nvidia
		int count;
	} cases[] = {
		{ "the kernel counts a user, and one could not be looked at", "h100x8", "m/proc/1/fd", "9\n",
		  AGENT_UNKNOWN },
		{ "some were found, and one more could not be looked at", "held", "m/proc/5150/fd", "8\n", ALL - 1 },
	};
	if (geteuid() != 0)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_folder struct folder folder;
		auto_root struct root machine = ROOT_NONE;
		struct agent_holders h = { 0 };
		copy(&folder, cases[i].machine, &machine);
		folder_dir(&folder, cases[i].closed);
		folder_file(&folder, "m/sys/module/nvidia/refcnt", cases[i].references);
		auto_str char *closed = str_fmt("%s/%s", folder.path, cases[i].closed);
		assert_int_equal(chmod(folder.path, 0755), 0);
		assert_int_equal(chmod(closed, 0), 0);
		const struct node node = { .host = &machine, .kern = &machine, .state = &machine };
		const struct agent_paths at = { .node = &node };
		assert_int_equal(seteuid(65534), 0);
		agent_read_holders(&at, &h);
		assert_int_equal(seteuid(0), 0);
		expect(h.count == cases[i].count, cases[i].text);
		agent_holders_done(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_the_holders),
		cmocka_unit_test(the_generation_counts_changes),
		cmocka_unit_test(an_unreadable_process_is_not_no_holder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
