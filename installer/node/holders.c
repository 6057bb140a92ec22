// SPDX-License-Identifier: Apache-2.0
// 5,000 processes in 100 ms (P11) leave 20 microseconds each, so the scan stays inside one descriptor of proc, reads
// directories in bulk and asks for details of a process only when it holds something.
#include "node/holders.h"

#include "base/file.h"
#include "node/cgroup.h"
#include "node/devices.h"
#include "node/gpu.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

enum { PATH_LEN = 4096, LISTING_LEN = 32768, MAPS_LEN = 65536, CMDLINE_MOST = 200, MAJORS_MOST = 32 };

struct scan {
	const struct root *kern;
	int proc;
	bool is_procfs; // a recorded proc is a folder whose links must be resolved inside the root
	unsigned majors[MAJORS_MOST];
	size_t major_count;
	struct strv drm;        // "/dev/dri/card0": nodes of NVIDIA GPUs
	struct strv namespaces; // mount namespaces already read
	char *buffer;
	struct holders *h;
};

static void scan_done(struct scan *s)
{
	close_fdp(&s->proc);
	strv_done(&s->drm);
	strv_done(&s->namespaces);
	free(s->buffer);
}

// Majors of every NVIDIA character device that is registered now.
static void read_majors(struct scan *s, const char *proc_devices)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, proc_devices, "\n");
	for (size_t i = 0; i < lines.count && s->major_count < MAJORS_MOST; i++) {
		char name[64];
		unsigned major;
		if (str_starts(lines.items[i], "Block devices:"))
			return;
		if (sscanf(lines.items[i], " %u %63s", &major, name) == 2 &&
		    (str_starts(name, "nvidia") || str_starts(name, "gdrdrv")))
			s->majors[s->major_count++] = major;
	}
}

static int read_drm(struct scan *s, struct err *err)
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

