// SPDX-License-Identifier: Apache-2.0
#include "driver_root/mount_users.h"

#include "base/file/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

enum { PATH_LEN = 4096 };

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
	char target[PATH_LEN + 1];
	auto_str char *path = str_fmt("%s/%s", pid, name);
	ssize_t len = readlinkat(proc, path, target, PATH_LEN);
	if (len < 0 && (errno == EACCES || errno == EPERM))
		v->is_partial = true;
	return len > 0 ? str_ndup(target, (size_t)len) : NULL;
}

static void add_used_dir(struct mount_users *v, char *take)
{
	if (take && !str_eq(take, "/") && !strv_has(&v->places, take))
		strv_add(&v->places, take);
	else
		free(take);
}

// mountinfo omits what a process in a chroot cannot see, so it is read from one that is in none.
static void add_namespace(int proc, const char *pid, char *take_name, struct mount_users *v)
{
	auto_str char *path = str_fmt("%s/mountinfo", pid), *text = NULL, *name = take_name;
	auto_fd int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	struct err err;
	if (fd < 0 || file_read(fd, path, &text, NULL, &err) < 0 || !*text)
		return;
	v->items = mem_grow(v->items, v->count + 1, sizeof(*v->items));
	v->items[v->count] = (struct mountinfo){ 0 };
	mountinfo_parse(text, &v->items[v->count++]);
	strv_add(&v->namespaces, TAKE(name));
}

static void add_process_users(int proc, const char *pid, bool is_any_root, struct mount_users *v)
{
	auto_str char *root = read_proc_link(proc, pid, "root", v), *name = read_proc_link(proc, pid, "ns/mnt", v);
	bool is_whole = str_eq(root, "/");
	if (name && (is_whole || is_any_root) && !strv_has(&v->namespaces, name))
		add_namespace(proc, pid, TAKE(name), v);
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
