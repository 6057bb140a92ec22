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

static int resolve_by_openat2(int root, const char *path, int flags)
{
	struct open_how how = { .flags = (unsigned)flags, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	long fd = -1;
	for (int i = 0; i < RETRIES; i++) {
		fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EINTR && errno != EAGAIN))
			break;
	}
	return (int)fd;
}

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

static int walk_path(struct walk *w, const char *path, int flags);

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

// Behind the link comes tail: "", or a slash and the rest of the path.
static int walk_link(struct walk *w, int link, const char *tail, int flags)
{
	char target[PATH_MAX + 1];
	ssize_t len = readlinkat(link, "", target, sizeof(target) - 1);
	if (len < 0)
		return -1;
	target[len] = '\0';
	if (++w->links > LINKS_MAX || is_magic(w, link, (size_t)len)) {
		errno = ELOOP;
		return -1;
	}
	auto_str char *path = str_fmt("%s%s", target, tail);
	return walk_path(w, path, flags);
}

static int walk_last(struct walk *w, const char *name, int flags)
{
	auto_fd int here = openat(w->dirs[w->depth], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (here < 0 || fstat(here, &st) < 0)
		return -1;
	if (S_ISLNK(st.st_mode) && !(flags & O_NOFOLLOW))
		return walk_link(w, here, "", flags);
	return openat(w->dirs[w->depth], name, flags | O_NOFOLLOW);
}

static int walk_into(struct walk *w, const char *name, const char *rest, int flags)
{
	auto_fd int fd = openat(w->dirs[w->depth], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (S_ISLNK(st.st_mode)) {
		auto_str char *tail = str_fmt("/%s", rest);
		return walk_link(w, fd, tail, flags);
	}
	if (!S_ISDIR(st.st_mode) || w->depth + 1 >= DEPTH_MAX) {
		errno = S_ISDIR(st.st_mode) ? ENAMETOOLONG : ENOTDIR;
		return -1;
	}
	w->dirs[++w->depth] = TAKE_FD(fd);
	return walk_path(w, rest, flags);
}

static int walk_path(struct walk *w, const char *path, int flags)
{
	if (*path == '/')
		walk_up(w, 0);
	path += strspn(path, "/");
	size_t len = strcspn(path, "/");
	auto_str char *name = str_ndup(path, len);
	const char *rest = path + len + strspn(path + len, "/");
	bool is_dir_wanted = path[len] == '/';
	if (str_eq(name, ".."))
		walk_up(w, w->depth ? w->depth - 1 : 0);
	if (!*name || str_eq(name, ".") || str_eq(name, ".."))
		return *rest ? walk_path(w, rest, flags) : openat(w->dirs[w->depth], ".", flags & ~O_NOFOLLOW);
	if (*rest || is_dir_wanted)
		return walk_into(w, name, rest, flags);
	return walk_last(w, name, flags);
}

static int resolve_by_walk(int root, const char *path, int flags)
{
	if (!*path || strlen(path) >= PATH_MAX) {
		errno = *path ? ENAMETOOLONG : ENOENT;
		return -1;
	}
	struct walk w = { .dirs = { root } };
	int fd = walk_path(&w, path, flags);
	int problem = errno;
	walk_up(&w, 0);
	errno = problem;
	return fd;
}

int resolve_open(int root, const char *path, int flags)
{
	static bool has_no_openat2;
	const char *forced = getenv("KMODSMITH_OPENAT2");
	if (flags & O_CREAT) {
		errno = EINVAL;
		return -1;
	}
	if (!has_no_openat2 && !str_eq(forced, "no")) {
		int fd = resolve_by_openat2(root, path, flags);
		if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
			return fd;
		has_no_openat2 = errno == ENOSYS;
	}
	return resolve_by_walk(root, path, flags);
}
