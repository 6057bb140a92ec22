// SPDX-License-Identifier: Apache-2.0
#include "base/file/root.h"

#include "base/file/file.h"
#include "base/file/resolve.h"
#include "base/file/subtree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/sysmacros.h>

int root_init(struct root *root, const char *dir, struct err *err)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "open the root directory '%s'", dir);
	*root = (struct root){ .fd = fd, .name = str_dup(str_eq(dir, "/") ? "" : dir) };
	return 0;
}

int root_make(const char *dir, struct root *ret, struct err *err)
{
	for (size_t i = 1; i <= strlen(dir); i++) {
		if (dir[i] && dir[i] != '/')
			continue;
		auto_str char *part = str_ndup(dir, i);
		if (mkdir(part, 0755) < 0 && errno != EEXIST && errno != EISDIR && errno != EROFS)
			return err_set(err, errno, "make the directory '%s'", part);
	}
	return root_init(ret, dir, err);
}

int root_sub(const struct root *parent, const char *path, struct root *ret, struct err *err)
{
	int fd = root_open(parent, path, O_PATH | O_DIRECTORY, err);
	if (fd < 0)
		return -1;
	*ret = (struct root){ .fd = fd, .name = str_eq(path, ".") ? str_dup(parent->name) : root_path(parent, path) };
	return 0;
}

int root_outside(struct root *ret, struct err *err)
{
	// The first process of a pod that shares process ids among its containers is not the machine's: its pid
	// namespace has another inode than PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h.
	static const ino_t INIT = 0xEFFFFFFC;
	static const char *const pairs[][2] = { { "/proc/1/ns/mnt", "/proc/self/ns/mnt" }, { "/proc/1/root", "/" } };
	struct stat a, b;
	if (stat("/proc/self/ns/pid", &a) < 0 || a.st_ino != INIT)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		if (stat(pairs[i][0], &a) < 0 || stat(pairs[i][1], &b) < 0 ||
		    (a.st_dev == b.st_dev && a.st_ino == b.st_ino))
			return 0;
	return root_init(ret, "/proc/1/root", err) < 0 ? -1 : 1;
}

void root_done(struct root *root)
{
	if (root->fd >= 0)
		close(root->fd);
	free(root->name);
	*root = ROOT_NONE;
}

char *root_path(const struct root *root, const char *path)
{
	return str_fmt("%s/%s", root->name, path + strspn(path, "/"));
}

static int root_fail(const struct root *root, const char *what, const char *path, struct err *err)
{
	auto_str char *full = root_path(root, path);
	return file_fail(what, full, err);
}

static bool is_absent(void)
{
	return errno == ENOENT || errno == ENOTDIR;
}

// A file that is opened to be read may be anybody's: that never waits for a writer, and a FIFO is refused.
int root_open(const struct root *root, const char *path, int flags, struct err *err)
{
	struct stat st;
	bool is_read = !(flags & (O_PATH | O_DIRECTORY)) && (flags & O_ACCMODE) == O_RDONLY;
	auto_fd int fd = resolve_open(root->fd, path, flags | O_CLOEXEC | (is_read ? O_NONBLOCK : 0));
	if (fd < 0 || (is_read && fstat(fd, &st) < 0))
		return root_fail(root, "open", path, err);
	if (is_read && S_ISFIFO(st.st_mode)) {
		auto_str char *full = root_path(root, path);
		return err_set(err, EINVAL, "'%s' is not a regular file", full);
	}
	return TAKE_FD(fd);
}

