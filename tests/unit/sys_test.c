// SPDX-License-Identifier: Apache-2.0
#include "base/process/sys.h"

#include "tests/unit/test.h"

#include <signal.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

static struct folder folder;
static struct sys sys;
static int dev = -1;

static int setup(void **state)
{
	(void)state;
	struct err err;
	folder_make(&folder);
	folder_dir(&folder, "dev");
	folder_dir(&folder, "sys/module/ext4");
	folder_file(&folder, "sys/module/ext4/initstate", "live\n");
	sys = sys_recorder(&folder.root);
	dev = root_open(&folder.root, "dev", O_RDONLY | O_DIRECTORY, &err);
	return dev < 0;
}

static int teardown(void **state)
{
	(void)state;
	close(TAKE_FD(dev));
	folder_done(&folder);
	return 0;
}

static void test_loads_and_unloads_show_in_sysfs(void **state)
{
	(void)state;
	assert_int_equal(sys.module_load_file(&sys, -1, "nvidia", "NVreg_OpenRmEnableUnsupportedGpus=1"), 0);
	folder_expect(&folder, "sys/module/nvidia/initstate", "live\n");
	assert_int_equal(sys.module_load_data(&sys, "x", 1, "nvidia-uvm", ""), 0);
	folder_expect(&folder, "sys/module/nvidia_uvm/initstate", "live\n");
	assert_int_equal(sys.module_load_file(&sys, -1, "nvidia", ""), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(sys.module_unload(&sys, "nvidia_uvm"), 0);
	assert_false(root_exists(&folder.root, "sys/module/nvidia_uvm"));
	assert_int_equal(sys.module_unload(&sys, "nvidia_uvm"), -1);
	assert_int_equal(errno, ENOENT);
	assert_true(root_exists(&folder.root, "sys/module/ext4"));
	folder_expect(&folder, ".sys-calls",
		      "load nvidia NVreg_OpenRmEnableUnsupportedGpus=1\n"
		      "load nvidia-uvm \n"
		      "load nvidia \n"
		      "unload nvidia_uvm\n"
		      "unload nvidia_uvm\n");
}

static void test_nodes_look_as_if_they_were_real(void **state)
{
	(void)state;
	struct stat st;
	assert_int_equal(sys.node_look(&sys, dev, "nvidia0", &st), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(sys.node_make(&sys, dev, "nvidia0", 0666, makedev(195, 0)), 0);
	folder_expect(&folder, "dev/nvidia0", "c 195:0 0666 0:0\n");
	assert_int_equal(sys.node_look(&sys, dev, "nvidia0", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0666);
	assert_int_equal(st.st_rdev, makedev(195, 0));
	assert_int_equal(sys.node_make(&sys, dev, "nvidia0", 0666, makedev(195, 0)), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(sys.node_set(&sys, dev, "nvidia0", 0640, 12, 34), 0);
	assert_int_equal(sys.node_look(&sys, dev, "nvidia0", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_rdev, makedev(195, 0));
	assert_int_equal(st.st_uid, 12);
	assert_int_equal(st.st_gid, 34);
	assert_int_equal(sys.node_set(&sys, dev, "nvidia1", 0640, 12, 34), -1);
	assert_int_equal(errno, ENOENT);
	folder_expect(&folder, ".sys-calls",
		      "mknod nvidia0 c 195 0 0666\n"
		      "mknod nvidia0 c 195 0 0666\n"
		      "set nvidia0 0640 12:34\n"
		      "set nvidia1 0640 12:34\n");
}

static void test_what_is_no_node_stays_what_it_is(void **state)
{
	(void)state;
	struct stat st;
	folder_file(&folder, "dev/notes", "c is for characters\n");
	folder_link(&folder, "notes", "dev/link");
	assert_int_equal(sys.node_look(&sys, dev, "notes", &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(sys.node_look(&sys, dev, "link", &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(sys.node_make(&sys, dev, "link", 0666, makedev(195, 0)), -1);
	assert_int_equal(sys.node_set(&sys, dev, "link", 0666, 0, 0), -1);
	folder_expect(&folder, "dev/notes", "c is for characters\n");
}

static void test_attributes(void **state)
{
	(void)state;
	char target[64];
	const char *const path = "sys/bus/pci/devices/0000:40:00.0/driver_override";
	folder_dir(&folder, "sys/bus/pci/devices/0000:40:00.0");
	assert_int_equal(sys.attribute_set(&sys, &folder.root, path, "nvidia"), 0);
	folder_expect(&folder, path, "nvidia");
	assert_int_equal(sys_real()->attribute_set(sys_real(), &folder.root, path, "NVIDIA"), 0);
	folder_expect(&folder, path, "NVIDIA");
	assert_int_equal(sys_real()->attribute_set(sys_real(), &folder.root, "sys/none", "x"), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(sys.attribute_set(&sys, &folder.root, "sys/bus/pci/drivers/nouveau/bind", "0000:40:00.0"), 0);
	auto_str char *link = str_fmt("%s/sys/bus/pci/devices/0000:40:00.0/driver", folder.path);
	assert_true(readlink(link, target, sizeof(target)) > 0);
	assert_int_equal(sys.attribute_set(&sys, &folder.root, "sys/bus/pci/drivers/nouveau/unbind", "0000:40:00.0"),
			 0);
	assert_int_equal(readlink(link, target, sizeof(target)), -1);
}

static void test_variables(void **state)
{
	(void)state;
	static const char path[] = "sys/firmware/efi/efivars/MokNew-1", value[] = "\a\0\0\0\1\0", more[] = "\a\0\0\0";
	folder_dir(&folder, "sys/firmware/efi/efivars");
	const struct sys *kinds[] = { &sys, sys_real() };
	for (size_t i = 0; i < 2; i++) {
		struct err err;
		size_t len = 0;
		auto_str char *text = NULL;
		assert_int_equal(kinds[i]->variable_set(kinds[i], &folder.root, path, value, sizeof(value) - 1), 0);
		assert_int_equal(root_read(&folder.root, path, &text, &len, &err), 1);
		assert_int_equal(len, sizeof(value) - 1);
		assert_memory_equal(text, value, len);
		assert_int_equal(kinds[i]->variable_set(kinds[i], &folder.root, path, more, 4), 0);
	}
	assert_int_equal(sys.variable_set(&sys, &folder.root, path, more, 4), 0); // without a value it is removed
	assert_false(root_exists(&folder.root, path));
	assert_int_equal(sys_real()->variable_set(sys_real(), &folder.root, "none/MokNew-1", value, 4), -1);
	folder_expect(&folder, ".sys-calls", "variable MokNew-1 6\nvariable MokNew-1 4\nvariable MokNew-1 4\n");
}

static void test_an_unwritable_record_is_an_error(void **state)
{
	(void)state;
	folder_file(&folder, "sys/module/blocked", "a file where the kernel has a directory");
	assert_int_equal(sys.module_load_file(&sys, -1, "blocked", ""), -1);
	assert_int_equal(errno, EROFS);
}

// Each line of .sys-refused is for one call: the first that it begins, word for word.
static void test_what_a_recorded_machine_refuses(void **state)
{
	(void)state;
	folder_file(&folder, ".sys-refused",
		    "EINVAL load nvidia NVreg_A=1: nvidia: `1' invalid for parameter `NVreg_A'\n"
		    "ENODEV load nvidia_uvm\n"
		    "EBUSY unload ext4\n"
		    "EROFS mknod nvidia0\n");
	folder_file(&folder, "dev/kmsg", "4,1,1,-;before\n");
	assert_int_equal(sys.module_load_file(&sys, -1, "nvidia", "NVreg_A=10"), 0);
	assert_int_equal(sys.module_unload(&sys, "nvidia"), 0);
	assert_int_equal(sys.module_load_file(&sys, -1, "nvidia", "NVreg_A=1 NVreg_B=2"), -1);
	assert_int_equal(errno, EINVAL);
	assert_false(root_exists(&folder.root, "sys/module/nvidia"));
	folder_expect(&folder, "dev/kmsg", "4,1,1,-;before\n4,1,1,-;nvidia: `1' invalid for parameter `NVreg_A'\n");
	assert_int_equal(sys.module_load_file(&sys, -1, "nvidia", "NVreg_A=1"), 0);
	assert_int_equal(sys.module_unload(&sys, "ext4"), -1);
	assert_int_equal(errno, EBUSY);
	assert_true(root_exists(&folder.root, "sys/module/ext4"));
	assert_int_equal(sys.node_make(&sys, dev, "nvidia0", 0666, makedev(195, 0)), -1);
	assert_int_equal(errno, EROFS);
	folder_expect(&folder, ".sys-refused", "ENODEV load nvidia_uvm\n");
}

static void test_a_signal_ends_a_recorded_process(void **state)
{
	(void)state;
	folder_dir(&folder, "proc/42/fd");
	auto_fd int process = sys.process_open(&sys, 42);
	assert_true(process >= 0);
	assert_int_equal(sys.process_signal(&sys, process, 42, SIGTERM), 0);
	assert_false(root_exists(&folder.root, "proc/42"));
	assert_int_equal(sys.process_signal(&sys, process, 42, SIGTERM), -1);
	assert_int_equal(errno, ESRCH);
	assert_int_equal(sys.process_open(&sys, 42), -1);
	assert_int_equal(errno, ESRCH);
	folder_expect(&folder, ".sys-calls", "signal 15 42\nsignal 15 42\n");
}

static void test_a_recorded_machine_has_room_for_so_many_processes(void **state)
{
	(void)state;
	enum { FIRST = 70000, MOST = 70999 };
	auto_strv struct strv argv = { 0 };
	strv_add(&argv, str_dup("/usr/bin/nvidia-persistenced"));
	assert_int_equal(sys.process_start(&sys, NULL, NULL, &argv, -1), FIRST);
	for (int pid = FIRST + 1; pid < MOST; pid++) {
		auto_str char *dir = str_fmt("proc/%d", pid);
		folder_dir(&folder, dir);
	}
	assert_int_equal(sys.process_start(&sys, NULL, NULL, &argv, -1), MOST);
	assert_int_equal(sys.process_start(&sys, NULL, NULL, &argv, -1), -1);
	assert_int_equal(errno, EAGAIN);
}

static void test_a_signal_reaches_a_real_process(void **state)
{
	(void)state;
	const struct sys *real = sys_real();
	int status;
	pid_t child = fork();
	if (child == 0) {
		pause();
		_exit(1);
	}
	auto_fd int process = real->process_open(real, child);
	assert_true(process >= 0);
	assert_int_equal(real->process_signal(real, process, child, SIGTERM), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_int_equal(real->process_signal(real, process, child, SIGTERM), -1);
	assert_int_equal(errno, ESRCH);
}

static void test_the_real_one_refuses_nonsense(void **state)
{
	(void)state;
	const struct sys *real = sys_real();
	struct stat st;
	assert_int_equal(real->module_load_file(real, -1, "x", ""), -1);
	assert_int_equal(real->module_load_data(real, "x", 1, "x", ""), -1);
	assert_int_equal(real->module_unload(real, "no_such_module_anywhere"), -1);
	assert_int_equal(real->node_look(real, dev, "nvidia0", &st), -1);
	assert_int_equal(real->node_set(real, dev, "nvidia0", 0666, 0, 0), -1);
	assert_int_equal(errno, ENOENT);
	assert_null(real->record);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_loads_and_unloads_show_in_sysfs),
		TEST(test_nodes_look_as_if_they_were_real),
		TEST(test_what_is_no_node_stays_what_it_is),
		TEST(test_an_unwritable_record_is_an_error),
		TEST(test_attributes),
		TEST(test_variables),
		TEST(test_what_a_recorded_machine_refuses),
		TEST(test_a_signal_ends_a_recorded_process),
		TEST(test_a_recorded_machine_has_room_for_so_many_processes),
		TEST(test_a_signal_reaches_a_real_process),
		TEST(test_the_real_one_refuses_nonsense),
	};
	return cmocka_run_group_tests_name("sys", tests, NULL, NULL);
}
