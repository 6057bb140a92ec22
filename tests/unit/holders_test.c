// SPDX-License-Identifier: Apache-2.0
// R-D2: five kinds of holders on a recorded machine; and the real /proc of this machine.
#include "holders/proc_scan.h"

#include "tests/unit/tempdir.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void process(const struct folder *t, int pid, const char *comm, const char *cgroup, const char *ns)
{
	const char *const names[] = { "comm", "status", "cmdline", "cgroup", "maps", "mountinfo" };
	auto_str char *name = str_fmt("%s\n", comm), *command = str_fmt("/usr/bin/%s\n--flag", comm);
	const char *const texts[] = { name, "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n", command, cgroup, "", "" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		auto_str char *path = str_fmt("proc/%d/%s", pid, names[i]);
		tempdir_write(t, path, texts[i]);
	}
	auto_str char *link = str_fmt("proc/%d/ns/mnt", pid), *target = str_fmt("mnt:[%s]", ns);
	auto_str char *fds = str_fmt("proc/%d/fd", pid);
	tempdir_link(t, link, target);
	folder_dir(t, fds);
}

static void fd(const struct folder *t, int pid, int number, const char *target)
{
	auto_str char *path = str_fmt("proc/%d/fd/%d", pid, number);
	tempdir_link(t, path, target);
}

static void file(const struct folder *t, int pid, const char *name, const char *text)
{
	auto_str char *path = str_fmt("proc/%d/%s", pid, name);
	tempdir_write(t, path, text);
}

static void machine(struct folder *t)
{
	folder_make(t);
	tempdir_write(t, "proc/devices", "Character devices:\n  1 mem\n195 nvidia\n242 nvidia-uvm\n\nBlock devices:\n");
	tempdir_link(t, "proc/self", "77");
	process(t, 1, "systemd", "0::/init.scope\n", "1");
	fd(t, 1, 0, "/dev/null");
	fd(t, 1, 1, "/home/x/dev/nvidia-notes/file.txt");
	fd(t, 1, 2, "socket:[1234]");
	process(t, 77, "kmodsmith", "0::/\n", "1");
	fd(t, 77, 3, "/dev/nvidiactl");
	tempdir_write(t, "proc/sys/kernel/osrelease", "x\n");
}

static const struct holder *find(const struct holders *h, int pid, enum holder_kind kind, const char *path)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->items[i].pid == pid && h->items[i].kind == kind && str_eq(h->items[i].path, path))
			return &h->items[i];
	fail_msg("no %s of %s by %d", holder_kind_name(kind), path, pid);
	return NULL;
}

