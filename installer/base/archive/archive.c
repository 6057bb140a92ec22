// SPDX-License-Identifier: Apache-2.0
#include "base/archive/archive.h"

#include "base/file/file.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

enum { CHUNK = 1 << 16, PATH_MOST = 2048, DEPTH_MOST = 128 };
static const struct archive_limits LIMITS = { .bytes = 8ull << 30, .entries = 500000 };

static void free_archivep(struct archive **a)
{
	if (*a)
		archive_read_free(*a);
}
#define auto_archive __attribute__((cleanup(free_archivep)))

static int inflate_fail(struct archive *a, struct err *err)
{
	const char *why = archive_error_string(a);
	return err_set(err, E_ARCHIVE, "inflate: %s", why ? why : "unknown format");
}

static int open_stream(struct archive *a, const void *data, size_t len, struct err *err)
{
	struct archive_entry *entry;
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_zstd(a);
	archive_read_support_filter_lz4(a);
	archive_read_support_format_raw(a);
	if (archive_read_open_memory(a, data, len) != ARCHIVE_OK || archive_read_next_header(a, &entry) != ARCHIVE_OK)
		return inflate_fail(a, err);
	return 0;
}

int archive_inflate(const void *data, size_t len, size_t max, char **ret, size_t *ret_len, struct err *err)
{
	auto_archive struct archive *a = archive_read_new();
	auto_str char *out = mem_alloc(1);
	size_t used = 0, room = 0;
	if (len > 0 && open_stream(a, data, len, err) < 0)
		return -1;
	for (ssize_t n = 1; len > 0 && n > 0; used += (size_t)n) {
		if (used == room) {
			room = room ? 2 * room : 4 * len + 4096;
			out = mem_grow(out, room + 1, 1);
		}
		n = archive_read_data(a, out + used, room - used);
		if (n < 0)
			return inflate_fail(a, err);
		if ((size_t)n > max - used)
			return err_set(err, E_ARCHIVE, "inflate: %zu bytes expand to more than %zu bytes", len, max);
	}
	out[used] = '\0';
	*ret = TAKE(out);
	*ret_len = used;
	return 0;
}

// Writes files below a directory under names that are not to be trusted. Every directory on the way is opened without
// following links, so that nothing lands outside, whatever was planted before. What exists is replaced, except that a
// directory stays a directory.
struct extract {
	const struct root *dest;
	int dir;    // the directory that the last entry went into
	char *path; // its name, "" = dest itself
};

char *archive_safe_name(const char *raw)
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
		return err_set(err, E_ARCHIVE_UNSAFE, "'%s' would be written through '%s', which is not a directory",
			       name, part);
	return fd < 0 ? extract_fail(x, "open the directory of", name, err) : fd;
}

// Enters the directory of name; *ret_last borrows name's last component.
static int enter_parent(struct extract *x, const char *name, const char **ret_last, struct err *err)
{
	const char *slash = strrchr(name, '/');
	auto_str char *path = slash ? str_ndup(name, (size_t)(slash - name)) : str_dup("");
	*ret_last = slash ? slash + 1 : name;
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
	x->path = TAKE(path);
	return 0;
}

static int remove_existing(struct extract *x, const char *name, const char *last, struct err *err)
{
	if (unlinkat(x->dir, last, 0) == 0 || errno == ENOENT)
		return 0;
	return extract_fail(x, "replace", name, err);
}

static int extract_dir(struct extract *x, const char *name, mode_t mode, struct err *err)
{
	const char *last = NULL;
	if (enter_parent(x, name, &last, err) < 0)
		return -1;
	auto_fd int fd = open_component(x, x->dir, last, name, err);
	if (fd < 0)
		return -1;
	return fchmod(fd, (mode & 0777) | 0700) < 0 ? extract_fail(x, "set the mode of", name, err) : 0;
}

static int extract_file(struct extract *x, const char *name, mode_t mode, struct err *err)
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

static int extract_symlink(struct extract *x, const char *name, const char *target, struct err *err)
{
	const char *last = NULL;
	if (enter_parent(x, name, &last, err) < 0 || remove_existing(x, name, last, err) < 0)
		return -1;
	return symlinkat(target, x->dir, last) < 0 ? extract_fail(x, "link", name, err) : 0;
}

