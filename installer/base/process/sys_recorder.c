// SPDX-License-Identifier: Apache-2.0
// The kernel of a recorded machine: a call adds its line to the log and leaves the file that the real call would leave.
#include "base/process/sys.h"

#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#define REFUSED ".sys-refused"

enum { LET_THROUGH = -1 };

// "EINVAL load nvidia NVreg_X=often: nvidia: invalid": the errno when it is about this call, which it begins, or
// LET_THROUGH; 0 = of another call. *ret_log is what the kernel says of it.
static int find_refusal(const char *line, const char *call, const char **ret_log)
{
	enum { ERRNO_MOST = 200 };
	size_t name = strcspn(line, " ");
	const char *wanted = line + name + (line[name] == ' '), *log = strstr(wanted, ": ");
	size_t len = log ? (size_t)(log - wanted) : strlen(wanted);
	if (!len || strncmp(call, wanted, len) != 0 || (call[len] && call[len] != ' '))
		return 0;
	auto_str char *error = str_ndup(line, name);
	*ret_log = log ? log + 2 : NULL;
	if (str_eq(error, "OK"))
		return LET_THROUGH;
	for (int i = 1; i < ERRNO_MOST; i++)
		if (str_eq(strerrorname_np(i), error))
			return i;
	return EINVAL;
}

// The errno of the first line of the file that is about this call, 0 = the call succeeds. The line is used up.
static int refuse_call(const struct sys *sys, const char *call)
{
	struct err err;
	auto_str char *text = NULL, *left = str_dup("");
	auto_strv struct strv lines = { 0 };
	int error = 0;
	if (root_read(sys->record, REFUSED, &text, NULL, &err) <= 0)
		return 0;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		const char *log = NULL;
		int found = error ? 0 : find_refusal(lines.items[i], call, &log);
		if (found)
			error = found;
		else
			str_add(&left, "%s\n", lines.items[i]);
		auto_fd int fd = log ? root_open(sys->record, "dev/kmsg", O_WRONLY | O_APPEND, &err) : -1;
		if (fd >= 0)
			dprintf(fd, "4,1,1,-;%s\n", log);
	}
	if (error && root_put(sys->record, REFUSED, left, strlen(left), 0644, &err) < 0)
		return err.code;
	return error == LET_THROUGH ? 0 : error;
}

// 0, or -1 with the errno that the machine answers.
static int record(const struct sys *sys, const char *fmt, ...) PRINTF(2, 3);
static int record(const struct sys *sys, const char *fmt, ...)
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
	errno = refuse_call(sys, line);
	return errno ? -1 : 0;
}

static int record_load(const struct sys *sys, const char *name, const char *params)
{
	struct err err;
	auto_str char *dir = str_fmt("sys/module/%s", name);
	for (char *p = dir; *p; p++)
		*p = *p == '-' ? '_' : *p;
	auto_str char *state = str_fmt("%s/initstate", dir);
	if (record(sys, "load %s %s", name, params) < 0)
		return -1;
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
	if (record(sys, "unload %s", name) < 0)
		return -1;
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
	if (record(sys, "mknod %s c %u %u %04o", name, major(dev), minor(dev), (unsigned)mode) < 0)
		return -1;
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
	if (record(sys, "set %s %04o %u:%u", name, (unsigned)mode, uid, gid) < 0)
		return -1;
	if (record_node_look(sys, dir, name, &st) < 0)
		return -1;
	return node_text(dir, name, mode, st.st_rdev, uid, gid);
}

static int no_mounts(const struct sys *sys, const char *what)
{
	if (record(sys, "%s", what) == 0)
		errno = EOPNOTSUPP;
	return -1;
}

static int record_device_open(const struct sys *sys, int dir, const char *name)
{
	return record(sys, "open %s", name) < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
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
	return record(sys, "label %s %s", name, context);
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
	if (record(sys, "signal %d %d", signal, pid) < 0)
		return -1;
	int r = root_rmtree(sys->record, path, &err);
	errno = r == 0 ? ESRCH : EROFS;
	return r > 0 ? 0 : -1;
}

static int record_process_start(const struct sys *sys, const char *root, const char *env, const struct strv *argv,
				int out)
{
	(void)root, (void)env, (void)out;
	enum { FIRST = 70000, MOST = 70999 };
	struct err err;
	auto_str char *args = strv_join(argv, " "), *dir = NULL;
	if (record(sys, "start %s", args) < 0)
		return -1;
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
	if (record(sys, "write %s %.*s", path, (int)strcspn(text, "\n"), text) < 0)
		return -1;
	if (record_bind(kern, path, text))
		return 0;
	auto_fd int fd = root_create(kern, path, &err);
	if (fd < 0 || file_write(fd, path, text, strlen(text), &err) < 0) {
		errno = err.code;
		return -1;
	}
	return 0;
}

static int record_key_search(const struct sys *sys, int keyring, const char *description)
{
	auto_strv struct strv ids = { 0 };
	auto_str char *text = NULL, *there = str_fmt("%08x:%s", (unsigned)keyring, description + strlen("ex:"));
	struct err err;
	errno = root_read(sys->record, ".sys-keys", &text, NULL, &err) > 0 ? ENOKEY : ENOSYS;
	strv_split(&ids, text ? text : "", "\n");
	for (size_t i = 0; i < ids.count; i++)
		if (str_eq(description + strlen("ex:"), ids.items[i]) || str_eq(there, ids.items[i]))
			return 0;
	return -1;
}

static int record_variable_set(const struct sys *sys, const struct root *kern, const char *path, const void *data,
			       size_t len)
{
	enum { ATTRIBUTES = 4 };
	struct err err = { 0 };
	const char *name = strrchr(path, '/');
	if (record(sys, "variable %s %zu", name ? name + 1 : path, len) < 0)
		return -1;
	int r = len > ATTRIBUTES ? root_put(kern, path, data, len, 0600, &err) : root_unlink(kern, path, &err);
	errno = err.code;
	return r < 0 ? -1 : 0;
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
		.device_open = record_device_open,
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
		.key_search = record_key_search,
		.variable_set = record_variable_set,
		.record = record,
	};
}