static void names_five_kinds(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_holders struct holders h = { 0 };
	char gdrdrv[] = "gdrdrv", nvidia[] = "nvidia";
	struct loaded_module modules[] = { { .name = gdrdrv }, { .name = nvidia, .is_driver = true } };
	struct modules loaded = { .items = modules, .count = ARRAY_SIZE(modules) };
	machine(&t);
	process(&t, 42, "python3",
		"0::/kubepods.slice/kubepods-pod6e1c2b6a_0d4e_4a3f_9a56_3f1de0b5a111.slice/cri-containerd-" ID
		".scope\n",
		"2");
	fd(&t, 42, 5, "/dev/nvidia0");
	fd(&t, 42, 6, "/dev/nvidia0");
	fd(&t, 42, 7, "/dev/nvidia-caps/nvidia-cap3");
	file(&t, 42, "mountinfo",
	     "600 599 0:5 /nvidia0 /dev/nvidia0 ro,nosuid - devtmpfs udev rw\n"
	     "601 599 8:1 /usr/lib/libcuda.so.535 /usr/lib64/libcuda.so.535 ro - ext4 /dev/sda1 rw\n"
	     "602 599 0:9 / /run/nvidia/driver rw - overlay overlay rw\n603 599 8:1 /data /data/nvidia-sets rw - ext4 "
	     "/dev/sda1 rw\n");
	process(&t, 43, "uvm-user", "0::/docker/" ID "\n", "2");
	file(&t, 43, "maps",
	     "7f00-7f01 rw-s 00000000 00:05 9   /dev/shm/x\n7f02-7f03 rw-s 00000000 00:05 611    /dev/nvidia-uvm\n"
	     "7f04-7f05 rw-s 00000000 00:05 611    /run/nvidia/driver/dev/nvidia1 (deleted)\n");
	process(&t, 44, "drm-user", "0::/user.slice\n", "1");
	tempdir_write(&t, "sys/bus/pci/devices/0000:40:00.0/vendor", "0x10de\n");
	tempdir_write(&t, "sys/bus/pci/devices/0000:40:00.0/class", "0x030200\n");
	tempdir_link(&t, "sys/bus/pci/devices/0000:40:00.0/driver", "../x/nvidia");
	folder_dir(&t, "sys/bus/pci/devices/0000:40:00.0/drm/renderD129");
	fd(&t, 44, 3, "/dev/dri/renderD129");
	fd(&t, 44, 4, "/dev/dri/renderD128");

	assert_int_equal(holders_find(&t.root, &loaded, &h, &err), 1);
	assert_int_equal(h.processes, 4);
	assert_int_equal(h.unreadable, 0);
	assert_int_equal(h.count, 7);
	const struct holder *gpu = find(&h, 42, HOLDER_FD, "/dev/nvidia0");
	assert_int_equal(gpu->count, 2);
	assert_int_equal(gpu->uid, 1000);
	assert_string_equal(gpu->comm, "python3");
	assert_string_equal(gpu->cmdline, "/usr/bin/python3 --flag");
	assert_string_equal(gpu->runtime, "containerd");
	assert_string_equal(gpu->container, ID);
	assert_string_equal(gpu->pod, "6e1c2b6a-0d4e-4a3f-9a56-3f1de0b5a111");
	find(&h, 42, HOLDER_FD, "/dev/nvidia-caps/nvidia-cap3");
	find(&h, 42, HOLDER_MOUNT, "/dev/nvidia0");
	find(&h, 42, HOLDER_MOUNT, "/usr/lib64/libcuda.so.535");
	find(&h, 43, HOLDER_MAP, "/run/nvidia/driver/dev/nvidia1");
	assert_string_equal(find(&h, 43, HOLDER_MAP, "/dev/nvidia-uvm")->runtime, "docker");
	find(&h, 44, HOLDER_FD, "/dev/dri/renderD129");
	assert_int_equal(h.modules.count, 1);
	assert_string_equal(h.modules.items[0], "gdrdrv");
	assert_true(holders_blocking(&h) > 0);
	assert_int_equal(holders_blocking(&h), 4); // three processes and a module
	auto_str char *first = holders_first(&h);
	assert_non_null(strstr(first, "pid 42 python3"));
	auto_str char *text = holder_text(gpu);
	assert_string_equal(text, "pid 42 python3 (uid 1000, pod 6e1c2b6a-0d4e-4a3f-9a56-3f1de0b5a111, "
				  "containerd container 0123456789ab) fd /dev/nvidia0");
}

static void idle_machine_has_none(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_holders struct holders h = { 0 };
	const struct modules none = { 0 };
	machine(&t);
	assert_int_equal(holders_find(&t.root, &none, &h, &err), 0);
	assert_int_equal(h.processes, 1);
	assert_int_equal(holders_blocking(&h), 0);
}

