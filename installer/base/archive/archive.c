// SPDX-License-Identifier: Apache-2.0
#include "base/archive/archive.h"

#include "base/archive/extract.h"
#include "base/file/file.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

enum { CHUNK = 1 << 16, PATH_MOST = 2048, DEPTH_MOST = 128 };
static const struct archive_limits LIMITS = { .bytes = 8ull << 30, .entries = 500000 };

struct input {
	int fd;
	off_t at;
	const struct archive_stream *stream; // NULL = fd
	struct err err;                      // of the stream; .code 0 = none
	char buf[CHUNK];
};

struct unpack {
	const char *name; // of the archive, for messages
	const struct input *input;
	struct archive_limits left;
	struct extract to;
	bool (*select)(void *ctx, const char *path);
	void *ctx;
};

static void free_archivep(struct archive **a)
{
	if (*a)
		archive_read_free(*a);
}
#define auto_archive __attribute__((cleanup(free_archivep)))

static struct archive *new_reader(void)
{
	struct archive *a = archive_read_new();
	if (!a)
		abort();
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_lzma(a);
	archive_read_support_filter_zstd(a);
	archive_read_support_filter_lz4(a);
	archive_read_support_filter_rpm(a);
	archive_read_support_format_tar(a);
	archive_read_support_format_ar(a);
	archive_read_support_format_cpio(a);
	return a;
}

static int unpack_fail(const struct unpack *u, struct archive *a, struct err *err)
{
	const char *text = archive_error_string(a);
	if (u->input->err.code) {
		*err = u->input->err;
		return -1;
	}
	return err_set(err, E_ARCHIVE, "'%s': %s (read up to byte %lld)", u->name, text ? text : "damaged",
		       (long long)u->input->at);
}

static int refuse_entry(const struct unpack *u, const char *raw, const char *why, struct err *err)
{
	return err_set(err, E_ARCHIVE_UNSAFE, "'%s': the entry '%.200s%s' %s", u->name, raw,
		       strlen(raw) > 200 ? "..." : "", why);
}

static la_ssize_t read_from_fd(struct archive *a, void *ctx, const void **ret)
{
	struct input *in = ctx;
	ssize_t n;
	do
		n = pread(in->fd, in->buf, sizeof(in->buf), in->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		archive_set_error(a, errno, "read: %s", strerror(errno));
	else
		in->at += n;
	*ret = in->buf;
	return n;
}

static la_ssize_t read_from_stream(struct archive *a, void *ctx, const void **ret)
{
	struct input *in = ctx;
	ssize_t n = in->stream->read(in->stream->ctx, in->buf, sizeof(in->buf), &in->err);
	if (n < 0)
		archive_set_error(a, EIO, "%s", in->err.text);
	else
		in->at += n;
	*ret = in->buf;
	return n;
}

// The data.tar member of a .deb is itself the input of a second archive.
static la_ssize_t read_from_member(struct archive *a, void *ctx, const void **ret)
{
	struct archive *outer = ctx;
	size_t len = 0;
	la_int64_t offset;
	int r = archive_read_data_block(outer, ret, &len, &offset);
	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK) {
		archive_set_error(a, EIO, "%s", archive_error_string(outer));
		return -1;
	}
	return (la_ssize_t)len;
}

static int copy_data(struct unpack *u, struct archive *a, int fd, const char *name, struct err *err)
{
	char buf[CHUNK];
	for (;;) {
		la_ssize_t n = archive_read_data(a, buf, sizeof(buf));
		if (n < 0)
			return unpack_fail(u, a, err);
		if (n == 0)
			return 0;
		if ((uint64_t)n > u->left.bytes)
			return refuse_entry(u, name, "is more than the limit of unpacked bytes allows", err);
		u->left.bytes -= (uint64_t)n;
		if (file_write(fd, name, buf, (size_t)n, err) < 0)
			return err->code == ENOSPC ? err_code(err, E_NO_SPACE) : -1;
	}
}

static int unpack_file(struct unpack *u, struct archive *a, struct archive_entry *e, const char *name, struct err *err)
{
	auto_fd int fd = extract_file(&u->to, name, archive_entry_perm(e), err);
	if (fd < 0)
		return -1;
	la_int64_t size = archive_entry_size(e);
	int r = copy_data(u, a, fd, name, err);
	if (r == 0 && archive_entry_size_is_set(e) && lseek(fd, 0, SEEK_CUR) < size)
		return err_set(err, E_ARCHIVE, "'%s': '%s' is cut short", u->name, name);
	return r;
}

// cpio gives the content with the last of several names, tar with the first.
static int unpack_hardlink(struct unpack *u, struct archive *a, struct archive_entry *e, const char *name,
			   struct err *err)
{
	const char *raw = archive_entry_hardlink(e);
	auto_str char *target = extract_name(raw);
	if (!target)
		return refuse_entry(u, name, "is a hard link that leaves the target directory", err);
	if (archive_entry_size_is_set(e) && archive_entry_size(e) > 0)
		return unpack_file(u, a, e, target, err) < 0 ? -1 : extract_hardlink(&u->to, name, target, err);
	return extract_hardlink(&u->to, name, target, err);
}

static size_t path_depth(const char *name)
{
	size_t n = 1;
	for (; (name = strchr(name, '/')); name++)
		n++;
	return n;
}

