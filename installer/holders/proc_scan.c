// SPDX-License-Identifier: Apache-2.0
// The text of proc/PID/maps costs most, so it is read only where the kernel has no call for single mappings. All
// accesses go through one descriptor of proc, directories are read in bulk, and the details of a process are read
// only when it holds something.
#include "holders/proc_scan.h"

#include "base/file/file.h"
#include "base/process/proc.h"
#include "host/cgroup.h"
#include "host/pci.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

enum { PATH_LEN = 4096, BUFFER_LEN = 65536, CMDLINE_MOST = 200, DRM_MAJOR = 226 };

// Majors of every NVIDIA character device that is registered now.
static void read_majors(struct proc_scan *s, const char *proc_devices)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, proc_devices, "\n");
	for (size_t i = 0; i < lines.count && s->major_count < PROC_SCAN_MAX_MAJORS; i++) {
		char name[64];
		unsigned major;
		if (str_starts(lines.items[i], "Block devices:"))
			return;
		if (sscanf(lines.items[i], " %u %63s", &major, name) == 2 &&
		    (str_starts(name, "nvidia") || str_starts(name, "gdrdrv")))
			s->majors[s->major_count++] = major;
	}
}

static int read_drm_nodes(struct proc_scan *s, struct err *err)
{
	auto_gpus struct gpus gpus = { 0 };
	if (gpus_read(s->kern, &gpus, err) < 0)
		return -1;
	for (size_t i = 0; i < gpus.count; i++) {
		auto_str char *path = str_fmt("sys/bus/pci/devices/%s/drm", gpus.items[i].address);
		auto_strv struct strv names = { 0 };
		if (gpu_owner(&gpus.items[i]) != GPU_NVIDIA)
			continue;
		if (root_list(s->kern, path, &names, err) < 0)
			return -1;
		for (size_t j = 0; j < names.count; j++)
			strv_add(&s->drm, str_fmt("/dev/dri/%s", names.items[j]));
	}
	return 0;
}

// A driver's node by its name, in any /dev: the host's, a container's, or the one of an exported driver root.
static bool is_node_name(const char *path)
{
	const char *dev = NULL;
	for (const char *p = path; (p = strstr(p, "/dev/")); p++)
		dev = p;
	if (!dev)
		return false;
	const char *name = dev + strlen("/dev/"), *slash = strchr(name, '/');
	if (!str_starts(name, "nvidia") && !str_starts(name, "gdrdrv"))
		return false;
	return !slash || str_starts(name, "nvidia-caps");
}

// 1 = one of our character devices by its number, 0 = something else, -1 = unknown.
static int check_device_number(const struct proc_scan *s, int fds, const char *fd, const char *target, bool is_drm)
{
	unsigned major = 0;
	if (s->is_procfs) {
		struct statx st;
		// Never wait for a dead file server: the cached type is enough.
		if (statx(fds, fd, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &st) < 0)
			return -1;
		if (!S_ISCHR(st.stx_mode))
			return 0;
		major = st.stx_rdev_major;
	} else {
		struct stat st;
		struct err err;
		if (root_stat(s->kern, target, &st, &err) <= 0)
			return -1;
		if (!S_ISCHR(st.st_mode))
			return S_ISREG(st.st_mode) ? -1 : 0; // a recorded node may be a plain file
		major = major(st.st_rdev);
	}
	for (size_t i = 0; i < s->major_count; i++)
		if (s->majors[i] == major)
			return 1;
	return is_drm && major == DRM_MAJOR ? 1 : s->major_count ? 0 : -1;
}

// Of an entry of proc/PID/fd or map_files. A name alone proves nothing: any process may call a file /dev/nvidia0.
static bool is_device(const struct proc_scan *s, int fds, const char *fd, const char *target)
{
	static const char *const never[] = { "/dev/null", "/dev/pts/", "/dev/zero", "/dev/urandom",
					     "/proc/",    "/sys/",     "/memfd:" };
	if (*target != '/')
		return false;
	bool is_drm = strv_has(&s->drm, target), is_named = is_drm || is_node_name(target);
	for (size_t i = 0; !is_named && i < ARRAY_SIZE(never); i++)
		if (str_starts(target, never[i]))
			return false;
	int r = check_device_number(s, fds, fd, target, is_drm);
	return r > 0 || (r < 0 && is_named);
}