// A reference of nvidia-drm that is no process is the console's where the frame buffer is nvidia-drm's.
static void the_console_is_named(void **state)
{
	(void)state;
	static const struct {
		const char *row, *fb, *bind;
		unsigned references;
		bool is_open; // a process has the card open
		const char *want, *next;
	} rows[] = {
		{ "bound", "0 nvidia-drmdrmfb\n", "1", 1, false, "fb0 (nvidia-drmdrmfb), vtcon1",
		  "`echo 0 >/sys/class/vtconsole/vtcon1/bind`" },
		{ "taken off", "0 nvidia-drmdrmfb\n", "0", 1, false, "fb0 (nvidia-drmdrmfb)", "fbdev=0" },
		{ "beside another one", "0 EFI VGA\n1 nvidia-drmdrmfb\n", "1", 1, false,
		  "fb1 (nvidia-drmdrmfb), vtcon1", "vtcon1" },
		{ "another's", "0 EFI VGA\n", "1", 1, false, NULL, "" },
		{ "none at all", "", "1", 1, false, NULL, "" },
		{ "no reference", "0 nvidia-drmdrmfb\n", "1", 0, false, NULL, "" },
		{ "a process has it", "0 nvidia-drmdrmfb\n", "1", 1, true, NULL, "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		struct err err;
		auto_holders struct holders h = { 0 };
		struct loaded_module drm = { .name = (char[]){ "nvidia_drm" },
					     .is_driver = true,
					     .refcount = rows[i].references };
		const struct modules loaded = { .items = &drm, .count = 1 };
		machine(&t);
		tempdir_write(&t, "proc/fb", rows[i].fb);
		tempdir_write(&t, "sys/class/vtconsole/vtcon0/name", "(S) dummy device\n");
		tempdir_write(&t, "sys/class/vtconsole/vtcon0/bind", "1\n");
		tempdir_write(&t, "sys/class/vtconsole/vtcon1/name", "(M) frame buffer device\n");
		tempdir_write(&t, "sys/class/vtconsole/vtcon1/bind", rows[i].bind);
		if (rows[i].is_open) {
			tempdir_write(&t, "sys/bus/pci/devices/0000:40:00.0/vendor", "0x10de\n");
			tempdir_write(&t, "sys/bus/pci/devices/0000:40:00.0/class", "0x030200\n");
			tempdir_link(&t, "sys/bus/pci/devices/0000:40:00.0/driver", "../x/nvidia");
			folder_dir(&t, "sys/bus/pci/devices/0000:40:00.0/drm/card0");
			process(&t, 50, "Xorg", "0::/\n", "1");
			fd(&t, 50, 3, "/dev/dri/card0");
		}
		expect(holders_find(&t.root, &loaded, &h, &err) == (rows[i].want || rows[i].is_open), rows[i].row);
		expect(rows[i].want ? str_eq(h.console, rows[i].want) : !h.console, rows[i].row);
		err_set(&err, E_IN_USE, "x");
		holders_next(&h, &err);
		expect(rows[i].want ? !!strstr(err.next, rows[i].next) : !*err.next, rows[i].row);
	}
}

static void a_mount_does_not_block(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_holders struct holders h = { 0 };
	const struct modules none = { 0 };
	machine(&t);
	process(&t, 50, "pause", "0::/docker/" ID "\n", "9");
	file(&t, 50, "mountinfo", "600 599 0:5 /nvidia0 /dev/nvidia0 ro - devtmpfs udev rw\n");
	assert_int_equal(holders_find(&t.root, &none, &h, &err), 1);
	assert_int_equal(h.items[0].kind, HOLDER_MOUNT);
	assert_int_equal(holders_blocking(&h), 0);
}

static void long_maps_are_read_whole(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_holders struct holders h = { 0 };
	const struct modules none = { 0 };
	auto_str char *maps = NULL;
	machine(&t);
	process(&t, 60, "big", "0::/\n", "1");
	for (int i = 0; i < 3000; i++)
		str_add(&maps, "7f%06x-7f%06x r--p 00000000 08:01 %d      /usr/lib/library-%d.so\n", i, i + 1, i, i);
	str_add(&maps, "7fffff-800000 rw-s 0 0:5 1 /dev/nvidia3");
	file(&t, 60, "maps", maps);
	assert_int_equal(holders_find(&t.root, &none, &h, &err), 1);
	find(&h, 60, HOLDER_MAP, "/dev/nvidia3");
}

// A node under a foreign name is known by its number; a plain file under a node's name is none.
static void numbers_count_more_than_names(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_holders struct holders h = { 0 };
	const struct modules none = { 0 };
	machine(&t);
	process(&t, 70, "odd", "0::/\n", "1");
	fd(&t, 70, 3, "/srv/mygpu");
	fd(&t, 70, 4, "/dev/nvidia9");
	folder_dir(&t, "srv");
	folder_dir(&t, "dev");
	auto_str char *gpu = str_fmt("%s/srv/mygpu", t.path), *other = str_fmt("%s/dev/nvidia9", t.path);
	if (mknod(gpu, S_IFCHR | 0600, makedev(195, 0)) < 0 || mknod(other, S_IFCHR | 0600, makedev(1, 3)) < 0) {
		skip();
	}
	assert_int_equal(holders_find(&t.root, &none, &h, &err), 1);
	assert_int_equal(h.count, 1);
	find(&h, 70, HOLDER_FD, "/srv/mygpu");
}

static bool holds(const struct holders *h, int pid, enum holder_kind kind)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->items[i].pid == pid && h->items[i].kind == kind)
			return true;
	return false;
}

