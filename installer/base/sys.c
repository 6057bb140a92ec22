// SPDX-License-Identifier: Apache-2.0
#include "base/sys.h"

#include "base/file.h"
#include "base/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static int real_load_file(const struct sys *sys, int fd, const char *name, const char *params)
{
	(void)sys, (void)name;
	return (int)syscall(SYS_finit_module, fd, params, 0);
}

static int real_load_data(const struct sys *sys, const void *data, size_t len, const char *name, const char *params)
{
	(void)sys, (void)name;
	return (int)syscall(SYS_init_module, data, len, params);
}

static int real_unload(const struct sys *sys, const char *name)
{
	(void)sys;
	return (int)syscall(SYS_delete_module, name, O_NONBLOCK);
}

static int real_node_make(const struct sys *sys, int dir, const char *name, mode_t mode, dev_t dev)
{
	(void)sys;
	return mknodat(dir, name, S_IFCHR | mode, dev);
}

static int real_node_look(const struct sys *sys, int dir, const char *name, struct stat *ret)
{
	(void)sys;
	return fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW);
}

static int real_node_set(const struct sys *sys, int dir, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	(void)sys;
	if (fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	return fchmodat(dir, name, mode, 0);
}

static int real_mount_enter(const struct sys *sys, int ns)
{
	(void)sys;
	return setns(ns, CLONE_NEWNS);
}

static int real_mount_copy(const struct sys *sys)
{
	(void)sys;
	return unshare(CLONE_NEWNS);
}

// mount(2) has no form with descriptors on the kernels that are served; their links in /proc lead to the same place.
static int change_mount(int from, int at, unsigned long flags)
{
	char source[32], place[32];
	snprintf(source, sizeof(source), "/proc/self/fd/%d", from);
	snprintf(place, sizeof(place), "/proc/self/fd/%d", at);
	return mount(from < 0 ? NULL : source, place, NULL, flags, NULL);
}

static int real_mount_bind(const struct sys *sys, int from, int at, bool is_recursive)
{
	(void)sys;
	return change_mount(from, at, MS_BIND | (is_recursive ? MS_REC : 0));
}

static int real_mount_tmpfs(const struct sys *sys, int at, const char *source, const char *options)
{
	(void)sys;
	char place[32];
	snprintf(place, sizeof(place), "/proc/self/fd/%d", at);
	return mount(source, place, "tmpfs", MS_NOSUID | MS_NODEV, options);
}

static int real_mount_shared(const struct sys *sys, int at)
{
	(void)sys;
	return change_mount(-1, at, MS_SHARED);
}

static int real_mount_private(const struct sys *sys, int at)
{
	(void)sys;
	return change_mount(-1, at, MS_PRIVATE | MS_REC);
}

static int real_mount_read_only(const struct sys *sys, int at)
{
	(void)sys;
	return change_mount(-1, at, MS_REMOUNT | MS_BIND | MS_RDONLY);
}

static int real_mount_detach(const struct sys *sys, int dir, const char *name)
{
	(void)sys;
	auto_str char *path = str_fmt("/proc/self/fd/%d/%s", dir, name);
	return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
}

// setxattr(2) has no form with descriptors that takes one of a node that is not opened.
static int real_label_set(const struct sys *sys, int dir, const char *name, const char *context)
{
	(void)sys;
	char place[64];
	auto_fd int at = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	snprintf(place, sizeof(place), "/proc/self/fd/%d", at);
	return at < 0 ? -1 : setxattr(place, "security.selinux", context, strlen(context) + 1, 0);
}

static int real_process_open(const struct sys *sys, int pid)
{
	(void)sys;
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int real_process_signal(const struct sys *sys, int process, int pid, int signal)
{
	(void)sys, (void)pid;
	return (int)syscall(SYS_pidfd_send_signal, process, signal, NULL, 0);
}

static int real_process_start(const struct sys *sys, const char *root, const char *env, const struct strv *argv,
			      int out)
{
	(void)sys;
	struct err err;
	pid_t pid;
	const struct launch l = { .root = root, .env = env, .argv = argv, .out = out };
	if (launch(&l, &pid, &err) == 0)
		return pid;
	errno = err.code;
	return -1;
}

static int real_attribute_set(const struct sys *sys, const struct root *kern, const char *path, const char *text)
{
	(void)sys;
	struct err err;
	size_t len = strlen(text);
	auto_fd int fd = root_open(kern, path, O_WRONLY, &err);
	if (fd < 0) {
		errno = err.code;
		return -1;
	}
	ssize_t done = write(fd, text, len); // an attribute takes one write, whole
	if (done >= 0 && (size_t)done != len)
		errno = EIO;
	return done == (ssize_t)len ? 0 : -1;
}

static const struct sys real = {
	.name = "kernel",
	.module_load_file = real_load_file,
	.module_load_data = real_load_data,
	.module_unload = real_unload,
	.node_make = real_node_make,
	.node_look = real_node_look,
	.node_set = real_node_set,
	.mount_enter = real_mount_enter,
	.mount_copy = real_mount_copy,
	.mount_bind = real_mount_bind,
	.mount_tmpfs = real_mount_tmpfs,
	.mount_shared = real_mount_shared,
	.mount_private = real_mount_private,
	.mount_read_only = real_mount_read_only,
	.mount_detach = real_mount_detach,
	.label_set = real_label_set,
	.process_open = real_process_open,
	.process_signal = real_process_signal,
	.process_start = real_process_start,
	.attribute_set = real_attribute_set,
};

const struct sys *sys_real(void)
{
	return &real;
}

static void record(const struct sys *sys, const char *fmt, ...) PRINTF(2, 3);
static void record(const struct sys *sys, const char *fmt, ...)
{
	struct err err;
	char line[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	auto_fd int fd = root_open(sys->record, ".", O_RDONLY | O_DIRECTORY, &err);
	auto_fd int log =
		fd < 0 ? -1 : openat(fd, ".sys-calls", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (log >= 0)
		dprintf(log, "%s\n", line);
}

static int record_load(const struct sys *sys, const char *name, const char *params)
{
	struct err err;
	auto_str char *dir = str_fmt("sys/module/%s", name);
	for (char *p = dir; *p; p++)
		*p = *p == '-' ? '_' : *p;
	auto_str char *state = str_fmt("%s/initstate", dir);
	record(sys, "load %s %s", name, params);
	if (root_exists(sys->record, state)) {
		errno = EEXIST;
		return -1;
	}
	if (root_mkdirs(sys->record, dir, 0755, &err) < 0 ||
	    root_write(sys->record, state, "live\n", 5, 0444, &err) < 0) {
		errno = EROFS;
		return -1;
	}
	return 0;
}

static int record_load_file(const struct sys *sys, int fd, const char *name, const char *params)
{
	(void)fd;
	return record_load(sys, name, params);
}

static int record_load_data(const struct sys *sys, const void *data, size_t len, const char *name, const char *params)
{
	(void)data, (void)len;
	return record_load(sys, name, params);
}

static int record_unload(const struct sys *sys, const char *name)
{
	struct err err;
	auto_str char *dir = str_fmt("sys/module/%s", name);
	record(sys, "unload %s", name);
	int r = root_rmtree(sys->record, dir, &err);
	errno = r == 0 ? ENOENT : EROFS;
	return r > 0 ? 0 : -1;
}

static int node_text(int dir, const char *name, mode_t mode, dev_t dev, uid_t uid, gid_t gid)
{
	auto_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -1;
	return dprintf(fd, "c %u:%u %04o %u:%u\n", major(dev), minor(dev), mode & 07777U, uid, gid) > 0 ? 0 : -1;
}

static int record_node_make(const struct sys *sys, int dir, const char *name, mode_t mode, dev_t dev)
{
	record(sys, "mknod %s c %u %u %04o", name, major(dev), minor(dev), (unsigned)mode);
	if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		errno = EEXIST;
		return -1;
	}
	return node_text(dir, name, mode, dev, 0, 0);
}

static int record_node_look(const struct sys *sys, int dir, const char *name, struct stat *ret)
{
	(void)sys;
	if (fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (!S_ISREG(ret->st_mode))
		return 0;
	auto_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_str char *text = NULL;
	struct err err;
	unsigned maj, min, mode, uid, gid;
	if (fd < 0 || file_read(fd, name, &text, NULL, &err) < 0)
		return -1;
	if (sscanf(text, "c %u:%u %o %u:%u", &maj, &min, &mode, &uid, &gid) == 5) {
		ret->st_mode = S_IFCHR | mode;
		ret->st_rdev = makedev(maj, min);
		ret->st_uid = uid;
		ret->st_gid = gid;
	}
	return 0;
}

static int record_node_set(const struct sys *sys, int dir, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	struct stat st;
	record(sys, "set %s %04o %u:%u", name, (unsigned)mode, uid, gid);
	if (record_node_look(sys, dir, name, &st) < 0)
		return -1;
	return node_text(dir, name, mode, st.st_rdev, uid, gid);
}

static int no_mounts(const struct sys *sys, const char *what)
{
	record(sys, "%s", what);
	errno = EOPNOTSUPP;
	return -1;
}

static int record_mount_enter(const struct sys *sys, int ns)
{
	(void)ns;
	return no_mounts(sys, "enter a mount namespace");
}

static int record_mount_copy(const struct sys *sys)
{
	return no_mounts(sys, "copy the mount namespace");
}

static int record_mount_bind(const struct sys *sys, int from, int at, bool is_recursive)
{
	(void)from, (void)at, (void)is_recursive;
	return no_mounts(sys, "bind");
}

static int record_mount_tmpfs(const struct sys *sys, int at, const char *source, const char *options)
{
	(void)at, (void)source, (void)options;
	return no_mounts(sys, "mount a tmpfs");
}

static int record_mount_shared(const struct sys *sys, int at)
{
	(void)at;
	return no_mounts(sys, "make shared");
}

static int record_mount_private(const struct sys *sys, int at)
{
	(void)at;
	return no_mounts(sys, "make private");
}

static int record_mount_read_only(const struct sys *sys, int at)
{
	(void)at;
	return no_mounts(sys, "make read-only");
}

static int record_mount_detach(const struct sys *sys, int dir, const char *name)
{
	(void)dir, (void)name;
	return no_mounts(sys, "detach");
}

static int record_label_set(const struct sys *sys, int dir, const char *name, const char *context)
{
	(void)dir;
	record(sys, "label %s %s", name, context);
	return 0;
}

static int record_process_open(const struct sys *sys, int pid)
{
	struct err err;
	auto_str char *path = str_fmt("proc/%d", pid);
	int fd = root_open(sys->record, path, O_RDONLY | O_DIRECTORY, &err);
	errno = ESRCH;
	return fd;
}

static int record_process_signal(const struct sys *sys, int process, int pid, int signal)
{
	(void)process;
	struct err err;
	auto_str char *path = str_fmt("proc/%d", pid);
	record(sys, "signal %d %d", signal, pid);
	int r = root_rmtree(sys->record, path, &err);
	errno = r == 0 ? ESRCH : EROFS;
	return r > 0 ? 0 : -1;
}

static int record_process_start(const struct sys *sys, const char *root, const char *env, const struct strv *argv,
				int out)
{
	(void)root, (void)env, (void)out;
	enum { FIRST = 70000, MOST = 79999 };
	struct err err;
	auto_str char *args = strv_join(argv, " "), *dir = NULL;
	record(sys, "start %s", args);
	for (int pid = FIRST; pid <= MOST; pid++) {
		free(dir);
		dir = str_fmt("proc/%d", pid);
		if (root_exists(sys->record, dir))
			continue;
		auto_str char *exe = str_fmt("%s/exe", dir), *file = str_fmt("%s/stat", dir),
			      *text = str_fmt("%d (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1000 0\n", pid);
		if (root_mkdirs(sys->record, dir, 0755, &err) == 0 &&
		    root_symlink(sys->record, argv->items[0], exe, &err) == 0 &&
		    root_write(sys->record, file, text, strlen(text), 0644, &err) == 0)
			return pid;
		break;
	}
	errno = EAGAIN;
	return -1;
}

// "sys/bus/pci/drivers/nouveau/unbind": the link of the device, as the kernel would leave it. False = it is another
// attribute.
static bool record_bind(const struct root *kern, const char *path, const char *device)
{
	struct err err;
	char bus[32], driver[64], verb[8];
	if (sscanf(path, "sys/bus/%31[^/]/drivers/%63[^/]/%7s", bus, driver, verb) != 3 || strchr(verb, '/'))
		return false;
	auto_str char *link = str_fmt("sys/bus/%s/devices/%s/driver", bus, device);
	auto_str char *target = str_fmt("../../../bus/%s/drivers/%s", bus, driver);
	if (str_eq(verb, "unbind"))
		return root_unlink(kern, link, &err) >= 0;
	return str_eq(verb, "bind") && root_symlink(kern, target, link, &err) == 0;
}

static int record_attribute_set(const struct sys *sys, const struct root *kern, const char *path, const char *text)
{
	struct err err;
	record(sys, "write %s %.*s", path, (int)strcspn(text, "\n"), text);
	if (record_bind(kern, path, text))
		return 0;
	auto_fd int fd = root_create(kern, path, &err);
	if (fd < 0 || file_write(fd, path, text, strlen(text), &err) < 0) {
		errno = err.code;
		return -1;
	}
	return 0;
}

struct sys sys_recorder(const struct root *record)
{
	return (struct sys){
		.name = "recorder",
		.module_load_file = record_load_file,
		.module_load_data = record_load_data,
		.module_unload = record_unload,
		.node_make = record_node_make,
		.node_look = record_node_look,
		.node_set = record_node_set,
		.mount_enter = record_mount_enter,
		.mount_copy = record_mount_copy,
		.mount_bind = record_mount_bind,
		.mount_tmpfs = record_mount_tmpfs,
		.mount_shared = record_mount_shared,
		.mount_private = record_mount_private,
		.mount_read_only = record_mount_read_only,
		.mount_detach = record_mount_detach,
		.label_set = record_label_set,
		.process_open = record_process_open,
		.process_signal = record_process_signal,
		.process_start = record_process_start,
		.attribute_set = record_attribute_set,
		.record = record,
	};
}
