// SPDX-License-Identifier: Apache-2.0
// What the sandbox's child sees: a new root directory out of binds.
//
// Binds, not an overlay: they work in user namespaces of every kernel since 4.18, on top of containers, and at full
// speed. Where a header tree has to appear inside a directory of the machine (/usr/src, /usr/lib), that directory is
// made anew in memory and its entries are bound one by one.
#include "kmod/sandbox/jail.h"

#include "base/file/file.h"
#include "base/file/mountinfo.h"
#include "kmod/sandbox/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#define NEW "/newroot" // below the temporary root; the machine's own files are at OLD until it is unmounted
#define OLD "/oldroot"

// Flags that a mount has must be kept in a user namespace, where they are locked.
static unsigned long kept_flags(const char *at)
{
	struct statvfs st;
	unsigned long flags = 0;
	if (statvfs(at, &st) < 0)
		sandbox_fail("look at", at);
	flags |= st.f_flag & ST_NODEV ? MS_NODEV : 0;
	flags |= st.f_flag & ST_NOEXEC ? MS_NOEXEC : 0;
	flags |= st.f_flag & ST_NOATIME ? MS_NOATIME : 0;
	flags |= st.f_flag & ST_RELATIME ? MS_RELATIME : 0;
	return flags;
}

static void bind_mount(const char *from, const char *to, unsigned long flags)
{
	if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
		sandbox_fail("bind", from);
	if (mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | MS_NOSUID | flags | kept_flags(to), NULL) < 0)
		sandbox_fail("restrict", to);
}

static void make_dirs(const char *path)
{
	auto_str char *part = str_dup(path);
	for (char *p = part + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			sandbox_fail("make", part);
		*p = '/';
	}
	if (mkdir(part, 0755) < 0 && errno != EEXIST)
		sandbox_fail("make", part);
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		sandbox_fail("create", path);
	close(fd);
}

static void mount_tmpfs(const char *at, const char *options)
{
	make_dirs(at);
	if (mount("tmpfs", at, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
		sandbox_fail("mount a tmpfs on", at);
}

// For temporary files, which are memory: 2 GiB, and no more than half of what there is.
static void mount_shared_tmpfs(const char *at)
{
	enum { MOST_MIB = 2048, MIB = 1 << 20 };
	uint64_t half = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2 / MIB;
	auto_str char *options =
		str_fmt("mode=1777,nr_inodes=200k,size=%um", half < MOST_MIB ? (unsigned)half : (unsigned)MOST_MIB);
	mount_tmpfs(at, options);
}

// One entry of the old root: links are copied, the rest is bound read-only.
static void take_entry(const char *from, const char *to)
{
	struct stat st;
	if (lstat(from, &st) < 0)
		return;
	if (S_ISLNK(st.st_mode)) {
		char target[PATH_MAX];
		ssize_t len = readlink(from, target, sizeof(target) - 1);
		if (len < 0)
			sandbox_fail("read the link", from);
		target[len] = '\0';
		if (symlink(target, to) < 0)
			sandbox_fail("link", to);
		return;
	}
	if (S_ISDIR(st.st_mode))
		make_dirs(to);
	else if (S_ISREG(st.st_mode))
		make_file(to);
	else
		return;
	bind_mount(from, to, MS_RDONLY | MS_NODEV);
}

static void list_dir(const char *dir, struct strv *names)
{
	DIR *list = opendir(dir);
	if (!list)
		sandbox_fail("list", dir);
	for (struct dirent *e; (e = readdir(list));)
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			strv_add(names, str_dup(e->d_name));
	closedir(list);
}

static bool is_path_inside(const char *path, const char *dir)
{
	size_t len = strlen(dir);
	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

static bool has_mount_below(const struct jail *jail, const char *dir)
{
	for (size_t i = 0; i < jail->count; i++)
		if (is_path_inside(jail->mounts[i].to, dir))
			return true;
	return false;
}

static bool is_mount_target(const struct jail *jail, const char *path, bool is_scratch_only)
{
	for (size_t i = 0; i < jail->count; i++)
		if (str_eq(jail->mounts[i].to, path) && (jail->mounts[i].is_scratch || !is_scratch_only))
			return true;
	return false;
}

static void take_path(const struct jail *jail, const char *path)
{
	auto_str char *from = str_fmt(OLD "%s%s", jail->base, path), *to = str_fmt(NEW "%s", path);
	auto_strv struct strv names = { 0 };
	struct stat st;
	if (is_mount_target(jail, path, false))
		return;
	if (!has_mount_below(jail, path) || lstat(from, &st) < 0 || !S_ISDIR(st.st_mode)) {
		take_entry(from, to);
		return;
	}
	make_dirs(to);
	list_dir(from, &names);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *below = str_fmt("%s/%s", path, names.items[i]);
		take_path(jail, below);
	}
}

// NVIDIA's conftest writes its snippets into the working directory, which kbuild made the kernel's own tree. There they
// go to memory, between read-only binds.
static void show(const struct jail_mount *s)
{
	auto_str char *from = str_fmt(OLD "%s", s->from), *to = str_fmt(NEW "%s", s->to);
	auto_strv struct strv names = { 0 };
	if (!s->is_scratch) {
		if (s->is_file)
			make_file(to);
		else
			make_dirs(to);
		bind_mount(from, to, MS_RDONLY | MS_NODEV);
		return;
	}
	mount_shared_tmpfs(to);
	list_dir(from, &names);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *entry = str_fmt("%s/%s", from, names.items[i]),
			      *at = str_fmt("%s/%s", to, names.items[i]);
		take_entry(entry, at);
	}
}

// A shown directory's place in terms of the base's links: /lib/modules is /usr/lib/modules where /lib is a link.
static void resolve_target(const struct jail *jail, struct jail_mount *show)
{
	for (char *p = show->to + 1; (p = strchr(p, '/')); p++) {
		auto_str char *top = str_fmt("%s%.*s", jail->base, (int)(p - show->to), show->to);
		char target[PATH_MAX];
		ssize_t len = readlink(top, target, sizeof(target) - 1);
		if (len <= 0)
			continue;
		target[len] = '\0';
		char *to = str_fmt("%s%s%s", *target == '/' ? "" : "/", target, p);
		free(show->to);
		show->to = to;
		return;
	}
}

// A recursive bind brings submounts along, which keep their own flags.
static void restrict_submounts(const struct jail *jail)
{
	static const char LIST[] = OLD "/proc/self/mountinfo";
	static const struct {
		const char *name;
		unsigned long flag;
	} options[] = { { "noexec", MS_NOEXEC },
			{ "noatime", MS_NOATIME },
			{ "nodiratime", MS_NODIRATIME },
			{ "relatime", MS_RELATIME } };
	auto_mountinfo struct mountinfo mounts = { 0 };
	auto_str char *text = NULL;
	struct err err;
	auto_fd int fd = open(LIST, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || file_read(fd, LIST, &text, NULL, &err) < 0)
		sandbox_fail("read", LIST);
	mountinfo_parse(text, &mounts);
	for (size_t i = 0; i < mounts.count; i++) {
		const struct mount *m = &mounts.items[i];
		unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV;
		if (!is_path_inside(m->point, NEW) || is_mount_target(jail, m->point + strlen(NEW), true))
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(options); k++)
			flags |= mountinfo_has_option(m, options[k].name) ? options[k].flag : 0;
		if (mount(NULL, m->point, NULL, flags, NULL) < 0)
			sandbox_fail("restrict", m->point);
	}
}

