// SPDX-License-Identifier: Apache-2.0
#include "base/file/copy.h"

#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>

// Names of one file stay names of one file.
struct twin {
	dev_t dev;
	ino_t ino;
	char *path; // below to
};
struct copying {
	const struct root *from, *to;
	struct twin *twins;
	size_t count;
};

static void copying_done(struct copying *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->twins[i].path);
	free(c->twins);
}
#define auto_copying __attribute__((cleanup(copying_done)))

static int link_twin(const struct root *to, const char *old, const char *new, struct err *err)
{
	auto_str char *old_name = NULL, *new_name = NULL;
	auto_fd int from = root_parent(to, old, &old_name, err);
	auto_fd int dir = from < 0 ? -1 : root_parent(to, new, &new_name, err);
	if (dir < 0)
		return -1;
	return linkat(from, old_name, dir, new_name, 0) < 0 ? file_fail("link", new, err) : 0;
}

static int copy_regular(struct copying *c, const char *a, const char *b, const struct stat *st, struct err *err)
{
	if (st->st_nlink > 1) {
		for (size_t i = 0; i < c->count; i++)
			if (c->twins[i].dev == st->st_dev && c->twins[i].ino == st->st_ino)
				return link_twin(c->to, c->twins[i].path, b, err);
		c->twins = mem_grow(c->twins, c->count + 1, sizeof(*c->twins));
		c->twins[c->count++] = (struct twin){ .dev = st->st_dev, .ino = st->st_ino, .path = str_dup(b) };
	}
	auto_str char *name = NULL;
	auto_fd int in = root_open(c->from, a, O_RDONLY | O_NOFOLLOW, err);
	auto_fd int dir = in < 0 ? -1 : root_parent(c->to, b, &name, err);
	if (dir < 0)
		return -1;
	auto_fd int out = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, st->st_mode & 0777);
	if (out < 0)
		return err_set(err, errno, "create '%s' in '%s'", b, c->to->name);
	ssize_t n;
	do
		n = copy_file_range(in, NULL, out, NULL, (size_t)1 << 30, 0);
	while (n > 0);
	return n < 0 ? file_copy(in, out, b, err) : 0; // from here on: across file systems on old kernels
}

static int copy_directory(struct copying *c, const char *path, const char *name, struct err *err);

static int copy_one(struct copying *c, const char *a, const char *b, struct err *err)
{
	struct stat st;
	auto_str char *target = NULL;
	int r = root_stat(c->from, a, &st, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, ENOENT, "copy '%s' from '%s'", a, c->from->name);
	if (S_ISDIR(st.st_mode))
		return copy_directory(c, a, b, err);
	if (S_ISREG(st.st_mode))
		return copy_regular(c, a, b, &st, err);
	if (!S_ISLNK(st.st_mode))
		return err_set(err, EINVAL, "copy '%s' from '%s': not a file, directory or link", a, c->from->name);
	return root_readlink(c->from, a, &target, err) < 0 ? -1 : root_symlink(c->to, target, b, err);
}

static int copy_directory(struct copying *c, const char *path, const char *name, struct err *err)
{
	auto_strv struct strv names = { 0 };
	int r = root_list(c->from, path, &names, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, ENOENT, "copy the directory '%s' of '%s'", path, c->from->name);
	if (root_mkdirs(c->to, name, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *a = str_fmt("%s/%s", path, names.items[i]), *b = str_fmt("%s/%s", name, names.items[i]);
		if (copy_one(c, a, b, err) < 0)
			return -1;
	}
	return 0;
}

int copy_entry(const struct root *from, const char *a, const struct root *to, const char *b, struct err *err)
{
	auto_copying struct copying c = { .from = from, .to = to };
	return copy_one(&c, a, b, err);
}

int copy_tree(const struct root *from, const char *path, const struct root *to, const char *name, struct err *err)
{
	auto_copying struct copying c = { .from = from, .to = to };
	return copy_directory(&c, path, name, err);
}

int copy_bytes(const struct root *root, const char *path, uint64_t *sum, struct err *err)
{
	enum { BLOCK = 4096 };
	auto_strv struct strv names = { 0 };
	struct stat st;
	int r = root_stat(root, path, &st, err);
	if (r <= 0)
		return r;
	*sum += S_ISREG(st.st_mode) ? ((uint64_t)st.st_size + BLOCK - 1) / BLOCK * BLOCK : BLOCK;
	if (!S_ISDIR(st.st_mode))
		return 0;
	r = root_list(root, path, &names, err);
	for (size_t i = 0; r >= 0 && i < names.count; i++) {
		auto_str char *below = str_fmt("%s/%s", path, names.items[i]);
		r = copy_bytes(root, below, sum, err);
	}
	return r < 0 ? -1 : 0;
}

static int digest_below(const struct root *root, const char *path,
			enum copy_counts (*counts)(void *ctx, const char *path), void *ctx, bool has_modes,
			struct digest *d, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(root, path, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *below = str_fmt("%s/%s", path, names.items[i]), *target = NULL;
		enum copy_counts what = counts ? counts(ctx, below + strlen("./")) : COPY_CONTENT;
		char hex[DIGEST_HEX + 1] = "";
		struct stat st;
		int r = what == COPY_NOTHING ? 0 : root_stat(root, below, &st, err);
		if (r == 0)
			continue;
		if (r < 0)
			return -1;
		if (S_ISDIR(st.st_mode)) {
			if (digest_below(root, below, counts, ctx, has_modes, d, err) < 0)
				return -1;
			continue;
		}
		if (S_ISLNK(st.st_mode)) {
			if (root_readlink(root, below, &target, err) < 0)
				return -1;
			digest_data(target, strlen(target), hex);
		} else if (what == COPY_CONTENT) {
			auto_fd int fd = root_open(root, below, O_RDONLY | O_NOFOLLOW, err);
			if (fd < 0 || digest_file(fd, below, hex, err) < 0)
				return -1;
		}
		auto_str char *line = str_fmt("%c%c %s %s\n", S_ISLNK(st.st_mode) ? 'l' : 'f',
					      has_modes && st.st_mode & 0100 ? 'x' : '-', hex, below);
		digest_add(d, line, strlen(line));
	}
	return 0;
}

static int digest_directory(const struct root *root, enum copy_counts (*counts)(void *ctx, const char *path), void *ctx,
			    bool has_modes, char ret[DIGEST_HEX + 1], struct err *err)
{
	struct digest *d = digest_new();
	int r = digest_below(root, ".", counts, ctx, has_modes, d, err);
	char hex[DIGEST_HEX + 1];
	digest_hex(d, hex);
	if (r == 0)
		memcpy(ret, hex, sizeof(hex));
	return r;
}

int copy_digest_of(const struct root *root, enum copy_counts (*counts)(void *ctx, const char *path), void *ctx,
		   char ret[DIGEST_HEX + 1], struct err *err)
{
	return digest_directory(root, counts, ctx, false, ret, err);
}

int copy_digest(const struct root *root, char ret[DIGEST_HEX + 1], struct err *err)
{
	return digest_directory(root, NULL, NULL, true, ret, err);
}

static enum copy_counts skip_entry(void *name, const char *path)
{
	return str_eq(name, path) ? COPY_NOTHING : COPY_CONTENT;
}

int copy_digest_without(const struct root *root, const char *name, char ret[DIGEST_HEX + 1], struct err *err)
{
	return digest_directory(root, skip_entry, (void *)(uintptr_t)name, true, ret, err);
}