static char *read_proc_file(const struct proc_scan *s, int pid, const char *name, size_t *ret_len)
{
	struct err err;
	char *text = NULL;
	auto_str char *path = str_fmt("%d/%s", pid, name);
	auto_fd int fd = openat(s->proc, path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && file_read(fd, path, &text, ret_len, &err) == 0 ? text : NULL;
}

static void describe_process(const struct proc_scan *s, struct holder *h)
{
	size_t len = 0;
	auto_str char *comm = read_proc_file(s, h->pid, "comm", NULL),
		      *status = read_proc_file(s, h->pid, "status", NULL);
	auto_str char *cgroup = read_proc_file(s, h->pid, "cgroup", NULL);
	char *cmdline = read_proc_file(s, h->pid, "cmdline", &len);
	const char *uid = status ? strstr(status, "\nUid:") : NULL;
	h->comm = str_dup(comm ? str_trim(comm) : "?");
	while (len && !cmdline[len - 1])
		len--;
	if (len > CMDLINE_MOST)
		cmdline[len = CMDLINE_MOST] = '\0';
	for (size_t i = 0; i < len; i++)
		if (!cmdline[i] || cmdline[i] == '\n')
			cmdline[i] = ' ';
	h->cmdline = cmdline ? cmdline : str_dup("");
	h->start = proc_start_time(s->kern, h->pid);
	if (uid)
		sscanf(uid, "\nUid: %u", &h->uid);
	if (cgroup)
		cgroup_owner(cgroup, &h->runtime, &h->container, &h->pod);
}

static void add_holder(const struct proc_scan *s, struct proc_scan_result *h, int pid, enum holder_kind kind,
		       const char *path)
{
	auto_str char *clean = str_dup(path);
	if (str_ends(clean, " (deleted)"))
		clean[strlen(clean) - strlen(" (deleted)")] = '\0';
	for (size_t i = h->count; i-- > 0 && h->items[i].pid == pid;)
		if (h->items[i].kind == kind && str_eq(h->items[i].path, clean)) {
			h->items[i].count++;
			return;
		}
	struct holder new = { .pid = pid, .kind = kind, .path = TAKE(clean), .count = 1 };
	describe_process(s, &new);
	h->items = mem_grow(h->items, h->count + 1, sizeof(*h->items));
	h->items[h->count++] = new;
}

// -1 = permission denied.
static int scan_fds(const struct proc_scan *s, int pid, struct proc_scan_result *r)
{
	char path[32], target[PATH_LEN];
	snprintf(path, sizeof(path), "%d/fd", pid);
	auto_fd int fds = openat(s->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fds < 0)
		return errno == EACCES || errno == EPERM ? -1 : 0; // else it has ended
	for (ssize_t len; (len = getdents64(fds, r->buffer, BUFFER_LEN)) > 0;) {
		const struct dirent64 *e;
		for (char *p = r->buffer; p < r->buffer + len; p += e->d_reclen) {
			e = (const struct dirent64 *)(const void *)p;
			ssize_t end = *e->d_name == '.' ? 0 : readlinkat(fds, e->d_name, target, sizeof(target) - 1);
			if (end < 0 && (errno == EACCES || errno == EPERM))
				return -1;
			target[end > 0 ? end : 0] = '\0';
			if (end > 0 && is_device(s, fds, e->d_name, target))
				add_holder(s, r, pid, HOLDER_FD, target);
		}
	}
	return 0;
}

// What is mapped is a link in proc/PID/map_files; without permission to follow it, the name decides.
static void scan_map(const struct proc_scan *s, int pid, uint64_t start, uint64_t end, const char *path,
		     struct proc_scan_result *r)
{
	char link[96];
	if (!is_node_name(path) && !strv_has(&s->drm, path))
		return;
	snprintf(link, sizeof(link), "%d/map_files/%jx-%jx", pid, (uintmax_t)start, (uintmax_t)end);
	if (is_device(s, s->proc, link, path))
		add_holder(s, r, pid, HOLDER_MAP, path);
}

// Lines of maps: range, rights, offset, device, inode, path. The device there is that of the file system.
static void scan_map_text(const struct proc_scan *s, int pid, const char *text, size_t len, struct proc_scan_result *r)
{
	for (const char *hit = text; (hit = memmem(hit, (size_t)(text + len - hit), "/dev/", 5));) {
		uintmax_t from, to;
		const char *newline = memrchr(text, '\n', (size_t)(hit - text));
		const char *start = newline ? newline + 1 : text;
		const char *end = memchr(hit, '\n', (size_t)(text + len - hit));
		end = end ? end : text + len;
		auto_str char *line = str_ndup(start, (size_t)(end - start));
		const char *path = strchr(line, '/');
		if (path && sscanf(line, "%jx-%jx", &from, &to) == 2)
			scan_map(s, pid, from, to, path, r);
		hit = end;
	}
}

static void read_maps(const struct proc_scan *s, int pid, int fd, struct proc_scan_result *r)
{
	size_t kept = 0;
	for (ssize_t len = 1; len > 0;) {
		len = read(fd, r->buffer + kept, BUFFER_LEN - kept);
		size_t all = kept + (len > 0 ? (size_t)len : 0);
		const char *newline = len > 0 ? memrchr(r->buffer, '\n', all) : NULL;
		size_t whole = newline ? (size_t)(newline - r->buffer) + 1 : all; // lines are cut at any byte
		scan_map_text(s, pid, r->buffer, whole, r);
		kept = all - whole;
		memmove(r->buffer, r->buffer + whole, kept);
	}
}

// PROCMAP_QUERY of linux/fs.h, since Linux 6.11: the first mapping at or after an address that matches the flags.
struct map_query {
	uint64_t size, wanted, address;
	uint64_t start, end, flags, page_size, offset, inode;
	uint32_t major, minor, name_len, build_id_len;
	uint64_t name, build_id;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)
enum { MAP_SHARED_ONE = 0x08, MAP_OR_NEXT = 0x10, MAP_OF_FILE = 0x20 };

// Only shared mappings of files, which is what a device's memory is mapped as. false: this kernel has no such call.
static bool query_maps(const struct proc_scan *s, int pid, int fd, struct proc_scan_result *r)
{
	for (uint64_t at = 0;;) {
		struct map_query q = { .size = sizeof(q),
				       .wanted = MAP_SHARED_ONE | MAP_OR_NEXT | MAP_OF_FILE,
				       .address = at,
				       .name = (uintptr_t)r->buffer,
				       .name_len = BUFFER_LEN };
		if (ioctl(fd, MAP_QUERY, &q) < 0)
			return errno == ENOENT || errno == ESRCH; // no more mappings, or no more process
		scan_map(s, pid, q.start, q.end, r->buffer, r);
		at = q.end;
	}
}

static int scan_maps(const struct proc_scan *s, int pid, struct proc_scan_result *r)
{
	char path[32];
	snprintf(path, sizeof(path), "%d/maps", pid);
	auto_fd int fd = openat(s->proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == EPERM ? -1 : 0;
	if (s->is_thorough || !query_maps(s, pid, fd, r))
		read_maps(s, pid, fd, r);
	return 0;
}

// The mount namespace of a process, "self" too; NULL = unknown.
static char *read_namespace(const struct proc_scan *s, const char *pid)
{
	char link[64], name[64];
	snprintf(link, sizeof(link), "%s/ns/mnt", pid);
	ssize_t len = readlinkat(s->proc, link, name, sizeof(name) - 1);
	return len > 0 ? str_ndup(name, (size_t)len) : NULL;
}

void proc_scan_process(const struct proc_scan *s, int pid, struct proc_scan_result *r)
{
	char text[16];
	if (!r->buffer)
		r->buffer = mem_alloc(BUFFER_LEN);
	r->processes++;
	if (s->use != PROC_SCAN_IDLE)
		r->unreadable += scan_fds(s, pid, r) < 0 || scan_maps(s, pid, r) < 0;
	snprintf(text, sizeof(text), "%d", pid);
	auto_str char *name = read_namespace(s, text);
	if (!name || strv_has(&r->namespaces, name))
		return;
	r->first_pids = mem_grow(r->first_pids, r->namespaces.count + 1, sizeof(*r->first_pids));
	r->first_pids[r->namespaces.count] = pid;
	strv_add(&r->namespaces, TAKE(name));
}

// Files of the driver that a runtime mounts into containers one by one. The exported root itself, below /run/nvidia, is
// the installer's own work.
static bool is_driver_mount(const char *point)
{
	static const char *const parts[] = { "/libcuda.so",  "/libnvidia-",       "/libnvcuvid.so",
					     "/bin/nvidia-", "/firmware/nvidia/", "/proc/driver/nvidia" };
	if (str_starts(point, "/run/nvidia"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(point, parts[i]))
			return true;
	return is_node_name(point);
}

void proc_scan_mounts(const struct proc_scan *s, int pid, struct proc_scan_result *r)
{
	auto_str char *text = read_proc_file(s, pid, "mountinfo", NULL);
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text ? text : "", "\n");
	for (size_t i = 0; i < lines.count; i++) {
		char point[PATH_LEN]; // id, parent, device, root, mount point: proc(5)
		if (sscanf(lines.items[i], "%*d %*d %*s %*s %4095s", point) == 1 && is_driver_mount(point))
			add_holder(s, r, pid, HOLDER_MOUNT, point);
	}
}

// An open file of a character device, and so a mapping of one, holds the module that serves it (fops_get() and
// cdev_get() of the kernel), and a module that depends on another holds it once. So when no module has more references
// than dependents, no process has anything open. What else holds a module (symbol_get()) errs on the safe side.
static enum proc_scan_use read_driver_use(const struct root *kern, const struct modules *loaded)
{
	enum proc_scan_use use = loaded->count ? PROC_SCAN_IDLE : PROC_SCAN_UNKNOWN;
	for (size_t i = 0; i < loaded->count && use != PROC_SCAN_UNKNOWN; i++) {
		struct err err;
		uint64_t references;
		auto_str char *path = str_fmt("sys/module/%s/refcnt", loaded->items[i].name), *text = NULL;
		if (root_line(kern, path, &text, &err) <= 0 || !str_u64(text, 10, &references))
			use = PROC_SCAN_UNKNOWN; // CONFIG_MODULE_UNLOAD is off, or it has gone meanwhile
		else if (references != loaded->items[i].holders.count)
			use = PROC_SCAN_IN_USE;
	}
	return use;
}

int proc_scan_open(struct proc_scan *s, const struct root *kern, const struct modules *loaded, struct err *err)
{
	auto_str char *table = NULL;
	struct statfs fs;
	char self[16];
	uint64_t pid;
	*s = (struct proc_scan){ .kern = kern, .proc = -1, .use = read_driver_use(kern, loaded) };
	if (root_read(kern, "proc/devices", &table, NULL, err) < 0 || read_drm_nodes(s, err) < 0)
		return -1;
	if (table)
		read_majors(s, table);
	s->proc = root_open(kern, "proc", O_RDONLY | O_DIRECTORY, err);
	if (s->proc < 0)
		return -1;
	s->is_procfs = fstatfs(s->proc, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
	ssize_t len = readlinkat(s->proc, "self", self, sizeof(self) - 1);
	self[len > 0 ? len : 0] = '\0';
	s->own_pid = str_u64(self, 10, &pid) ? (int)pid : 0;
	s->own_namespace = read_namespace(s, "self");
	return 0;
}

void proc_scan_done(struct proc_scan *s)
{
	close_fdp(&s->proc);
	free(s->own_namespace);
	strv_done(&s->drm);
}