static void make_devices(void)
{
	static const char *const names[] = { "null", "zero", "full", "random", "urandom" };
	mount_tmpfs(NEW "/dev", "mode=0755,size=64k");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		auto_str char *from = str_fmt(OLD "/dev/%s", names[i]), *to = str_fmt(NEW "/dev/%s", names[i]);
		make_file(to);
		if (mount(from, to, NULL, MS_BIND, NULL) < 0)
			sandbox_fail("bind", from);
	}
	if (symlink("/proc/self/fd", NEW "/dev/fd") < 0 || symlink("/proc/self/fd/0", NEW "/dev/stdin") < 0 ||
	    symlink("/proc/self/fd/1", NEW "/dev/stdout") < 0 || symlink("/proc/self/fd/2", NEW "/dev/stderr") < 0)
		sandbox_fail("link", "/dev/fd");
}

// Container runtimes' default seccomp filters (containerd, docker) allow mount(2) with CAP_SYS_ADMIN, but pivot_root to
// nobody. And the kernel has none for a root directory that is no mount point, or one on a shared mount: a chroot.
static bool has_no_pivot(void)
{
	return errno == EPERM || errno == ENOSYS || errno == EINVAL;
}

// Instead, the working directory's mount is moved over the root. What it covers has no path any more, and the rights to
// unmount it are given up before the program starts.
static void cover_root(void)
{
	if (mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0)
		sandbox_fail("move the new root to", "/");
}

