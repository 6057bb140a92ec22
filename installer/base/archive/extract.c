// SPDX-License-Identifier: Apache-2.0
#include "base/archive/extract.h"

#include <errno.h>
#include <fcntl.h>

void extract_init(struct extract *x, const struct root *dest)
{
	*x = (struct extract){ .dest = dest, .dir = -1 };
}

void extract_done(struct extract *x)
{
	close_fdp(&x->dir);
	free(x->path);
	*x = (struct extract){ .dir = -1 };
}

char *extract_name(const char *raw)
{
	if (*raw == '/')
		return NULL;
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, raw, "/");
	auto_str char *name = str_dup("");
	for (size_t i = 0; i < parts.count; i++) {
		if (str_eq(parts.items[i], ".."))
			return NULL;
		if (!str_eq(parts.items[i], "."))
			str_add(&name, "%s%s", *name ? "/" : "", parts.items[i]);
	}
	return TAKE(name);
}

static int extract_fail(const struct extract *x, const char *what, const char *name, struct err *err)
{
	int code = errno == EDQUOT ? ENOSPC : errno;
	err_set(err, code, "%s '%s' in '%s'", what, name, x->dest->name);
	return code == ENOSPC ? err_code(err, E_NO_SPACE) : -1;
}

// One step down; a link or a file in the way is an attack, because archives name directories by their real path.
static int open_component(const struct extract *x, int at, const char *part, const char *name, struct err *err)
{
	int fd = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(at, part, 0755) < 0 && errno != EEXIST)
			return extract_fail(x, "make the directory of", name, err);
		fd = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return err_set(err, E_ARCHIVE_UNSAFE, "'%s' would be written through '%s', which is no directory", name,
			       part);
	return fd < 0 ? extract_fail(x, "open the directory of", name, err) : fd;
}

static int enter_dir(struct extract *x, const char *path, const char *name, struct err *err)
{
	if (x->dir >= 0 && str_eq(x->path, path))
		return 0;
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, path, "/");
	auto_fd int fd = openat(x->dest->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return extract_fail(x, "open the directory of", name, err);
	for (size_t i = 0; i < parts.count; i++) {
		int next = open_component(x, fd, parts.items[i], name, err);
		if (next < 0)
			return -1;
		close(fd);
		fd = next;
	}
	close_fdp(&x->dir);
	free(x->path);
	x->dir = TAKE_FD(fd);
	x->path = str_dup(path);
	return 0;
}

// Enter the directory of name; *ret_last borrows name's last component.
static int enter_parent(struct extract *x, const char *name, const char **ret_last, struct err *err)
{
	const char *slash = strrchr(name, '/');
	auto_str char *path = slash ? str_ndup(name, (size_t)(slash - name)) : str_dup("");
	*ret_last = slash ? slash + 1 : name;
	return enter_dir(x, path, name, err);
}

static int remove_existing(struct extract *x, const char *name, const char *last, struct err *err)
{
	if (unlinkat(x->dir, last, 0) == 0 || errno == ENOENT)
		return 0;
	return extract_fail(x, "replace", name, err);
}

int extract_dir(struct extract *x, const char *name, mode_t mode, struct err *err)
{
	const char *last = NULL;
	if (enter_parent(x, name, &last, err) < 0)
		return -1;
	auto_fd int fd = open_component(x, x->dir, last, name, err);
	if (fd < 0)
		return -1;
	return fchmod(fd, (mode & 0777) | 0700) < 0 ? extract_fail(x, "set the mode of", name, err) : 0;
}

int extract_file(struct extract *x, const char *name, mode_t mode, struct err *err)
{
	const char *last = NULL;
	if (enter_parent(x, name, &last, err) < 0 || remove_existing(x, name, last, err) < 0)
		return -1;
	mode_t bits = (mode & 0777) | 0600;
	auto_fd int fd = openat(x->dir, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, bits);
	if (fd < 0 || fchmod(fd, bits) < 0)
		return extract_fail(x, "create", name, err);
	return TAKE_FD(fd);
}

int extract_symlink(struct extract *x, const char *name, const char *target, struct err *err)
{
	const char *last = NULL;
	if (enter_parent(x, name, &last, err) < 0 || remove_existing(x, name, last, err) < 0)
		return -1;
	return symlinkat(target, x->dir, last) < 0 ? extract_fail(x, "link", name, err) : 0;
}

int extract_hardlink(struct extract *x, const char *name, const char *target, struct err *err)
{
	const char *last = NULL;
	if (enter_parent(x, target, &last, err) < 0)
		return -1;
	auto_fd int from = openat(x->dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_str char *old = str_dup(last);
	struct stat st;
	if (from < 0 || fstatat(from, old, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, E_ARCHIVE, "'%s' is a hard link to '%s', which the archive did not bring", name,
			       target);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_ARCHIVE_UNSAFE, "'%s' is a hard link to '%s', which is no file", name, target);
	if (str_eq(name, target))
		return 0;
	if (enter_parent(x, name, &last, err) < 0 || remove_existing(x, name, last, err) < 0)
		return -1;
	return linkat(from, old, x->dir, last, 0) < 0 ? extract_fail(x, "link", name, err) : 0;
}
