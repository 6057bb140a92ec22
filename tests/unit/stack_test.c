// SPDX-License-Identifier: Apache-2.0
// On the kernel's own mounts, in a namespace of this process: what each consumer sees, and the mounts that are left.
#include "driver_root/generation.h"

#include "base/file/file.h"
#include "tests/unit/tempdir.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

static struct folder folder;
static struct root parent, slash;
static struct mount_ns mount_ns;
static struct mount_point mount_point;

// The namespaces of other tests must not see any of this, nor may this machine.
static int setup(void **state)
{
	(void)state;
	struct err err;
	bool is_own = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) == 0;
	folder_make(&folder);
	mount_ns = MOUNT_NS_NONE;
	slash = parent = ROOT_NONE;
	if (!is_own)
		return 0;
	auto_str char *run = str_fmt("%s/run", folder.path), *state_dir = str_fmt("%s/state", folder.path);
	folder_dir(&folder, "run");
	folder_dir(&folder, "state");
	assert_int_equal(mount("run", run, "tmpfs", 0, NULL), 0);
	assert_int_equal(mount("state", state_dir, "tmpfs", 0, NULL), 0);
	assert_int_equal(mount(NULL, run, NULL, MS_SHARED, NULL), 0);
	folder_dir(&folder, "run/nvidia/driver/lib/firmware"); // as the kubelet makes it
	assert_int_equal(root_init(&slash, "/", &err), 0);
	const struct node node = { .host = &slash, .kern = &slash, .sys = sys_real() };
	expect(mount_ns_open(&node, &mount_ns, &err) == 0, err.text);
	assert_int_equal(root_sub(&folder.root, "run/nvidia", &parent, &err), 0);
	mount_point = (struct mount_point){ &mount_ns, &parent, "driver" };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	auto_str char *run = str_fmt("%s/run", folder.path), *state_dir = str_fmt("%s/state", folder.path);
	root_done(&parent);
	root_done(&slash);
	mount_ns_done(&mount_ns);
	umount2(run, MNT_DETACH);
	umount2(state_dir, MNT_DETACH);
	folder_done(&folder);
	return 0;
}

// A mount namespace of its own needs CAP_SYS_ADMIN.
static void need_rights(void)
{
	if (mount_ns.proc < 0)
		skip();
}

// Generation NUMBER has one entry, whose file holds its number.
static void prepare(unsigned number)
{
	struct err err;
	auto_str char *name = generation_name("driver", number), *tree = str_fmt("state/%u", number);
	auto_str char *file = str_fmt("%s/version", tree), *text = str_fmt("%u", number);
	auto_root struct root payload = ROOT_NONE;
	tempdir_write(&folder, file, text);
	assert_int_equal(root_sub(&folder.root, tree, &payload, &err), 0);
	char path[] = "usr", source[] = ".";
	struct root_entry root_entry = { .path = path, .from = &payload, .source = source, .is_read_only = true };
	struct root_layout root_layout = { &root_entry, 1 };
	expect(generation_begin(&mount_ns, &parent, name, &err) == 0, err.text);
	expect(generation_make(&mount_ns, &parent, name, &root_layout, &err) == 0, err.text);
}

// Returns *ret_below of generation_push().
static int put(unsigned number)
{
	struct err err;
	int below;
	auto_str char *name = generation_name("driver", number);
	prepare(number);
	expect(generation_push(&mount_point, name, &below, &err) == 0, err.text);
	expect(generation_remove(&mount_ns, &parent, name, &err) == 1, err.text);
	return below;
}

static void settle(int take_below)
{
	struct err err;
	auto_fd int below = take_below;
	expect(generation_remove_lower(&mount_point, below, &err) == 0, err.text);
}

struct consumer {
	pid_t pid;
	const char *place;
};

// A container that has the driver root at PLACE, started now.
static struct consumer consume(const char *place, unsigned long propagation)
{
	auto_str char *at = str_fmt("%s/%s", folder.path, place), *from = str_fmt("%s/run/nvidia/driver", folder.path);
	int ready[2];
	char byte = 0;
	folder_dir(&folder, place);
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		bool done = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, propagation | MS_REC, NULL) == 0 &&
			    mount(from, at, NULL, MS_BIND | MS_REC, NULL) == 0 && write(ready[1], &byte, 1) == 1;
		if (!done)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return (struct consumer){ pid, place };
}

static void end(struct consumer c)
{
	kill(c.pid, SIGKILL);
	waitpid(c.pid, NULL, 0);
}

static char *version_at(const char *root_path, const char *dir)
{
	struct err err;
	auto_root struct root root = ROOT_NONE;
	auto_str char *path = str_fmt("%s/usr/version", dir), *text = NULL;
	assert_int_equal(root_init(&root, root_path, &err), 0);
	return root_read(&root, path, &text, NULL, &err) > 0 ? TAKE(text) : str_dup("none");
}

static void expect_here(const char *want)
{
	auto_str char *got = version_at(folder.path, "run/nvidia/driver");
	assert_string_equal(got, want);
}

static void expect_seen(struct consumer c, const char *want)
{
	auto_str char *root = str_fmt("/proc/%d/root%s", (int)c.pid, folder.path), *got = version_at(root, c.place);
	assert_string_equal(got, want);
}

static size_t mounts_of(const char *pid)
{
	struct err err;
	auto_str char *path = str_fmt("proc/%s/mountinfo", pid), *text = NULL;
	auto_mountinfo struct mountinfo now = { 0 };
	assert_int_equal(root_read(&slash, path, &text, NULL, &err), 1);
	mountinfo_parse(text, &now);
	return now.count;
}