static int unpack_entry(struct unpack *u, struct archive *a, struct archive_entry *e, struct err *err)
{
	const char *raw = archive_entry_pathname(e);
	if (!raw)
		raw = archive_entry_pathname_utf8(e);
	if (!raw)
		return err_set(err, E_ARCHIVE, "'%s': an entry has no usable name", u->name);
	if (u->left.entries-- == 0)
		return refuse_entry(u, raw, "is one more than the limit of entries allows", err);
	auto_str char *name = extract_name(raw);
	if (!name)
		return refuse_entry(u, raw, "leaves the target directory", err);
	if (!*name || (u->select && !u->select(u->ctx, name)))
		return 0;
	if (strlen(name) > PATH_MOST || path_depth(name) > DEPTH_MOST)
		return refuse_entry(u, name, "has a longer or deeper path than the limits allow", err);
	if (archive_entry_hardlink(e))
		return unpack_hardlink(u, a, e, name, err);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return unpack_file(u, a, e, name, err);
	case AE_IFDIR:
		return extract_dir(&u->to, name, archive_entry_perm(e), err);
	case AE_IFLNK:
		if (!archive_entry_symlink(e))
			return err_set(err, E_ARCHIVE, "'%s': the link '%s' leads nowhere", u->name, name);
		return extract_symlink(&u->to, name, archive_entry_symlink(e), err);
	default:
		return refuse_entry(u, raw, "is a device, fifo or socket", err);
	}
}

static int next_archive_entry(const struct unpack *u, struct archive *a, struct archive_entry **ret, struct err *err)
{
	int r = archive_read_next_header(a, ret);
	if (r == ARCHIVE_EOF)
		return 0;
	return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 1 : unpack_fail(u, a, err);
}

static int unpack_all(struct unpack *u, struct archive *a, struct archive_entry *e, struct err *err)
{
	int r;
	do {
		r = unpack_entry(u, a, e, err);
		if (r == 0 && u->left.stop && *u->left.stop)
			return 0;
		if (r == 0)
			r = next_archive_entry(u, a, &e, err);
	} while (r > 0);
	return r;
}

static bool is_data_tar(const char *member)
{
	return member && str_starts(member, "data.tar");
}

static int unpack_deb(struct unpack *u, struct archive *outer, struct archive_entry *e, struct err *err)
{
	int r = 1;
	while (r > 0 && !is_data_tar(archive_entry_pathname(e)))
		r = next_archive_entry(u, outer, &e, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_ARCHIVE, "'%s' has no data.tar member", u->name);
	auto_archive struct archive *a = new_reader();
	if (archive_read_open(a, outer, NULL, read_from_member, NULL) != ARCHIVE_OK)
		return unpack_fail(u, a, err);
	r = next_archive_entry(u, a, &e, err);
	return r > 0 ? unpack_all(u, a, e, err) : r;
}

static bool is_ar(struct archive *a)
{
	return (archive_format(a) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_AR;
}

static int unpack_input(struct unpack *u, struct input *in, const struct root *dest,
			const struct archive_limits *limits, struct err *err)
{
	u->left = limits ? *limits : LIMITS;
	u->left.bytes = u->left.bytes ? u->left.bytes : LIMITS.bytes;
	u->left.entries = u->left.entries ? u->left.entries : LIMITS.entries;
	u->input = in;
	extract_init(&u->to, dest);
	struct archive *a = new_reader();
	struct archive_entry *e = NULL;
	la_ssize_t (*read)(struct archive *, void *, const void **) = in->stream ? read_from_stream : read_from_fd;
	int r = archive_read_open(a, in, NULL, read, NULL) == ARCHIVE_OK ? next_archive_entry(u, a, &e, err) :
									   unpack_fail(u, a, err);
	if (r == 0)
		r = err_set(err, E_ARCHIVE, "'%s' has no entries", u->name);
	if (r > 0)
		r = is_ar(a) && !in->stream ? unpack_deb(u, a, e, err) : unpack_all(u, a, e, err);
	archive_read_free(a);
	extract_done(&u->to);
	return r;
}

int archive_unpack(int fd, const char *name, off_t offset, const struct root *dest, const struct archive_limits *limits,
		   bool (*select)(void *ctx, const char *path), void *ctx, struct err *err)
{
	struct unpack u = { .name = name, .select = select, .ctx = ctx };
	struct input *in = mem_alloc(sizeof(*in));
	in->fd = fd;
	in->at = offset;
	int r = unpack_input(&u, in, dest, limits, err);
	free(in);
	return r;
}

int archive_unpack_files(const struct strv *files, const struct root *dest, bool (*select)(void *ctx, const char *path),
			 void *ctx, struct err *err)
{
	for (size_t i = 0; i < files->count; i++) {
		auto_fd int fd = file_open_arg(files->items[i], O_RDONLY, err);
		if (fd < 0 || archive_unpack(fd, files->items[i], 0, dest, NULL, select, ctx, err) < 0)
			return -1;
	}
	return 0;
}

int archive_unpack_stream(const struct archive_stream *from, const char *name, const struct root *dest,
			  const struct archive_limits *limits, struct err *err)
{
	struct unpack u = { .name = name };
	struct input *in = mem_alloc(sizeof(*in));
	in->stream = from;
	int r = unpack_input(&u, in, dest, limits, err);
	free(in);
	return r;
}
