// SPDX-License-Identifier: Apache-2.0
// The child's half of the sandbox: a new root directory out of binds, then no rights.
//
// Binds, not an overlay: they work in user namespaces of every kernel since 4.18, on top of containers, and at full
// speed. Where a header tree has to appear inside a directory of the machine (/usr/src, /usr/lib), that directory is
// made anew in memory and its entries are bound one by one.
#include "kmod/jail.h"

#include "kmod/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define NEW "/newroot" // below the temporary root; the machine's own files are at OLD until they are let go
#define OLD "/oldroot"

void jail_fail(const char *what, const char *object)
{
	dprintf(STDERR_FILENO, "%s '%s': %s\n", what, object, strerror(errno));
	_exit(SANDBOX_FAILED);
}

static void write_proc(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		jail_fail("write", path);
	close(fd);
}

// A pod sees its node's files through /proc/1/root, which the kernel does not bind. What is to be bound is there as the
// process that they are seen through sees it.
static void enter_namespace(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNS) < 0)
		jail_fail("enter", path);
	close(fd);
}

// Root of a container that may not make mounts still may as what any user is: the owner of a user namespace.
static void step_down(void)
{
	jail_become_nobody();
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) // or its maps are not its own to write
		jail_fail("step down to", "an ordinary user");
}

void jail_namespaces(const struct jail *jail)
{
	int flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWPID;
	if (jail->enter)
		enter_namespace(jail->enter);
	bool is_done = geteuid() == 0 && unshare(flags) == 0;
	if (!is_done && geteuid() == 0 && errno == EPERM)
		step_down();
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (uid != 0)
		flags |= CLONE_NEWUSER;
	if (!is_done && unshare(flags) < 0)
		jail_fail("unshare", uid ? "user, mount, network, ipc and pid namespaces" :
					   "mount, network, ipc and pid namespaces");
	if (uid != 0) {
		auto_str char *users = str_fmt("%u %u 1", uid, uid), *groups = str_fmt("%u %u 1", gid, gid);
		write_proc("/proc/self/setgroups", "deny");
		write_proc("/proc/self/uid_map", users);
		write_proc("/proc/self/gid_map", groups);
	}
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		jail_fail("make private", "/");
}

// Flags that a mount has must be kept in a user namespace, where they are locked.
static unsigned long kept_flags(const char *at)
{
	struct statvfs st;
	unsigned long flags = 0;
	if (statvfs(at, &st) < 0)
		jail_fail("look at", at);
	flags |= st.f_flag & ST_NODEV ? MS_NODEV : 0;
	flags |= st.f_flag & ST_NOEXEC ? MS_NOEXEC : 0;
	flags |= st.f_flag & ST_NOATIME ? MS_NOATIME : 0;
	flags |= st.f_flag & ST_RELATIME ? MS_RELATIME : 0;
	return flags;
}

static void bind(const char *from, const char *to, unsigned long flags)
{
	if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
		jail_fail("bind", from);
	if (mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | MS_NOSUID | flags | kept_flags(to), NULL) < 0)
		jail_fail("restrict", to);
}

static void make_dirs(const char *path)
{
	auto_str char *part = str_dup(path);
	for (char *p = part + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			jail_fail("make", part);
		*p = '/';
	}
	if (mkdir(part, 0755) < 0 && errno != EEXIST)
		jail_fail("make", part);
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		jail_fail("create", path);
	close(fd);
}