// In the copy of the machine's root, what is mounted here hides what lies under it.
static void bind_old(const char *at)
{
	char here[PATH_MAX];
	if (!getcwd(here, sizeof(here)))
		sandbox_fail("name", at);
	auto_str char *hidden = str_fmt("oldroot%s", here);
	if (mount("/", "oldroot", NULL, MS_BIND | MS_REC, NULL) < 0)
		sandbox_fail("bind", "/");
	if (umount2(hidden, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
		sandbox_fail("uncover", at);
}

// The machine's root moves to OLD below a temporary root, because binds need the source at hand until the very end.
static void enter_temporary(const char *at)
{
	if (mount("tmpfs", at, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0)
		sandbox_fail("mount a tmpfs on", at);
	if (chdir(at) < 0 || mkdir("newroot", 0755) < 0 || mkdir("oldroot", 0755) < 0)
		sandbox_fail("make directories in", at);
	if (syscall(SYS_pivot_root, ".", "oldroot") < 0) {
		if (!has_no_pivot())
			sandbox_fail("pivot_root to", at);
		bind_old(at);
		cover_root();
	}
	if (chdir("/") < 0)
		sandbox_fail("enter", "/");
}

static void leave_temporary(const struct jail *jail)
{
	if (mount(NEW, NEW, NULL, MS_BIND | MS_REC, NULL) < 0)
		sandbox_fail("bind", NEW);
	if (chdir(NEW) < 0)
		sandbox_fail("enter", NEW);
	bool is_pivoted = syscall(SYS_pivot_root, ".", "." OLD) == 0;
	if (!is_pivoted && !has_no_pivot())
		sandbox_fail("pivot_root to", NEW);
	if (umount2(OLD, MNT_DETACH) < 0 || rmdir("." OLD) < 0)
		sandbox_fail("let go of", OLD);
	if (!is_pivoted)
		cover_root();
	if (mount(NULL, "/", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
		sandbox_fail("restrict", "/");
	if (chdir(jail->dir) < 0)
		sandbox_fail("enter", jail->dir);
}

// Every nm, as and ld loads each library in there; where LLVM is installed it is one of 100 MB, for each of the 370
// times that a kernel's makefiles call nm. Without LTO nothing needs them, and clang's LTO has tools of its own.
static void hide_plugins(void)
{
	static const char *const dirs[] = { NEW "/usr/lib/bfd-plugins", NEW "/usr/lib64/bfd-plugins" };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		struct stat st;
		if (lstat(dirs[i], &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		if (mount("tmpfs", dirs[i], "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "size=4k") < 0)
			sandbox_fail("mount a tmpfs on", dirs[i] + strlen(NEW));
	}
}

// What programs that keep state on a machine write to, empty.
static void make_state_dirs(void)
{
	static const char *const dirs[] = { NEW "/var/lib", NEW "/var/log", NEW "/var/cache", NEW "/var/tmp" };
	mount_shared_tmpfs(NEW "/var");
	mount_shared_tmpfs(NEW "/run");
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		make_dirs(dirs[i]);
}

void sandbox_mount_files(const struct jail *jail)
{
	static const char *const top[] = { "/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32" };
	static const char *const of_linker[] = { "/etc/alternatives", "/etc/ld.so.cache" };
	for (size_t i = 0; i < jail->count; i++)
		resolve_target(jail, &jail->mounts[i]);
	enter_temporary(jail->work ? jail->work : jail->base);
	make_dirs(NEW "/etc");
	make_dirs(NEW OLD);
	for (size_t i = 0; i < ARRAY_SIZE(top); i++)
		take_path(jail, top[i]);
	for (size_t i = 0; i < ARRAY_SIZE(of_linker) && !jail->is_networked; i++)
		take_path(jail, of_linker[i]);
	if (jail->is_networked)
		take_path(jail, "/etc");
	if (jail->has_opt)
		take_path(jail, "/opt");
	for (size_t i = 0; i < jail->count; i++)
		show(&jail->mounts[i]);
	restrict_submounts(jail);
	hide_plugins();
	make_devices();
	// Of the new pid namespace. In a user namespace this needs another full /proc in sight, so containers with a
	// masked one refuse it; make and gcc work without any. Root owns the files of proc/sys, whatever it may do.
	unsigned long proc_flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | (jail->is_networked ? MS_RDONLY : 0);
	make_dirs(NEW "/proc");
	if (mount("proc", NEW "/proc", "proc", proc_flags, NULL) < 0 && errno != EPERM)
		sandbox_fail("mount", "/proc");
	if (jail->is_networked)
		make_state_dirs();
	if (jail->work) {
		auto_str char *work = str_fmt(OLD "%s", jail->work);
		make_dirs(NEW SANDBOX_WORK);
		bind_mount(work, NEW SANDBOX_WORK, MS_NODEV);
	}
	if (jail->cache) {
		auto_str char *cache = str_fmt(OLD "%s", jail->cache);
		make_dirs(NEW SANDBOX_CACHE);
		bind_mount(cache, NEW SANDBOX_CACHE, MS_NODEV | MS_NOEXEC);
	}
	mount_shared_tmpfs(NEW "/tmp");
	leave_temporary(jail);
}