int root_parent(const struct root *root, const char *path, char **ret_name, struct err *err)
{
	size_t len = strlen(path);
	while (len && path[len - 1] == '/')
		len--;
	size_t start = len;
	while (start && path[start - 1] != '/')
		start--;
	auto_str char *name = str_ndup(path + start, len - start), *dir = str_ndup(path, start);
	if (!*name || str_eq(name, ".") || str_eq(name, ".."))
		return err_set(err, EINVAL, "'%s' does not name a file", path);
	int fd = resolve_open(root->fd, *dir ? dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return root_fail(root, "open", *dir ? dir : ".", err);
	*ret_name = TAKE(name);
	return fd;
}

int root_read(const struct root *root, const char *path, char **ret, size_t *ret_len, struct err *err)
{
	return root_read_most(root, path, SIZE_MAX, ret, ret_len, err);
}

int root_read_most(const struct root *root, const char *path, size_t most, char **ret, size_t *ret_len, struct err *err)
{
	auto_fd int fd = resolve_open(root->fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 && is_absent() ? 0 : root_fail(root, "open", path, err);
	auto_str char *full = root_path(root, path);
	if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		return err_set(err, EINVAL, "'%s' is not a regular file", full); // it could block or never end
	return file_read_most(fd, full, most, ret, ret_len, err) < 0 ? -1 : 1;
}

// Says what a name in a directory is, if no regular file; NULL = a regular file, nothing, or a mask.
static const char *describe_entry(const struct root *root, const char *path)
{
	static const char NONE[] = "/dev/null";
	struct err ignored;
	struct stat st;
	auto_str char *target = NULL;
	auto_fd int fd = resolve_open(root->fd, path, O_PATH | O_CLOEXEC);
	if (fd < 0 && errno == ELOOP)
		return "a link that leads back to itself";
	if (fd < 0) // also in a copy of a machine, which has no devices
		return is_absent() && root_readlink(root, path, &target, &ignored) > 0 && !str_eq(target, NONE) ?
			       "a link that leads nowhere" :
			       NULL;
	if (fstat(fd, &st) < 0 || S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)))
		return NULL;
	return S_ISDIR(st.st_mode)  ? "a directory" :
	       S_ISFIFO(st.st_mode) ? "a FIFO" :
	       S_ISSOCK(st.st_mode) ? "a socket" :
				      "a device";
}

int root_read_entry(const struct root *root, const char *path, size_t most, char **ret, struct strv *skipped,
		    struct err *err)
{
	struct stat st;
	auto_fd int fd = resolve_open(root->fd, path, O_PATH | O_CLOEXEC); // a FIFO would wait to be opened
	if (fd < 0 && !is_absent() && errno != ELOOP)
		return root_fail(root, "open", path, err);
	if (fd >= 0 && fstat(fd, &st) < 0)
		return root_fail(root, "look at", path, err);
	if (fd >= 0 && S_ISREG(st.st_mode))
		return root_read_most(root, path, most, ret, NULL, err);
	auto_str char *full = root_path(root, path);
	const char *what = skipped ? describe_entry(root, path) : NULL;
	if (what)
		strv_add(skipped, str_fmt("'%s' is skipped: it is %s", full, what));
	return 0;
}

int root_line(const struct root *root, const char *path, char **ret, struct err *err)
{
	auto_str char *text = NULL;
	int r = root_read_most(root, path, SIZE_MAX, &text, NULL, err);
	if (r > 0)
		*ret = str_dup(str_trim(text));
	return r;
}

