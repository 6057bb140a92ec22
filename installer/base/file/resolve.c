// SPDX-License-Identifier: Apache-2.0
// openat2 where the kernel has it (5.6 and later), else the same resolution in user space: one component at a time with
// O_NOFOLLOW, links expanded by hand, ".." stopped at the root by remembering the chain of directories.
#include "base/file/resolve.h"

#include "base/core/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

enum { RETRIES = 64, LINKS_MAX = 40, DEPTH_MAX = 256, PROC_ROOT_INODE = 1 };

// The walk: dirs[0] is the root, dirs[depth] where we are.
struct walk {
	int dirs[DEPTH_MAX];
	int depth;
	int links;
};

static void walk_up(struct walk *w, int depth)
{
	while (w->depth > depth)
		close(w->dirs[w->depth--]);
}

static void walk_done(struct walk *w)
{
	int problem = errno;
	walk_up(w, 0);
	errno = problem;
}
#define auto_walk __attribute__((cleanup(walk_done)))

// A link of proc whose text is not where it leads (exe, cwd, root, fd/N, ns/X). The kernel does not say which ones
// these are. The ordinary ones either lie in proc's top directory (self, mounts, net) or are made by proc_symlink(),
// which sets size and mode (fs/proc/generic.c); the magic ones state a size of 0 or 64 (fs/proc/base.c, fs/proc/fd.c).
static bool is_magic(const struct walk *w, int link, size_t target_len)
{
	struct statfs fs;
	struct stat st, dir;
	if (fstatfs(link, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return false;
	if (fstat(link, &st) < 0 || fstat(w->dirs[w->depth], &dir) < 0)
		return true;
	return dir.st_ino != PROC_ROOT_INODE && ((size_t)st.st_size != target_len || (st.st_mode & 0777) != 0777);
}

static int walk_fail(int problem)
{
	errno = problem;
	return -1;
}

// left is the path that is still to be resolved: a link's target takes the place of its name.
static int resolve_by_walk(int root, const char *path, int flags)
{
	if (!*path || strlen(path) >= PATH_MAX)
		return walk_fail(*path ? ENAMETOOLONG : ENOENT);
	auto_walk struct walk w = { .dirs = { root } };
	auto_str char *left = str_dup(path);
	for (;;) {
		if (*left == '/')
			walk_up(&w, 0);
		const char *start = left + strspn(left, "/");
		size_t len = strcspn(start, "/");
		const char *rest = start + len + strspn(start + len, "/");
		auto_str char *name = str_ndup(start, len);
		bool is_last = !start[len]; // without a slash after it
		int here = w.dirs[w.depth];
		if (!*name || str_eq(name, ".") || str_eq(name, "..")) {
			if (str_eq(name, ".."))
				walk_up(&w, w.depth ? w.depth - 1 : 0);
			if (!*rest)
				return openat(w.dirs[w.depth], ".", flags & ~O_NOFOLLOW);
			memmove(left, rest, strlen(rest) + 1);
			continue;
		}
		auto_fd int fd = openat(here, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		struct stat st;
		if (fd < 0 || fstat(fd, &st) < 0)
			return -1;
		if (S_ISLNK(st.st_mode) && (!is_last || !(flags & O_NOFOLLOW))) {
			char target[PATH_MAX + 1];
			ssize_t target_len = readlinkat(fd, "", target, sizeof(target) - 1);
			if (target_len < 0)
				return -1;
			target[target_len] = '\0';
			if (++w.links > LINKS_MAX || is_magic(&w, fd, (size_t)target_len))
				return walk_fail(ELOOP);
			char *longer = str_fmt("%s%s%s", target, is_last ? "" : "/", rest);
			free(left);
			left = longer;
			continue;
		}
		if (is_last)
			return openat(here, name, flags | O_NOFOLLOW);
		if (!S_ISDIR(st.st_mode) || w.depth + 1 >= DEPTH_MAX)
			return walk_fail(S_ISDIR(st.st_mode) ? ENAMETOOLONG : ENOTDIR);
		w.dirs[++w.depth] = TAKE_FD(fd);
		memmove(left, rest, strlen(rest) + 1);
	}
}

int resolve_open(int root, const char *path, int flags)
{
	static bool has_no_openat2;
	const char *forced = getenv("KMODSMITH_OPENAT2");
	if (flags & O_CREAT)
		return walk_fail(EINVAL);
	if (!has_no_openat2 && !str_eq(forced, "no")) {
		struct open_how how = { .flags = (unsigned)flags, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
		long fd = -1;
		for (int i = 0; i < RETRIES; i++) {
			fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
			if (fd >= 0 || (errno != EINTR && errno != EAGAIN))
				break;
		}
		if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
			return (int)fd;
		has_no_openat2 = errno == ENOSYS;
	}
	return resolve_by_walk(root, path, flags);
}