static void tmpfs(const char *at, const char *options)
{
	make_dirs(at);
	if (mount("tmpfs", at, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
		jail_fail("mount a tmpfs on", at);
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
			jail_fail("read the link", from);
		target[len] = '\0';
		if (symlink(target, to) < 0)
			jail_fail("link", to);
		return;
	}
	if (S_ISDIR(st.st_mode))
		make_dirs(to);
	else if (S_ISREG(st.st_mode))
		make_file(to);
	else
		return;
	bind(from, to, MS_RDONLY | MS_NODEV);
}

static void each_entry(const char *dir, void (*call)(const void *ctx, const char *name), const void *ctx)
{
	DIR *list = opendir(dir);
	if (!list)
		jail_fail("list", dir);
	for (struct dirent *e; (e = readdir(list));)
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			call(ctx, e->d_name);
	closedir(list);
}

static bool is_inside(const char *path, const char *dir)
{
	size_t len = strlen(dir);
	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

static bool has_shows(const struct jail *jail, const char *dir)
{
	for (size_t i = 0; i < jail->count; i++)
		if (is_inside(jail->shows[i].to, dir))
			return true;
	return false;
}

static bool is_shown(const struct jail *jail, const char *path)
{
	for (size_t i = 0; i < jail->count; i++)
		if (str_eq(jail->shows[i].to, path))
			return true;
	return false;
}

struct taking {
	const struct jail *jail;
	const char *path;
};

static void take_below(const void *taking, const char *name);

static void take(const struct jail *jail, const char *path)
{
	auto_str char *from = str_fmt(OLD "%s%s", jail->base, path), *to = str_fmt(NEW "%s", path);
	struct stat st;
	if (is_shown(jail, path))
		return;
	if (!has_shows(jail, path) || lstat(from, &st) < 0 || !S_ISDIR(st.st_mode)) {
		take_entry(from, to);
		return;
	}
	make_dirs(to);
	each_entry(from, take_below, &(struct taking){ jail, path });
}

static void take_below(const void *taking, const char *name)
{
	const struct taking *t = taking;
	auto_str char *path = str_fmt("%s/%s", t->path, name);
	take(t->jail, path);
}

static void show_below(const void *show, const char *name)
{
	const struct jail_show *s = show;
	auto_str char *from = str_fmt(OLD "%s/%s", s->from, name), *to = str_fmt(NEW "%s/%s", s->to, name);
	take_entry(from, to);
}

// NVIDIA's conftest drops its snippets into the working directory, which kbuild made the kernel's own tree. There they
// land in memory, between read-only binds.
static void show(const struct jail_show *s)
{
	auto_str char *from = str_fmt(OLD "%s", s->from), *to = str_fmt(NEW "%s", s->to);
	if (s->is_scratch) {
		tmpfs(to, "mode=1777");
		each_entry(from, show_below, s);
	} else {
		make_dirs(to);
		bind(from, to, MS_RDONLY | MS_NODEV);
	}
}

// A shown directory's place in terms of the base's links: /lib/modules is /usr/lib/modules where /lib is a link.
static void settle(const struct jail *jail, struct jail_show *show)
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

static void make_devices(void)
{
	static const char *const names[] = { "null", "zero", "full", "random", "urandom" };
	tmpfs(NEW "/dev", "mode=0755,size=64k");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		auto_str char *from = str_fmt(OLD "/dev/%s", names[i]), *to = str_fmt(NEW "/dev/%s", names[i]);
		make_file(to);
		if (mount(from, to, NULL, MS_BIND, NULL) < 0)
			jail_fail("bind", from);
	}
	if (symlink("/proc/self/fd", NEW "/dev/fd") < 0 || symlink("/proc/self/fd/0", NEW "/dev/stdin") < 0 ||
	    symlink("/proc/self/fd/1", NEW "/dev/stdout") < 0 || symlink("/proc/self/fd/2", NEW "/dev/stderr") < 0)
		jail_fail("link", "/dev/fd");
}

// Filters of container runtimes (containerd's and docker's default) let whoever may mount do so, but nobody pivot_root.
static bool is_filtered(void)
{
	return errno == EPERM || errno == ENOSYS;
}

// Instead, the working directory's mount is laid over the root. What it covers has no name any more, and the rights to
// uncover it are given up before the program starts.
static void cover_root(void)
{
	if (mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0)
		jail_fail("move the new root to", "/");
}

// In the copy of the machine's root, what is mounted here hides what lies under it.
static void bind_old(const char *at)
{
	char here[PATH_MAX];
	if (!getcwd(here, sizeof(here)))
		jail_fail("name", at);
	auto_str char *hidden = str_fmt("oldroot%s", here);
	if (mount("/", "oldroot", NULL, MS_BIND | MS_REC, NULL) < 0)
		jail_fail("bind", "/");
	if (umount2(hidden, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
		jail_fail("uncover", at);
}

// The machine's root moves to OLD below a temporary root, because binds need the source at hand until the very end.
static void enter_temporary(const char *at)
{
	if (mount("tmpfs", at, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0)
		jail_fail("mount a tmpfs on", at);
	if (chdir(at) < 0 || mkdir("newroot", 0755) < 0 || mkdir("oldroot", 0755) < 0)
		jail_fail("make directories in", at);
	if (syscall(SYS_pivot_root, ".", "oldroot") < 0) {
		if (!is_filtered())
			jail_fail("pivot_root to", at);
		bind_old(at);
		cover_root();
	}
	if (chdir("/") < 0)
		jail_fail("enter", "/");
}

static void leave_temporary(const struct jail *jail)
{
	if (mount(NEW, NEW, NULL, MS_BIND | MS_REC, NULL) < 0)
		jail_fail("bind", NEW);
	if (chdir(NEW) < 0)
		jail_fail("enter", NEW);
	bool is_pivoted = syscall(SYS_pivot_root, ".", "." OLD) == 0;
	if (!is_pivoted && !is_filtered())
		jail_fail("pivot_root to", NEW);
	if (umount2(OLD, MNT_DETACH) < 0 || rmdir("." OLD) < 0)
		jail_fail("let go of", OLD);
	if (!is_pivoted)
		cover_root();
	if (mount(NULL, "/", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
		jail_fail("restrict", "/");
	if (chdir(jail->dir) < 0)
		jail_fail("enter", jail->dir);
}

// Of the new pid namespace. In a user namespace this needs another full /proc in sight, so containers with a masked one
// refuse it; make and gcc do without any.
static void make_proc(void)
{
	make_dirs(NEW "/proc");
	if (mount("proc", NEW "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 && errno != EPERM)
		jail_fail("mount", "/proc");
}

void jail_files(const struct jail *jail)
{
	static const char *const top[] = { "/usr",
					   "/bin",
					   "/sbin",
					   "/lib",
					   "/lib64",
					   "/lib32",
					   "/libx32",
					   "/opt",
					   "/etc/alternatives",
					   "/etc/ld.so.cache" };
	for (size_t i = 0; i < jail->count; i++)
		settle(jail, &jail->shows[i]);
	enter_temporary(jail->work ? jail->work : jail->base);
	make_dirs(NEW "/etc");
	make_dirs(NEW OLD);
	for (size_t i = 0; i < ARRAY_SIZE(top); i++)
		take(jail, top[i]);
	for (size_t i = 0; i < jail->count; i++)
		show(&jail->shows[i]);
	make_devices();
	make_proc();
	if (jail->work) {
		auto_str char *work = str_fmt(OLD "%s", jail->work);
		make_dirs(NEW SANDBOX_WORK);
		bind(work, NEW SANDBOX_WORK, MS_NODEV);
	}
	if (jail->cache) {
		auto_str char *cache = str_fmt(OLD "%s", jail->cache);
		make_dirs(NEW SANDBOX_CACHE);
		bind(cache, NEW SANDBOX_CACHE, MS_NODEV | MS_NOEXEC);
	}
	tmpfs(NEW "/tmp", "mode=1777");
	leave_temporary(jail);
}

static void parse(struct jail *jail, int argc, char **argv, char ***ret_program)
{
	*jail = (struct jail){ .base = "", .shows = mem_alloc((size_t)argc * sizeof(*jail->shows)) };
	for (int i = 2; i < argc && !str_eq(argv[i], "--"); i++) {
		const char *value = strchr(argv[i], '=');
		const char *to = value ? strchr(value + 1, '=') : NULL;
		bool is_scratch = str_starts(argv[i], "--scratch=");
		if (str_starts(argv[i], "--enter="))
			jail->enter = value + 1;
		else if (str_starts(argv[i], "--base="))
			jail->base = value + 1;
		else if (str_starts(argv[i], "--work="))
			jail->work = value + 1;
		else if (str_starts(argv[i], "--cache="))
			jail->cache = value + 1;
		else if (str_starts(argv[i], "--dir="))
			jail->dir = value + 1;
		else if ((is_scratch || str_starts(argv[i], "--show=")) && to)
			jail->shows[jail->count++] =
				(struct jail_show){ .from = str_ndup(value + 1, (size_t)(to - value - 1)),
						    .to = str_dup(to + 1),
						    .is_scratch = is_scratch };
		*ret_program = &argv[i + 2];
	}
}

// The first process of the pid namespace is a child; this one only waits and ends the same way,
// at once: nothing that the program registered for its exit is its business.
static void __attribute__((noreturn)) follow(pid_t pid)
{
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	_exit(WEXITSTATUS(status));
}

int sandbox_main(int argc, char **argv)
{
	struct jail jail;
	char **program = NULL;
	parse(&jail, argc, argv, &program);
	if (!(jail.work || *jail.base) || !jail.dir || !program || !*program) {
		errno = EINVAL;
		jail_fail("start", SANDBOX_ARG);
	}
	umask(022);
	// Whoever ends the program ends the compile with it.
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		jail_fail("set the parent death signal of", *program);
	jail_namespaces(&jail);
	pid_t pid = fork();
	if (pid < 0)
		jail_fail("fork", *program);
	if (pid > 0)
		follow(pid);
	jail_files(&jail);
	jail_rights();
	execve(*program, program, environ);
	jail_fail("start", *program);
}