// P11: the kernel's count of references decides whether files are asked for, and never hides a mount.
static void references_tell_whether_to_look(void **state)
{
	(void)state;
	static const struct {
		const char *row, *nvidia, *uvm; // references
		bool is_looked_for;
	} rows[] = {
		{ "only the dependents", "2\n", "0\n", false }, { "an open node of nvidia", "5\n", "0\n", true },
		{ "an open node of uvm", "2\n", "2\n", true },  { "fewer than dependents", "1\n", "0\n", true },
		{ "no count at all", NULL, "0\n", true },       { "going", "-1\n", "0\n", true },
	};
	char *users[] = { (char[]){ "nvidia_modeset" }, (char[]){ "nvidia_uvm" } };
	struct loaded_module modules[] = {
		{ .name = (char[]){ "nvidia" }, .is_driver = true, .holders = { .items = users, .count = 2 } },
		{ .name = (char[]){ "nvidia_uvm" }, .is_driver = true },
	};
	const struct modules loaded = { .items = modules, .count = ARRAY_SIZE(modules) };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		struct err err;
		auto_holders struct holders h = { 0 };
		machine(&t);
		if (rows[i].nvidia)
			tempdir_write(&t, "sys/module/nvidia/refcnt", rows[i].nvidia);
		tempdir_write(&t, "sys/module/nvidia_uvm/refcnt", rows[i].uvm);
		process(&t, 80, "user", "0::/\n", "9");
		fd(&t, 80, 3, "/dev/nvidia0");
		file(&t, 80, "maps", "7f02-7f03 rw-s 00000000 00:05 611    /dev/nvidia-uvm\n");
		file(&t, 80, "mountinfo", "600 599 0:5 /nvidia0 /dev/nvidia0 ro - devtmpfs udev rw\n");
		expect(holders_find(&t.root, &loaded, &h, &err) == 1, rows[i].row);
		expect(holds(&h, 80, HOLDER_FD) == rows[i].is_looked_for, rows[i].row);
		expect(holds(&h, 80, HOLDER_MAP) == rows[i].is_looked_for, rows[i].row);
		expect(holds(&h, 80, HOLDER_MOUNT), rows[i].row);
		expect(h.processes == 2, rows[i].row);
	}
}