static int extract_hardlink(struct extract *x, const char *name, const char *target, struct err *err)
{
	const char *last = NULL;
	if (enter_parent(x, target, &last, err) < 0)
		return -1;
	auto_fd int from = openat(x->dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_str char *old = str_dup(last);
	struct stat st;
	if (from < 0 || fstatat(from, old, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, E_ARCHIVE, "'%s' is a hard link to '%s', which the archive does not contain", name,
			       target);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_ARCHIVE_UNSAFE, "'%s' is a hard link to '%s', which is not a regular file", name,
			       target);
	if (str_eq(name, target))
		return 0;
	if (enter_parent(x, name, &last, err) < 0 || remove_existing(x, name, last, err) < 0)
		return -1;
	return linkat(from, old, x->dir, last, 0) < 0 ? extract_fail(x, "link", name, err) : 0;
}

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
			return refuse_entry(u, name, "exceeds the limit of unpacked bytes", err);
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
	auto_str char *target = archive_safe_name(raw);
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
		return refuse_entry(u, raw, "exceeds the limit of entries", err);
	auto_str char *name = archive_safe_name(raw);
	if (!name)
		return refuse_entry(u, raw, "leaves the target directory", err);
	if (!*name || (u->select && !u->select(u->ctx, name)))
		return 0;
	if (strlen(name) > PATH_MOST || path_depth(name) > DEPTH_MOST)
		return refuse_entry(u, name, "has a path that is too long or too deep", err);
	if (archive_entry_hardlink(e))
		return unpack_hardlink(u, a, e, name, err);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return unpack_file(u, a, e, name, err);
	case AE_IFDIR:
		return extract_dir(&u->to, name, archive_entry_perm(e), err);
	case AE_IFLNK:
		if (!archive_entry_symlink(e))
			return err_set(err, E_ARCHIVE, "'%s': the link '%s' has no target", u->name, name);
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

static int unpack_deb(struct unpack *u, struct archive *outer, struct archive_entry *e, struct err *err)
{
	int r = 1;
	for (const char *member; r > 0 && !((member = archive_entry_pathname(e)) && str_starts(member, "data.tar"));)
		r = next_archive_entry(u, outer, &e, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_ARCHIVE, "'%s' has no data.tar member", u->name);
	auto_archive struct archive *a = new_reader();
	if (archive_read_open(a, outer, NULL, read_from_member, NULL) != ARCHIVE_OK)
		return unpack_fail(u, a, err);
	r = next_archive_entry(u, a, &e, err);
	return r > 0 ? unpack_all(u, a, e, err) : r;
}

static int unpack_input(struct unpack *u, struct input *in, const struct root *dest,
			const struct archive_limits *limits, struct err *err)
{
	u->left = limits ? *limits : LIMITS;
	u->left.bytes = u->left.bytes ? u->left.bytes : LIMITS.bytes;
	u->left.entries = u->left.entries ? u->left.entries : LIMITS.entries;
	u->input = in;
	u->to = (struct extract){ .dest = dest, .dir = -1 };
	struct archive *a = new_reader();
	struct archive_entry *e = NULL;
	la_ssize_t (*read)(struct archive *, void *, const void **) = in->stream ? read_from_stream : read_from_fd;
	int r = archive_read_open(a, in, NULL, read, NULL) == ARCHIVE_OK ? next_archive_entry(u, a, &e, err) :
									   unpack_fail(u, a, err);
	if (r == 0)
		r = err_set(err, E_ARCHIVE, "'%s' has no entries", u->name);
	bool is_ar = (archive_format(a) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_AR;
	if (r > 0)
		r = is_ar && !in->stream ? unpack_deb(u, a, e, err) : unpack_all(u, a, e, err);
	archive_read_free(a);
	close_fdp(&u->to.dir);
	free(u->to.path);
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

// Single members of a plain tar, found once and then read where they lie: the rest is skipped by seeking, so that a
// bundle of gigabytes costs only its headers and the requested members.

struct archive_member_reader {
	struct archive *archive;
	int fd; // borrowed
	off_t at;
	char *name;
	char buf[CHUNK];
};

static la_ssize_t read_chunk(struct archive *a, void *ctx, const void **ret)
{
	struct archive_member_reader *r = ctx;
	ssize_t n;
	do
		n = pread(r->fd, r->buf, sizeof(r->buf), r->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		archive_set_error(a, errno, "read: %s", strerror(errno));
	else
		r->at += n;
	*ret = r->buf;
	return n;
}

static la_int64_t skip_chunk(struct archive *a, void *ctx, la_int64_t count)
{
	struct archive_member_reader *r = ctx;
	(void)a;
	r->at += count;
	return count;
}

static int member_fail(const struct archive_member_reader *r, struct err *err)
{
	const char *text = archive_error_string(r->archive);
	return err_set(err, E_ARCHIVE, "'%s': %s (read up to byte %lld)", r->name, text ? text : "damaged",
		       (long long)r->at);
}

static int open_reader(int fd, const char *name, off_t at, struct archive_member_reader **ret, struct err *err)
{
	auto_archive_member struct archive_member_reader *r = mem_alloc(sizeof(*r));
	r->fd = fd;
	r->at = at;
	r->name = str_dup(name);
	r->archive = archive_read_new();
	if (!r->archive)
		abort();
	archive_read_support_format_tar(r->archive);
	archive_read_set_read_callback(r->archive, read_chunk);
	archive_read_set_skip_callback(r->archive, skip_chunk);
	archive_read_set_callback_data(r->archive, r);
	if (archive_read_open1(r->archive) != ARCHIVE_OK)
		return member_fail(r, err);
	*ret = TAKE(r);
	return 0;
}

void archive_member_free(struct archive_member_reader *r)
{
	if (!r)
		return;
	if (r->archive)
		archive_read_free(r->archive);
	free(r->name);
	free(r);
}

static int refuse_member(const struct archive_member_reader *r, const char *raw, const char *why, struct err *err)
{
	return err_set(err, E_ARCHIVE_UNSAFE, "'%s': the entry '%s' %s", r->name, raw, why);
}

// A file or a directory with a name of its own, whose bytes are there.
static int describe_member(const struct archive_member_reader *r, struct archive_entry *e, off_t end,
			   struct archive_member *m, struct err *err)
{
	const char *raw = archive_entry_pathname(e);
	if (!raw)
		return err_set(err, E_ARCHIVE, "'%s': an entry has no usable name", r->name);
	m->name = archive_safe_name(raw);
	m->at = archive_read_header_position(r->archive);
	m->size = (uint64_t)archive_entry_size(e);
	m->is_file = archive_entry_filetype(e) == AE_IFREG;
	if (!m->name)
		return refuse_member(r, raw, "leaves the archive", err);
	if (archive_entry_hardlink(e) || (!m->is_file && archive_entry_filetype(e) != AE_IFDIR))
		return refuse_member(r, raw, "is neither a file nor a directory", err);
	if (archive_entry_sparse_count(e) > 0)
		return refuse_member(r, raw, "is a sparse file", err);
	if (m->is_file && m->size > (uint64_t)(end - m->at))
		return err_set(err, E_ARCHIVE,
			       "'%s' is cut short: '%s' has %llu bytes at offset %lld, the archive has %lld", r->name,
			       raw, (unsigned long long)m->size, (long long)m->at, (long long)end);
	return 0;
}

static int next_header(struct archive_member_reader *r, struct archive_entry **ret, struct err *err)
{
	int done = archive_read_next_header(r->archive, ret);
	if (done == ARCHIVE_EOF)
		return 0;
	return done == ARCHIVE_OK || done == ARCHIVE_WARN ? 1 : member_fail(r, err);
}

int archive_walk(int fd, const char *name, size_t most,
		 int (*visit)(void *, const struct archive_member *, struct err *), void *ctx, struct err *err)
{
	auto_archive_member struct archive_member_reader *r = NULL;
	struct archive_entry *e = NULL;
	struct stat st;
	size_t count = 0;
	int done;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at '%s'", name);
	if (open_reader(fd, name, 0, &r, err) < 0)
		return -1;
	while ((done = next_header(r, &e, err)) > 0) {
		struct archive_member m = { 0 };
		if (count++ == most)
			return err_set(err, E_TOO_LARGE, "'%s' has more than %zu entries", name, most);
		done = describe_member(r, e, st.st_size, &m, err);
		if (done == 0)
			done = visit(ctx, &m, err);
		free(m.name);
		if (done < 0)
			return -1;
	}
	return done;
}

int archive_member_open(int fd, const char *name, off_t at, struct archive_member_reader **ret, struct err *err)
{
	auto_archive_member struct archive_member_reader *r = NULL;
	struct archive_entry *e = NULL;
	if (open_reader(fd, name, at, &r, err) < 0)
		return -1;
	int done = next_header(r, &e, err);
	if (done <= 0)
		return done < 0 ? -1 : err_set(err, E_ARCHIVE, "'%s' has no entry at byte %lld", name, (long long)at);
	*ret = TAKE(r);
	return 0;
}

ssize_t archive_member_read(struct archive_member_reader *r, void *buf, size_t len, struct err *err)
{
	la_ssize_t n = archive_read_data(r->archive, buf, len);
	return n < 0 ? member_fail(r, err) : n;
}
