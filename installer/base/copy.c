// SPDX-License-Identifier: Apache-2.0
#include "base/copy.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>

static int copy_file(const struct root *from, const char *a, const struct root *to, const char *b, mode_t mode,
		     struct err *err)
{
	auto_fd int in = root_open(from, a, O_RDONLY | O_NOFOLLOW, err);
	if (in < 0)
		return -1;
	auto_str char *name = NULL;
	auto_fd int dir = root_parent(to, b, &name, err);
	if (dir < 0)
		return -1;
	auto_fd int out = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0777);
	if (out < 0)
		return err_set(err, errno, "create '%s' in '%s'", b, to->name);
	ssize_t n;
	do
		n = copy_file_range(in, NULL, out, NULL, (size_t)1 << 30, 0);
	while (n > 0);
	return n < 0 ? file_copy(in, out, b, err) : 0; // from here on: across file systems on old kernels
}

int copy_entry(const struct root *from, const char *a, const struct root *to, const char *b, struct err *err)
{
	struct stat st;
	auto_str char *target = NULL;
	int r = root_stat(from, a, &st, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, ENOENT, "copy '%s' from '%s'", a, from->name);
	if (S_ISDIR(st.st_mode))
		return copy_tree(from, a, to, b, err);
	if (S_ISREG(st.st_mode))
		return copy_file(from, a, to, b, st.st_mode, err);
	if (!S_ISLNK(st.st_mode))
		return err_set(err, EINVAL, "copy '%s' from '%s': no file, directory or link", a, from->name);
	return root_readlink(from, a, &target, err) < 0 ? -1 : root_symlink(to, target, b, err);
}

int copy_tree(const struct root *from, const char *path, const struct root *to, const char *name, struct err *err)
{
	auto_strv struct strv names = { 0 };
	int r = root_list(from, path, &names, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, ENOENT, "copy the directory '%s' of '%s'", path, from->name);
	if (root_mkdirs(to, name, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *a = str_fmt("%s/%s", path, names.items[i]), *b = str_fmt("%s/%s", name, names.items[i]);
		if (copy_entry(from, a, to, b, err) < 0)
			return -1;
	}
	return 0;
}

static int digest_below(const struct root *root, const char *path, struct digest *d, struct err *err);

static int digest_entry(const struct root *root, const char *path, struct digest *d, struct err *err)
{
	struct stat st;
	int r = root_stat(root, path, &st, err);
	if (r <= 0)
		return r;
	auto_str char *text = NULL;
	char hex[DIGEST_HEX + 1] = "";
	if (S_ISDIR(st.st_mode))
		return digest_below(root, path, d, err);
	if (S_ISLNK(st.st_mode)) {
		if (root_readlink(root, path, &text, err) < 0)
			return -1;
		digest_data(text, strlen(text), hex);
	} else {
		auto_fd int fd = root_open(root, path, O_RDONLY | O_NOFOLLOW, err);
		if (fd < 0 || digest_file(fd, path, hex, err) < 0)
			return -1;
	}
	auto_str char *line =
		str_fmt("%c%c %s %s\n", S_ISLNK(st.st_mode) ? 'l' : 'f', st.st_mode & 0100 ? 'x' : '-', hex, path);
	digest_add(d, line, strlen(line));
	return 0;
}

static int digest_below(const struct root *root, const char *path, struct digest *d, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(root, path, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *below = str_fmt("%s/%s", path, names.items[i]);
		if (digest_entry(root, below, d, err) < 0)
			return -1;
	}
	return 0;
}

int copy_digest(const struct root *root, char ret[DIGEST_HEX + 1], struct err *err)
{
	struct digest *d = digest_new();
	int r = digest_below(root, ".", d, err);
	char hex[DIGEST_HEX + 1];
	digest_hex(d, hex);
	if (r == 0)
		memcpy(ret, hex, sizeof(hex));
	return r;
}