static pid_t mapper_of(const char *path, int flags) // of a file that is made when it is absent
{
	int ready[2];
	char c = 'x';
	assert_int_equal(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		int fd = open(path, O_RDWR | O_CREAT, 0600);
		void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, fd, 0);
		close(fd);
		if (map != MAP_FAILED && write(ready[1], &c, 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

enum { MEM_MAJOR = 1, ZERO_MINOR = 5 };

static bool sees_mapped_files(void) // which root of a user namespace does not
{
	unsigned long start, end;
	FILE *maps = fopen("/proc/self/maps", "re");
	bool is_seen = false;
	while (!is_seen && maps && fscanf(maps, "%lx-%lx%*[^\n]", &start, &end) == 2) {
		auto_str char *link = str_fmt("/proc/self/map_files/%lx-%lx", start, end);
		is_seen = access(link, F_OK) == 0;
	}
	if (maps)
		fclose(maps);
	return is_seen;
}

// A mapping outlives its descriptor. New kernels are asked for shared mappings, old ones for the whole text. A file
// that somebody gave a device's name holds nothing: what is mapped counts, the name only where that cannot be seen.
static void mappings_of_real_processes(void **state)
{
	(void)state;
	static const struct {
		const char *row;
		int flags;
		bool is_thorough, is_device;
	} rows[] = {
		{ "a file, shared", MAP_SHARED, false, false },
		{ "a file, shared, thorough", MAP_SHARED, true, false },
		{ "a file, private, thorough", MAP_PRIVATE, true, false },
		{ "a device, private, thorough", MAP_PRIVATE, true, true },
	};
	if (access("/proc/self/map_files", X_OK) < 0 || geteuid() != 0 || !sees_mapped_files())
		skip(); // the kernel tells only root what is mapped
	auto_folder struct folder t;
	struct err err;
	auto_root struct root real = ROOT_NONE;
	const struct modules none = { 0 };
	folder_make(&t);
	folder_dir(&t, "dev");
	auto_str char *here = realpath(t.path, NULL), *path = str_fmt("%s/dev/nvidia0", here);
	assert_int_equal(root_init(&real, "/", &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unlink(path);
		if (rows[i].is_device && mknod(path, S_IFCHR | 0600, makedev(MEM_MAJOR, ZERO_MINOR)) < 0)
			break; // this container makes no devices
		struct proc_scan s;
		struct proc_scan_result r = { 0 };
		assert_int_equal(proc_scan_open(&s, &real, &none, &err), 0);
		s.is_thorough = rows[i].is_thorough;
		s.majors[0] = MEM_MAJOR;
		s.major_count = 1;
		pid_t child = mapper_of(path, rows[i].flags);
		proc_scan_process(&s, child, &r);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		struct holders h = { .items = r.items, .count = r.count };
		expect(holds(&h, child, HOLDER_MAP) == rows[i].is_device, rows[i].row);
		expect(r.count == rows[i].is_device, rows[i].row);
		expect(!r.count || (str_eq(h.items[0].path, path) && h.items[0].count == 1), rows[i].row);
		holders_done(&h);
		strv_done(&r.namespaces);
		free(r.first_pids);
		free(r.buffer);
		proc_scan_done(&s);
	}
}

static pid_t holder_of(const char *path)
{
	int ready[2];
	char c = 'x';
	assert_int_equal(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		if (open(path, O_RDWR | O_CREAT, 0600) >= 0 && write(ready[1], &c, 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

static void real_proc_is_looked_at(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_root struct root real = ROOT_NONE;
	auto_holders struct holders h = { 0 };
	const struct modules none = { 0 };
	folder_make(&t);
	folder_dir(&t, "dev");
	auto_str char *path = str_fmt("%s/dev/nvidia0", t.path);
	pid_t child = holder_of(path);
	assert_int_equal(root_init(&real, "/", &err), 0);
	int r = holders_find(&real, &none, &h, &err);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(r >= 0);
	assert_true(h.processes > 0);
	for (size_t i = 0; i < h.count; i++)
		assert_int_not_equal(h.items[i].pid, child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_five_kinds),
		cmocka_unit_test(idle_machine_has_none),
		cmocka_unit_test(the_console_is_named),
		cmocka_unit_test(a_mount_does_not_block),
		cmocka_unit_test(long_maps_are_read_whole),
		cmocka_unit_test(numbers_count_more_than_names),
		cmocka_unit_test(references_tell_whether_to_look),
		cmocka_unit_test(mappings_of_real_processes),
		cmocka_unit_test(real_proc_is_looked_at),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