static size_t mounts_seen(struct consumer c)
{
	auto_str char *pid = str_fmt("%d", (int)c.pid);
	return mounts_of(pid);
}

static void expect_alone(void)
{
	struct err err;
	auto_mountinfo struct mountinfo now = { 0 };
	auto_str char *why = NULL;
	struct root_layout any = { 0 };
	assert_int_equal(mount_ns_mounts(&mount_ns, &now, &err), 0);
	expect(generation_check(&mount_point, &any, &why, &err) == 1, why);
	assert_true(generation_is_settled(&mount_point, &now));
	assert_true(root_exists(&folder.root, "run/nvidia/driver"));
}

// Consumers see what is in place now, whenever they were started, except those whose mounts are private.
static void test_what_consumers_see(void **state)
{
	(void)state;
	need_rights();
	struct consumer before = consume("before", MS_SLAVE);
	assert_int_equal(put(1), -1);
	struct consumer after = consume("after", MS_SLAVE), own = consume("own", MS_PRIVATE);
	size_t here = mounts_of("self"), there = mounts_seen(before);
	const struct consumer all[] = { before, after, own };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		expect_seen(all[i], "1");
	for (unsigned number = 2; number < 5; number++) {
		auto_str char *text = str_fmt("%u", number);
		settle(put(number));
		expect_here(text);
		expect_seen(before, text);
		expect_seen(after, text);
		expect_seen(own, "1");
		assert_int_equal(mounts_of("self"), here);
		assert_int_equal(mounts_seen(before), there);
		expect_alone();
	}
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		end(all[i]);
}

// A rollback reaches every consumer.
static void test_rollback(void **state)
{
	(void)state;
	need_rights();
	struct err err;
	struct consumer before = consume("before", MS_SLAVE);
	put(1);
	struct consumer after = consume("after", MS_SLAVE);
	size_t here = mounts_of("self"), there = mounts_seen(after);
	auto_fd int below = put(2);
	expect_seen(after, "2");
	assert_int_equal(generation_pop(&mount_point, &err), 0);
	expect_here("1");
	expect_seen(before, "1");
	expect_seen(after, "1");
	assert_int_equal(mounts_of("self"), here);
	assert_int_equal(mounts_seen(after), there);
	// And is not taken for one that has to go.
	assert_int_equal(generation_remove_lower(&mount_point, below, &err), 0);
	expect_here("1");
	end(before);
	end(after);
}

// A start was killed before the former generation was removed; and a namespace in which nothing is shared.
static void test_leftovers_are_removed(void **state)
{
	(void)state;
	need_rights();
	auto_str char *run = str_fmt("%s/run", folder.path);
	assert_int_equal(mount(NULL, run, NULL, MS_PRIVATE, NULL), 0);
	put(1);
	size_t here = mounts_of("self");
	for (unsigned number = 2; number < 4; number++)
		close(put(number));
	expect_here("3");
	settle(put(4));
	expect_here("4");
	assert_int_equal(mounts_of("self"), here);
	expect_alone();
}

// NVIDIA's container binds a whole root to the mount point; a bind mount of the machine's root is its peer.
static void test_a_foreign_mount(void **state)
{
	(void)state;
	need_rights();
	struct err err;
	auto_str char *driver = str_fmt("%s/run/nvidia/driver", folder.path);
	auto_str char *machine = str_fmt("%s/run/machine", folder.path), *in = str_fmt("%s/sys", machine);
	tempdir_write(&folder, "run/machine/file", "x");
	assert_int_equal(mount("machine", machine, "tmpfs", 0, NULL), 0);
	folder_dir(&folder, "run/machine/sys");
	assert_int_equal(mount("sys", in, "tmpfs", 0, NULL), 0);
	tempdir_write(&folder, "run/machine/sys/file", "x");
	size_t here = mounts_of("self");
	assert_int_equal(mount(machine, driver, NULL, MS_BIND | MS_REC, NULL), 0);
	assert_int_equal(put(1), -1);
	expect_here("1");
	expect_alone();
	folder_expect(&folder, "run/machine/sys/file", "x");
	assert_int_equal(generation_clear(&mount_point, false, &err), 0);
	assert_int_equal(mounts_of("self"), here);
	assert_true(root_exists(&folder.root, "run/nvidia/driver/lib/firmware"));
}

// In the same namespace, as where a container's root is prepared: copies there are detached with the mount point's.
static void test_a_second_name_of_the_mount_point(void **state)
{
	(void)state;
	need_rights();
	auto_str char *from = str_fmt("%s/run/nvidia", folder.path), *alias = str_fmt("%s/state/alias", folder.path);
	auto_str char *driver = str_fmt("%s/driver", from);
	folder_dir(&folder, "state/alias");
	assert_int_equal(mount(from, alias, NULL, MS_BIND | MS_REC, NULL), 0);
	assert_int_equal(put(1), -1);
	size_t here = mounts_of("self");
	settle(put(2));
	assert_int_equal(mounts_of("self"), here);
	assert_int_equal(mount("other", driver, "tmpfs", 0, NULL), 0);
	settle(put(3));
	assert_int_equal(mounts_of("self"), here);
	auto_str char *got = version_at(folder.path, "state/alias/driver");
	assert_string_equal(got, "3");
	expect_alone();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_consumers_see, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rollback, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leftovers_are_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_foreign_mount, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_second_name_of_the_mount_point, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