int root_stat(const struct root *root, const char *path, struct stat *ret, struct err *err)
{
	auto_fd int fd = resolve_open(root->fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return is_absent() ? 0 : root_fail(root, "look at", path, err);
	if (fstat(fd, ret) < 0)
		return root_fail(root, "look at", path, err);
	return 1;
}

bool root_exists(const struct root *root, const char *path)
{
	auto_fd int fd = resolve_open(root->fd, path, O_PATH | O_CLOEXEC);
	return fd >= 0;
}

int root_readlink(const struct root *root, const char *path, char **ret, struct err *err)
{
	auto_fd int fd = resolve_open(root->fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return is_absent() ? 0 : root_fail(root, "read the link", path, err);
	char target[4097];
	ssize_t len = readlinkat(fd, "", target, sizeof(target) - 1);
	if (len < 0)
		return errno == ENOENT || errno == EINVAL ? 0 : root_fail(root, "read the link", path, err);
	*ret = str_ndup(target, (size_t)len);
	return 1;
}

int root_list(const struct root *root, const char *path, struct strv *ret, struct err *err)
{
	return root_list_most(root, path, SIZE_MAX, ret, err);
}

int root_list_most(const struct root *root, const char *path, size_t most, struct strv *ret, struct err *err)
{
	auto_fd int fd = resolve_open(root->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return is_absent() ? 0 : root_fail(root, "list", path, err);
	DIR *dir = fdopendir(fd);
	if (!dir)
		return root_fail(root, "list", path, err);
	TAKE_FD(fd);
	struct strv names = { 0 };
	errno = 0;
	for (struct dirent *e; names.count <= most && (e = readdir(dir)); errno = 0)
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			strv_add(&names, str_dup(e->d_name));
	int problem = errno;
	closedir(dir);
	if (names.count > most) {
		strv_done(&names);
		auto_str char *full = root_path(root, path);
		return err_set(err, E_TOO_LARGE, "'%s' has more than %zu names", full, most);
	}
	if (problem) {
		strv_done(&names);
		errno = problem;
		return root_fail(root, "list", path, err);
	}
	strv_sort(&names);
	strv_done(ret);
	*ret = names;
	return 1;
}

// inotify knows paths only, and a descriptor's is its link in proc: it leads there across mount namespaces.
int root_watch(const struct root *root, const char *path, int inotify, uint32_t events, struct err *err)
{
	auto_fd int fd = resolve_open(root->fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return is_absent() ? 0 : root_fail(root, "open", path, err);
	auto_str char *link = str_fmt("/proc/self/fd/%d", fd);
	return inotify_add_watch(inotify, link, events) < 0 ? root_fail(root, "watch", path, err) : 1;
}

int root_mkdirs(const struct root *root, const char *path, mode_t mode, struct err *err)
{
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, path, "/");
	auto_str char *done = str_dup("");
	for (size_t i = 0; i < parts.count; i++) {
		str_add(&done, "%s%s", i ? "/" : "", parts.items[i]);
		auto_fd int there = resolve_open(root->fd, done, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (there >= 0)
			continue;
		auto_str char *name = NULL;
		auto_fd int dir = root_parent(root, done, &name, err);
		if (dir < 0)
			return -1;
		if (mkdirat(dir, name, mode) == 0)
			continue;
		int code = errno;
		if (code == EEXIST) {
			there = resolve_open(root->fd, done, O_PATH | O_DIRECTORY | O_CLOEXEC);
			if (there >= 0)
				continue;
			code = errno == ENOENT ? ENOTDIR : errno; // a dangling link is not a directory either
		}
		// A link is only followed inside the root, which may not be what its author meant.
		char target[PATH_MAX];
		ssize_t len = code == ENOTDIR ? readlinkat(dir, name, target, sizeof(target)) : -1;
		if (len >= 0 && (size_t)len < sizeof(target))
			return err_set(err, E_NOT_FOUND,
				       "'%s' in '%s' is a symbolic link to '%.*s', which is not a directory in there%s",
				       done, *root->name ? root->name : "/", (int)len, target,
				       *target == '/' && *root->name ?
					       ": a link does not lead out of it, a mount in its place does" :
					       "");
		errno = code;
		return root_fail(root, "make the directory", done, err);
	}
	return 0;
}

int root_mkdir_private(const struct root *root, const char *path, struct err *err)
{
	if (root_mkdirs(root, path, 0700, err) < 0)
		return -1;
	auto_fd int fd = root_open(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, err);
	struct stat st;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", path, err);
	if (st.st_uid != geteuid())
		return err_set(err, E_RIGHTS, "'%s/%s' belongs to uid %u", root->name, path, st.st_uid);
	return st.st_mode & 077 && fchmod(fd, 0700) < 0 ? file_fail("close to others", path, err) : 0;
}

int root_create(const struct root *root, const char *path, struct err *err)
{
	auto_str char *name = NULL;
	auto_fd int dir = root_parent(root, path, &name, err);
	if (dir < 0)
		return -1;
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? root_fail(root, "create", path, err) : fd;
}

static int write_whole(const struct root *root, const char *path, const void *data, size_t len, mode_t mode,
		       bool is_lasting, struct err *err)
{
	auto_str char *name = NULL;
	auto_fd int dir = root_parent(root, path, &name, err);
	if (dir < 0)
		return -1;
	auto_fd int sync = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_str char *temporary = str_fmt(".%s.%d.tmp", name, (int)getpid());
	unlinkat(dir, temporary, 0);
	auto_fd int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	int r = fd < 0 ? file_fail("create", temporary, err) : file_write(fd, temporary, data, len, err);
	if (r == 0 && (fchmod(fd, mode) < 0 || (is_lasting && fsync(fd) < 0)))
		r = file_fail("write", temporary, err);
	if (r < 0) {
		auto_str char *full = root_path(root, path);
		err_wrap(err, "write '%s'", full);
	} else if (renameat(dir, temporary, dir, name) < 0) {
		r = root_fail(root, "write", path, err);
	} else {
		return is_lasting && sync >= 0 && fsync(sync) < 0 ? root_fail(root, "write", path, err) : 0;
	}
	unlinkat(dir, temporary, 0);
	return r;
}

int root_write(const struct root *root, const char *path, const void *data, size_t len, mode_t mode, struct err *err)
{
	return write_whole(root, path, data, len, mode, true, err);
}

int root_put(const struct root *root, const char *path, const void *data, size_t len, mode_t mode, struct err *err)
{
	return write_whole(root, path, data, len, mode, false, err);
}

int root_put_or_remove(const struct root *root, const char *path, const char *text, struct err *err)
{
	struct err ignored;
	if (root_put(root, path, text, strlen(text), 0644, err) == 0)
		return 0;
	root_unlink(root, path, &ignored);
	return -1;
}

int root_symlink(const struct root *root, const char *target, const char *path, struct err *err)
{
	auto_str char *name = NULL;
	auto_fd int dir = root_parent(root, path, &name, err);
	if (dir < 0)
		return -1;
	auto_str char *temporary = str_fmt(".%s.%d.tmp", name, (int)getpid());
	unlinkat(dir, temporary, 0);
	if (symlinkat(target, dir, temporary) < 0)
		return root_fail(root, "link", path, err);
	if (renameat(dir, temporary, dir, name) < 0) {
		int r = root_fail(root, "link", path, err);
		unlinkat(dir, temporary, 0);
		return r;
	}
	return 0;
}

int root_rename(const struct root *root, const char *from, const char *to, struct err *err)
{
	auto_str char *from_name = NULL, *to_name = NULL;
	auto_fd int from_dir = root_parent(root, from, &from_name, err);
	auto_fd int to_dir = from_dir < 0 ? -1 : root_parent(root, to, &to_name, err);
	if (from_dir < 0 || to_dir < 0)
		return -1;
	return renameat(from_dir, from_name, to_dir, to_name) < 0 ? root_fail(root, "rename to", to, err) : 0;
}

int root_unlink(const struct root *root, const char *path, struct err *err)
{
	auto_str char *name = NULL;
	auto_fd int dir = root_parent(root, path, &name, err);
	if (dir < 0)
		return err->code == ENOENT || err->code == ENOTDIR ? 0 : -1;
	if (unlinkat(dir, name, 0) < 0)
		return errno == ENOENT ? 0 : root_fail(root, "remove", path, err);
	return 1;
}

int root_rmtree(const struct root *root, const char *path, struct err *err)
{
	auto_str char *name = NULL;
	auto_fd int dir = root_parent(root, path, &name, err);
	if (dir < 0)
		return err->code == ENOENT || err->code == ENOTDIR ? 0 : -1;
	int r = subtree_remove(dir, name);
	return r < 0 ? root_fail(root, "remove", path, err) : r;
}