// 1 = a character device of ours by number, 0 = something else, -1 = cannot be told.
static int look_number(const struct scan *s, int fds, const char *fd, const char *target)
{
	unsigned major = 0;
	if (s->is_procfs) {
		struct statx st;
		// Never wait for a dead file server: what is cached is enough to know the type.
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
	return s->major_count ? 0 : -1;
}

static bool is_device(const struct scan *s, int fds, const char *fd, const char *target)
{
	static const char *const never[] = { "/dev/null", "/dev/pts/", "/dev/zero", "/dev/urandom", "/proc/", "/sys/", "/memfd:" };
	if (*target != '/')
		return false;
	if (strv_has(&s->drm, target))
		return true;
	bool is_named = is_node_name(target);
	for (size_t i = 0; !is_named && i < ARRAY_SIZE(never); i++)
		if (str_starts(target, never[i]))
			return false;
	int r = look_number(s, fds, fd, target);
	return r > 0 || (r < 0 && is_named);
}

static char *read_at(const struct scan *s, int pid, const char *name, size_t *ret_len)
{
	struct err err;
	char *text = NULL;
	auto_str char *path = str_fmt("%d/%s", pid, name);
	auto_fd int fd = openat(s->proc, path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && file_read(fd, path, &text, ret_len, &err) == 0 ? text : NULL;
}

static char *command(const struct scan *s, int pid)
{
	size_t len = 0;
	char *text = read_at(s, pid, "cmdline", &len);
	while (len && !text[len - 1])
		len--;
	if (len > CMDLINE_MOST)
		text[len = CMDLINE_MOST] = '\0';
	for (size_t i = 0; i < len; i++)
		if (!text[i] || text[i] == '\n')
			text[i] = ' ';
	return text ? text : str_dup("");
}

static void describe(const struct scan *s, struct holder *h)
{
	auto_str char *comm = read_at(s, h->pid, "comm", NULL), *status = read_at(s, h->pid, "status", NULL);
	auto_str char *cgroup = read_at(s, h->pid, "cgroup", NULL);
	const char *uid = status ? strstr(status, "\nUid:") : NULL;
	h->comm = str_dup(comm ? str_trim(comm) : "?");
	h->cmdline = command(s, h->pid);
	if (uid)
		sscanf(uid, "\nUid: %u", &h->uid);
	if (cgroup)
		cgroup_owner(cgroup, &h->runtime, &h->container, &h->pod);
}

static void add(struct scan *s, int pid, enum holder_kind kind, const char *path)
{
	struct holders *h = s->h;
	auto_str char *clean = str_dup(path);
	if (str_ends(clean, " (deleted)"))
		clean[strlen(clean) - strlen(" (deleted)")] = '\0';
	for (size_t i = h->count; i-- > 0 && h->items[i].pid == pid;)
		if (h->items[i].kind == kind && str_eq(h->items[i].path, clean)) {
			h->items[i].count++;
			return;
		}
	struct holder new = { .pid = pid, .kind = kind, .path = TAKE(clean), .count = 1 };
	describe(s, &new);
	h->items = mem_grow(h->items, h->count + 1, sizeof(*h->items));
	h->items[h->count++] = new;
}

static void scan_fd(struct scan *s, int pid, int fds, const char *fd)
{
	char target[PATH_LEN];
	ssize_t len = readlinkat(fds, fd, target, sizeof(target) - 1);
	if (len <= 0 || *target != '/')
		return;
	target[len] = '\0';
	if (is_device(s, fds, fd, target))
		add(s, pid, HOLDER_FD, target);
}

static int scan_fds(struct scan *s, int pid)
{
	char path[32];
	snprintf(path, sizeof(path), "%d/fd", pid);
	auto_fd int fds = openat(s->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fds < 0)
		return -1;
	for (ssize_t len; (len = getdents64(fds, s->buffer, LISTING_LEN)) > 0;)
		for (char *p = s->buffer; p < s->buffer + len;) {
			const struct dirent64 *e = (const struct dirent64 *)(const void *)p;
			if (*e->d_name != '.')
				scan_fd(s, pid, fds, e->d_name);
			p += e->d_reclen;
		}
	return 0;
}

// A line of maps: range, rights, offset, device, inode, path. The device there is that of the file system.
static void scan_map_line(struct scan *s, int pid, const char *line)
{
	const char *path = strchr(line, '/');
	if (path && (is_node_name(path) || strv_has(&s->drm, path)))
		add(s, pid, HOLDER_MAP, path);
}

static void scan_maps(struct scan *s, int pid)
{
	char path[32];
	snprintf(path, sizeof(path), "%d/maps", pid);
	auto_fd int fd = openat(s->proc, path, O_RDONLY | O_CLOEXEC);
	size_t kept = 0;
	for (ssize_t len; fd >= 0 && (len = read(fd, s->buffer + kept, MAPS_LEN - 1 - kept)) > 0;) {
		len += (ssize_t)kept;
		s->buffer[len] = '\0';
		char *end = strrchr(s->buffer, '\n'); // the kernel gives whole lines; a recorded file may not
		size_t whole = end ? (size_t)(end - s->buffer) + 1 : (size_t)len;
		for (char *hit = s->buffer; (hit = memmem(hit, (size_t)(s->buffer + whole - hit), "/dev/", 5));) {
			size_t width = strcspn(hit, "\n");
			char *first = memrchr(s->buffer, '\n', (size_t)(hit - s->buffer));
			auto_str char *line = str_ndup(first ? first + 1 : s->buffer,
						       (size_t)(hit - (first ? first + 1 : s->buffer)) + width);
			scan_map_line(s, pid, line);
			hit += width;
		}
		kept = (size_t)len - whole;
		memmove(s->buffer, s->buffer + whole, kept);
	}
}

// Files of the driver that a runtime mounts into containers one by one. The exported root itself, below /run/nvidia, is
// the installer's own work.
static bool is_driver_mount(const char *point)
{
	static const char *const parts[] = { "/libcuda.so", "/libnvidia-", "/libnvcuvid.so", "/bin/nvidia-",
					     "/firmware/nvidia/", "/proc/driver/nvidia" };
	if (str_starts(point, "/run/nvidia"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(point, parts[i]))
			return true;
	return is_node_name(point);
}

static void scan_mounts(struct scan *s, int pid)
{
	char link[32], name[64];
	snprintf(link, sizeof(link), "%d/ns/mnt", pid);
	ssize_t len = readlinkat(s->proc, link, name, sizeof(name) - 1);
	if (len <= 0)
		return;
	name[len] = '\0';
	if (strv_has(&s->namespaces, name))
		return;
	strv_add(&s->namespaces, str_dup(name));
	auto_str char *text = read_at(s, pid, "mountinfo", NULL);
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text ? text : "", "\n");
	for (size_t i = 0; i < lines.count; i++) {
		char point[PATH_LEN]; // id, parent, device, root, mount point: proc(5)
		if (sscanf(lines.items[i], "%*d %*d %*s %*s %4095s", point) == 1 && is_driver_mount(point))
			add(s, pid, HOLDER_MOUNT, point);
	}
}

static void scan_process(struct scan *s, int pid)
{
	s->h->processes++;
	if (scan_fds(s, pid) < 0) {
		s->h->unreadable += errno == EACCES || errno == EPERM;
		return;
	}
	scan_maps(s, pid);
	scan_mounts(s, pid);
}

// Our own process and mount namespace are no holders. Where proc has no self, nothing of it is ours.
static int own_pid(struct scan *s)
{
	char target[64];
	ssize_t len = readlinkat(s->proc, "self/ns/mnt", target, sizeof(target) - 1);
	if (len > 0)
		strv_add(&s->namespaces, str_ndup(target, (size_t)len));
	len = readlinkat(s->proc, "self", target, sizeof(target) - 1);
	target[len > 0 ? len : 0] = '\0';
	return atoi(target);
}

static int scan_open(struct scan *s, struct err *err)
{
	auto_str char *table = NULL;
	struct statfs fs;
	if (root_read(s->kern, "proc/devices", &table, NULL, err) < 0 || read_drm(s, err) < 0)
		return -1;
	if (table)
		read_majors(s, table);
	s->proc = root_open(s->kern, "proc", O_RDONLY | O_DIRECTORY, err);
	if (s->proc < 0)
		return -1;
	s->is_procfs = fstatfs(s->proc, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
	s->buffer = mem_alloc(MAPS_LEN);
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->path, y->path);
}

int holders_find(const struct root *kern, const struct loaded *loaded, struct holders *ret, struct err *err)
{
	auto_holders struct holders h = { 0 };
	__attribute__((cleanup(scan_done))) struct scan s = { .kern = kern, .proc = -1, .h = &h };
	auto_strv struct strv names = { 0 };
	if (scan_open(&s, err) < 0 || root_list(kern, "proc", &names, err) < 0)
		return err_wrap(err, "look for processes that use the driver");
	int self = own_pid(&s);
	for (size_t i = 0; i < names.count; i++) {
		uint64_t pid;
		if (isdigit((unsigned char)*names.items[i]) && str_u64(names.items[i], 10, &pid) && (int)pid != self)
			scan_process(&s, (int)pid);
	}
	for (size_t i = 0; i < loaded->count; i++)
		if (!loaded->items[i].is_driver)
			strv_add(&h.modules, str_dup(loaded->items[i].name));
	if (h.count)
		qsort(h.items, h.count, sizeof(*h.items), compare);
	*ret = h;
	h = (struct holders){ 0 };
	return ret->count || ret->modules.count;
}

void holders_done(struct holders *h)
{
	for (size_t i = 0; i < h->count; i++) {
		free(h->items[i].comm);
		free(h->items[i].cmdline);
		free(h->items[i].runtime);
		free(h->items[i].container);
		free(h->items[i].pod);
		free(h->items[i].path);
	}
	free(h->items);
	strv_done(&h->modules);
	*h = (struct holders){ 0 };
}

bool holders_block(const struct holders *h)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->items[i].kind != HOLDER_MOUNT)
			return true;
	return h->modules.count > 0;
}

const char *holder_kind_name(enum holder_kind k)
{
	static const char *const names[] = { "fd", "map", "mount" };
	return names[k];
}

char *holder_text(const struct holder *h)
{
	char *text = str_fmt("pid %d %s (uid %u", h->pid, h->comm, h->uid);
	if (h->pod)
		str_add(&text, ", pod %s", h->pod);
	if (h->container)
		str_add(&text, ", %s%scontainer %.12s", h->runtime ? h->runtime : "", h->runtime ? " " : "", h->container);
	str_add(&text, ") %s %s", holder_kind_name(h->kind), h->path);
	return text;
}
