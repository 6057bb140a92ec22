// SPDX-License-Identifier: Apache-2.0
#include "base/process/sys.h"

#include "base/process/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
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

static int real_device_open(const struct sys *sys, int dir, const char *name)
{
	(void)sys;
	return openat(dir, name, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
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

static int real_key_search(const struct sys *sys, int keyring, const char *description)
{
	(void)sys;
	return syscall(SYS_keyctl, KEYCTL_SEARCH, keyring, "asymmetric", description, 0) < 0 ? -1 : 0;
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

static int real_variable_set(const struct sys *sys, const struct root *kern, const char *path, const void *data,
			     size_t len)
{
	(void)sys;
	struct err err;
	int flags = 0;
	auto_str char *name = NULL;
	auto_fd int dir = root_parent(kern, path, &name, &err);
	if (dir < 0) {
		errno = err.code;
		return -1;
	}
	auto_fd int old = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (old >= 0 && ioctl(old, FS_IOC_GETFLAGS, &flags) == 0 && flags & FS_IMMUTABLE_FL) {
		flags &= ~FS_IMMUTABLE_FL;
		if (ioctl(old, FS_IOC_SETFLAGS, &flags) < 0)
			return -1;
	}
	auto_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	ssize_t done = fd < 0 ? -1 : write(fd, data, len);
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
	.device_open = real_device_open,
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
	.process_start = launch_process,
	.attribute_set = real_attribute_set,
	.key_search = real_key_search,
	.variable_set = real_variable_set,
};

const struct sys *sys_real(void)
{
	return &real;
}
