// SPDX-License-Identifier: Apache-2.0
#include "driver_root/mount_ns.h"

#include "base/file/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum { PATH_LEN = 4096 };

static char *read_link_at(int dir, const char *path)
{
	char target[PATH_LEN + 1];
	ssize_t len = readlinkat(dir, path, target, PATH_LEN);
	return len > 0 ? str_ndup(target, (size_t)len) : NULL;
}

static int enter_refused(const char *what, struct err *err)
{
	return err_set(err, errno == EPERM ? E_RIGHTS : errno, "%s (CAP_SYS_ADMIN and CAP_SYS_CHROOT are needed)",
		       what);
}

// Where to come back to. Below 0: that is not known.
static int open_own_ns(int proc, struct mount_ns *s)
{
	s->root = openat(proc, "self/root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	s->cwd = openat(proc, "self/cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return s->root < 0 || s->cwd < 0 ? -1 : openat(proc, "self/ns/mnt", O_RDONLY | O_CLOEXEC);
}

int mount_ns_open(const struct node *node, struct mount_ns *ret, struct err *err)
{
	const struct root *host = node->host, *kern = node->kern;
	const struct sys *sys = node->sys;
	auto_mount_ns struct mount_ns s = MOUNT_NS_NONE;
	auto_str char *ns = NULL, *other = NULL, *own = NULL;
	unsigned pid;
	int end = 0;
	s.kern = kern;
	s.sys = sys;
	s.proc = root_open(kern, "proc", O_PATH | O_DIRECTORY, err);
	if (s.proc < 0)
		return -1;
	if (sscanf(host->name, "/proc/%u/root%n", &pid, &end) == 1 && end &&
	    strspn(host->name + end, "/") == strlen(host->name + end)) {
		ns = str_fmt("%u/ns/mnt", pid);
		other = read_link_at(s.proc, ns);
		own = read_link_at(s.proc, "self/ns/mnt");
	}
	if (other && !str_eq(own, other)) {
		s.other = openat(s.proc, ns, O_RDONLY | O_CLOEXEC);
		auto_fd int back = s.other < 0 ? -1 : open_own_ns(s.proc, &s);
		if (back < 0 || sys->mount_enter(sys, s.other) < 0)
			return enter_refused("enter the host's mount namespace", err);
		s.own = TAKE_FD(back);
	}
	*ret = s;
	s = MOUNT_NS_NONE;
	return 0;
}

int mount_ns_copy(const struct mount_ns *s, int at, struct mount_ns *ret, struct err *err)
{
	auto_mount_ns struct mount_ns c = MOUNT_NS_NONE;
	c.kern = s->kern;
	c.sys = s->sys;
	auto_fd int back = open_own_ns(s->proc, &c);
	if (back < 0 || fchdir(at) < 0)
		return enter_refused("open our own mount namespace", err);
	if (s->sys->mount_copy(s->sys) < 0) {
		int problem = errno;
		int r = fchdir(c.cwd); // an error that follows an error
		errno = r < 0 ? errno : problem;
		return enter_refused("copy the mount namespace", err);
	}
	c.own = TAKE_FD(back);
	*ret = c;
	c = MOUNT_NS_NONE;
	return 0;
}

void mount_ns_done(struct mount_ns *s)
{
	// A namespace's own root is not ours when we were started in a chroot.
	if (s->own >= 0 && s->sys->mount_enter(s->sys, s->own) == 0 && fchdir(s->root) == 0 && chroot(".") == 0 &&
	    fchdir(s->cwd) == 0)
		close_fdp(&s->own);
	close_fdp(&s->proc);
	close_fdp(&s->root);
	close_fdp(&s->cwd);
	close_fdp(&s->other);
	*s = MOUNT_NS_NONE;
}

int mount_ns_mounts(const struct mount_ns *s, struct mountinfo *ret, struct err *err)
{
	auto_str char *text = NULL;
	auto_fd int fd = openat(s->proc, "self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || file_read(fd, "mountinfo", &text, NULL, err) < 0)
		return fd < 0 ? file_fail("open", "self/mountinfo of proc", err) : -1;
	mountinfo_parse(text, ret);
	return 0;
}

char *mount_ns_path(const struct mount_ns *s, int fd, const char *name)
{
	char link[32];
	snprintf(link, sizeof(link), "self/fd/%d", fd);
	auto_str char *path = read_link_at(s->proc, link);
	return !path || !name ? TAKE(path) : str_fmt("%s/%s", str_eq(path, "/") ? "" : path, name);
}

void mount_users_done(struct mount_users *v)
{
	for (size_t i = 0; i < v->count; i++)
		mountinfo_done(&v->items[i]);
	free(v->items);
	strv_done(&v->namespaces);
	strv_done(&v->places);
	*v = (struct mount_users){ 0 };
}

// NULL = the process has ended, or has no such link (a kernel thread), or we may not look.
static char *read_proc_link(int proc, const char *pid, const char *name, struct mount_users *v)
{
	auto_str char *path = str_fmt("%s/%s", pid, name);
	errno = 0;
	char *target = read_link_at(proc, path);
	v->is_partial |= !target && (errno == EACCES || errno == EPERM);
	return target;
}

static void add_used_dir(struct mount_users *v, char *take)
{
	if (take && !str_eq(take, "/") && !strv_has(&v->places, take))
		strv_add(&v->places, take);
	else
		free(take);
}

// mountinfo omits what a process in a chroot cannot see, so a namespace's is read from a process that is in none.
static void add_process_users(int proc, const char *pid, bool is_any_root, struct mount_users *v)
{
	auto_str char *root = read_proc_link(proc, pid, "root", v), *name = read_proc_link(proc, pid, "ns/mnt", v);
	if (name && (is_any_root || str_eq(root, "/")) && !strv_has(&v->namespaces, name)) {
		auto_str char *path = str_fmt("%s/mountinfo", pid), *text = NULL;
		auto_fd int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
		struct err ignored;
		if (fd >= 0 && file_read(fd, path, &text, NULL, &ignored) >= 0 && *text) {
			v->items = mem_grow(v->items, v->count + 1, sizeof(*v->items));
			v->items[v->count] = (struct mountinfo){ 0 };
			mountinfo_parse(text, &v->items[v->count++]);
			strv_add(&v->namespaces, TAKE(name));
		}
	}
	if (is_any_root)
		return;
	add_used_dir(v, TAKE(root));
	add_used_dir(v, read_proc_link(proc, pid, "cwd", v));
}

int mount_users_read(const struct root *kern, struct mount_users *ret, struct err *err)
{
	auto_mount_users struct mount_users v = { 0 };
	auto_strv struct strv pids = { 0 };
	auto_fd int proc = root_open(kern, "proc", O_PATH | O_DIRECTORY, err);
	if (proc < 0 || root_list(kern, "proc", &pids, err) < 0)
		return -1;
	for (int is_any_root = 0; is_any_root < 2; is_any_root++)
		for (size_t i = 0; i < pids.count; i++)
			if (isdigit((unsigned char)*pids.items[i]))
				add_process_users(proc, pids.items[i], is_any_root, &v);
	*ret = v;
	v = (struct mount_users){ 0 };
	return 0;
}

bool mount_users_has(const struct mount_users *v, const struct fs_dir *fs_dir, const char *path)
{
	for (size_t i = 0; i < v->count; i++)
		if (mountinfo_shows(&v->items[i], fs_dir))
			return true;
	for (size_t i = 0; i < v->places.count; i++)
		if (mountinfo_path_is_below(v->places.items[i], path))
			return true;
	return false;
}
