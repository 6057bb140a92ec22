// SPDX-License-Identifier: Apache-2.0
#include "base/archive/archive.h"

#include "base/file/file.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

enum { CHUNK = 1 << 16, PATH_MOST = 2048, DEPTH_MOST = 128, ENTRIES_MOST = 500000 };
static const uint64_t BYTES_MOST = 8ull << 30;

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

int archive_inflate(const void *data, size_t len, size_t max, char **ret, size_t *ret_len, struct err *err)
{
	auto_archive struct archive *a = archive_read_new();
	auto_str char *out = mem_alloc(1);
	size_t used = 0, room = 0;
	if (len > 0) {
		struct archive_entry *entry;
		archive_read_support_filter_gzip(a);
		archive_read_support_filter_xz(a);
		archive_read_support_filter_zstd(a);
		archive_read_support_filter_lz4(a);
		archive_read_support_format_raw(a);
		if (archive_read_open_memory(a, data, len) != ARCHIVE_OK ||
		    archive_read_next_header(a, &entry) != ARCHIVE_OK)
			return inflate_fail(a, err);
	}
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

// Where the bytes of an archive come from.
struct input {
	const char *name; // of the archive, for messages
	int fd;           // borrowed
	off_t at;
	const struct archive_stream *stream; // NULL = fd
	struct err err;                      // of the stream; .code 0 = none
	char buf[CHUNK];
};

static la_ssize_t read_input(struct archive *a, void *ctx, const void **ret)
{
	struct input *in = ctx;
	ssize_t n;
	if (in->stream)
		n = in->stream->read(in->stream->ctx, in->buf, sizeof(in->buf), &in->err);
	else
		do
			n = pread(in->fd, in->buf, sizeof(in->buf), in->at);
		while (n < 0 && errno == EINTR);
	if (n < 0 && in->stream)
		archive_set_error(a, EIO, "%s", in->err.text);
	else if (n < 0)
		archive_set_error(a, errno, "read: %s", strerror(errno));
	else
		in->at += n;
	*ret = in->buf;
	return n;
}

static int input_fail(const struct input *in, struct archive *a, struct err *err)
{
	const char *text = archive_error_string(a);
	if (in->err.code) {
		*err = in->err;
		return -1;
	}
	return err_set(err, E_ARCHIVE, "'%s': %s (read up to byte %lld)", in->name, text ? text : "damaged",
		       (long long)in->at);
}

// 1 = an entry, 0 = the end.
static int next_header(const struct input *in, struct archive *a, struct archive_entry **ret, struct err *err)
{
	int r = archive_read_next_header(a, ret);
	if (r == ARCHIVE_EOF)
		return 0;
	return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 1 : input_fail(in, a, err);
}

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

// Unpacking writes files below a directory under names that are not to be trusted. Every directory on the way is opened
// without following links, so that nothing lands outside, whatever was planted before. What exists is replaced, except
// that a directory stays a directory.
struct unpack {
	struct input in;
	struct archive *archive; // whose entries are unpacked
	uint64_t bytes_left;
	size_t entries_left;
	const struct root *dest;
	int dir;    // the directory that the last entry went into; -1 = none yet
	char *path; // its name, "" = dest itself
};

static void unpack_freep(struct unpack **u)
{
	close_fdp(&(*u)->dir);
	free((*u)->path);
	free(*u);
}
#define auto_unpack __attribute__((cleanup(unpack_freep)))

static int refuse_entry(const struct unpack *u, const char *raw, const char *why, struct err *err)
{
	return err_set(err, E_ARCHIVE_UNSAFE, "'%s': the entry '%.200s%s' %s", u->in.name, raw,
		       strlen(raw) > 200 ? "..." : "", why);
}

static int extract_fail(const struct unpack *u, const char *what, const char *name, struct err *err)
{
	int code = errno == EDQUOT ? ENOSPC : errno;
	err_set(err, code, "%s '%s' in '%s'", what, name, u->dest->name);
	return code == ENOSPC ? err_code(err, E_NO_SPACE) : -1;
}

// Opens the directory that the first len bytes of name are; makes what is absent. A link or a file in the way is an
// attack, because archives name directories by their real path.
static int enter_dir(struct unpack *u, const char *name, size_t len, struct err *err)
{
	enum { OPEN_DIR = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
	auto_str char *path = str_ndup(name, len);
	if (u->dir >= 0 && str_eq(u->path, path))
		return 0;
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, path, "/");
	auto_fd int fd = openat(u->dest->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; fd >= 0 && i < parts.count; i++) {
		const char *part = parts.items[i];
		int next = openat(fd, part, OPEN_DIR);
		if (next < 0 && errno == ENOENT) {
			if (mkdirat(fd, part, 0755) < 0 && errno != EEXIST)
				return extract_fail(u, "make the directory of", name, err);
			next = openat(fd, part, OPEN_DIR);
		}
		if (next < 0 && (errno == ELOOP || errno == ENOTDIR))
			return err_set(err, E_ARCHIVE_UNSAFE,
				       "'%s' would be written through '%s', which is not a directory", name, part);
		if (next < 0)
			return extract_fail(u, "open the directory of", name, err);
		close(fd);
		fd = next;
	}
	if (fd < 0)
		return extract_fail(u, "open the directory of", name, err);
	close_fdp(&u->dir);
	free(u->path);
	u->dir = TAKE_FD(fd);
	u->path = TAKE(path);
	return 0;
}

// Opens the directory of name and removes what has that name. *ret_last borrows name's last component.
static int make_way(struct unpack *u, const char *name, const char **ret_last, struct err *err)
{
	const char *slash = strrchr(name, '/');
	if (enter_dir(u, name, slash ? (size_t)(slash - name) : 0, err) < 0)
		return -1;
	*ret_last = slash ? slash + 1 : name;
	return unlinkat(u->dir, *ret_last, 0) == 0 || errno == ENOENT ? 0 : extract_fail(u, "replace", name, err);
}

static int unpack_file(struct unpack *u, struct archive_entry *e, const char *name, struct err *err)
{
	const char *last = NULL;
	if (make_way(u, name, &last, err) < 0)
		return -1;
	mode_t mode = (archive_entry_perm(e) & 0777) | 0600;
	auto_fd int fd = openat(u->dir, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0 || fchmod(fd, mode) < 0)
		return extract_fail(u, "create", name, err);
	char buf[CHUNK];
	for (la_ssize_t n; (n = archive_read_data(u->archive, buf, sizeof(buf))) != 0;) {
		if (n < 0)
			return input_fail(&u->in, u->archive, err);
		if ((uint64_t)n > u->bytes_left)
			return refuse_entry(u, name, "exceeds the limit of unpacked bytes", err);
		u->bytes_left -= (uint64_t)n;
		if (file_write(fd, name, buf, (size_t)n, err) < 0)
			return -1;
	}
	if (archive_entry_size_is_set(e) && lseek(fd, 0, SEEK_CUR) < archive_entry_size(e))
		return err_set(err, E_ARCHIVE, "'%s': '%s' is cut short", u->in.name, name);
	return 0;
}

static int unpack_hardlink(struct unpack *u, struct archive_entry *e, const char *name, struct err *err)
{
	auto_str char *target = archive_safe_name(archive_entry_hardlink(e));
	if (!target)
		return refuse_entry(u, name, "is a hard link that leaves the target directory", err);
	// cpio gives the content with the last of several names, tar with the first.
	if (archive_entry_size_is_set(e) && archive_entry_size(e) > 0 && unpack_file(u, e, target, err) < 0)
		return -1;
	const char *slash = strrchr(target, '/'), *old = slash ? slash + 1 : target, *last = NULL;
	if (enter_dir(u, target, slash ? (size_t)(slash - target) : 0, err) < 0)
		return -1;
	auto_fd int from = openat(u->dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	if (from < 0 || fstatat(from, old, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, E_ARCHIVE, "'%s' is a hard link to '%s', which the archive does not contain", name,
			       target);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_ARCHIVE_UNSAFE, "'%s' is a hard link to '%s', which is not a regular file", name,
			       target);
	if (str_eq(name, target))
		return 0;
	if (make_way(u, name, &last, err) < 0)
		return -1;
	return linkat(from, old, u->dir, last, 0) < 0 ? extract_fail(u, "link", name, err) : 0;
}

static int unpack_entry(struct unpack *u, struct archive_entry *e, const struct archive_options *options,
			struct err *err)
{
	const char *raw = archive_entry_pathname(e), *last = NULL;
	if (!raw)
		raw = archive_entry_pathname_utf8(e);
	if (!raw)
		return err_set(err, E_ARCHIVE, "'%s': an entry has no usable name", u->in.name);
	if (u->entries_left-- == 0)
		return refuse_entry(u, raw, "exceeds the limit of entries", err);
	auto_str char *name = archive_safe_name(raw);
	if (!name)
		return refuse_entry(u, raw, "leaves the target directory", err);
	if (!*name || (options->select && !options->select(options->ctx, name)))
		return 0;
	size_t depth = 1;
	for (const char *slash = name; (slash = strchr(slash, '/')); slash++)
		depth++;
	if (strlen(name) > PATH_MOST || depth > DEPTH_MOST)
		return refuse_entry(u, name, "has a path that is too long or too deep", err);
	if (archive_entry_hardlink(e))
		return unpack_hardlink(u, e, name, err);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return unpack_file(u, e, name, err);
	case AE_IFDIR:
		if (enter_dir(u, name, strlen(name), err) < 0)
			return -1;
		return fchmod(u->dir, (archive_entry_perm(e) & 0777) | 0700) < 0 ?
			       extract_fail(u, "set the mode of", name, err) :
			       0;
	case AE_IFLNK:
		if (!archive_entry_symlink(e))
			return err_set(err, E_ARCHIVE, "'%s': the link '%s' has no target", u->in.name, name);
		if (make_way(u, name, &last, err) < 0)
			return -1;
		return symlinkat(archive_entry_symlink(e), u->dir, last) < 0 ? extract_fail(u, "link", name, err) : 0;
	default:
		return refuse_entry(u, raw, "is a device, fifo or socket", err);
	}
}

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

static la_ssize_t read_member(struct archive *a, void *ctx, const void **ret)
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

int archive_unpack(int fd, const char *name, off_t offset, const struct root *dest,
		   const struct archive_options *options, struct err *err)
{
	static const struct archive_options none = { 0 };
	auto_unpack struct unpack *u = mem_alloc(sizeof(*u));
	auto_archive struct archive *a = new_reader(), *inner = NULL;
	struct archive_entry *e = NULL;
	options = options ? options : &none;
	u->in.name = name;
	u->in.fd = fd;
	u->in.at = offset;
	u->in.stream = options->stream;
	u->archive = a;
	u->bytes_left = options->bytes ? options->bytes : BYTES_MOST;
	u->entries_left = options->entries ? options->entries : ENTRIES_MOST;
	u->dest = dest;
	u->dir = -1;
	if (archive_read_open(a, &u->in, NULL, read_input, NULL) != ARCHIVE_OK)
		return input_fail(&u->in, a, err);
	int r = next_header(&u->in, a, &e, err);
	if (r == 0)
		return err_set(err, E_ARCHIVE, "'%s' has no entries", name);
	// The data.tar member of a .deb is itself the input of a second archive.
	if (r > 0 && !options->stream && (archive_format(a) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_AR) {
		for (const char *at; r > 0 && !((at = archive_entry_pathname(e)) && str_starts(at, "data.tar"));)
			r = next_header(&u->in, a, &e, err);
		if (r <= 0)
			return r < 0 ? -1 : err_set(err, E_ARCHIVE, "'%s' has no data.tar member", name);
		u->archive = inner = new_reader();
		if (archive_read_open(inner, a, NULL, read_member, NULL) != ARCHIVE_OK)
			return input_fail(&u->in, inner, err);
		r = next_header(&u->in, inner, &e, err);
	}
	while (r > 0) {
		r = unpack_entry(u, e, options, err);
		if (r < 0 || (options->stop && *options->stop))
			return r;
		r = next_header(&u->in, u->archive, &e, err);
	}
	return r;
}

// Members.

struct archive_member_reader {
	struct input in;
	struct archive *archive;
	char *name;
};

static la_int64_t skip_input(struct archive *a, void *ctx, la_int64_t count)
{
	struct input *in = ctx;
	(void)a;
	in->at += count;
	return count;
}

static int open_reader(int fd, const char *name, off_t at, struct archive_member_reader **ret, struct err *err)
{
	auto_archive_member struct archive_member_reader *r = mem_alloc(sizeof(*r));
	r->in.name = r->name = str_dup(name);
	r->in.fd = fd;
	r->in.at = at;
	r->archive = archive_read_new();
	if (!r->archive)
		abort();
	archive_read_support_format_tar(r->archive);
	archive_read_set_read_callback(r->archive, read_input);
	archive_read_set_skip_callback(r->archive, skip_input);
	archive_read_set_callback_data(r->archive, &r->in);
	if (archive_read_open1(r->archive) != ARCHIVE_OK)
		return input_fail(&r->in, r->archive, err);
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

int archive_walk(int fd, const char *name, size_t most,
		 int (*visit)(void *, const struct archive_member *, struct err *), void *ctx, struct err *err)
{
	auto_archive_member struct archive_member_reader *r = NULL;
	struct archive_entry *e = NULL;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at '%s'", name);
	if (open_reader(fd, name, 0, &r, err) < 0)
		return -1;
	int found;
	for (size_t count = 0; (found = next_header(&r->in, r->archive, &e, err)) > 0; count++) {
		if (count == most)
			return err_set(err, E_TOO_LARGE, "'%s' has more than %zu entries", name, most);
		const char *raw = archive_entry_pathname(e);
		if (!raw)
			return err_set(err, E_ARCHIVE, "'%s': an entry has no usable name", name);
		auto_str char *safe = archive_safe_name(raw);
		const struct archive_member m = { .name = safe,
						  .at = archive_read_header_position(r->archive),
						  .size = (uint64_t)archive_entry_size(e),
						  .is_file = archive_entry_filetype(e) == AE_IFREG };
		bool is_other = archive_entry_hardlink(e) || (!m.is_file && archive_entry_filetype(e) != AE_IFDIR);
		const char *why = !safe                             ? "leaves the archive" :
				  is_other                          ? "is neither a file nor a directory" :
				  archive_entry_sparse_count(e) > 0 ? "is a sparse file" :
								      NULL;
		if (why)
			return err_set(err, E_ARCHIVE_UNSAFE, "'%s': the entry '%s' %s", name, raw, why);
		if (m.is_file && m.size > (uint64_t)(st.st_size - m.at))
			return err_set(err, E_ARCHIVE,
				       "'%s' is cut short: '%s' has %llu bytes at offset %lld, the archive has %lld",
				       name, raw, (unsigned long long)m.size, (long long)m.at, (long long)st.st_size);
		if (visit(ctx, &m, err) < 0)
			return -1;
	}
	return found;
}

int archive_member_open(int fd, const char *name, off_t at, struct archive_member_reader **ret, struct err *err)
{
	auto_archive_member struct archive_member_reader *r = NULL;
	struct archive_entry *e = NULL;
	if (open_reader(fd, name, at, &r, err) < 0)
		return -1;
	int found = next_header(&r->in, r->archive, &e, err);
	if (found <= 0)
		return found < 0 ? -1 : err_set(err, E_ARCHIVE, "'%s' has no entry at byte %lld", name, (long long)at);
	*ret = TAKE(r);
	return 0;
}

ssize_t archive_member_read(struct archive_member_reader *r, void *buf, size_t len, struct err *err)
{
	la_ssize_t n = archive_read_data(r->archive, buf, len);
	return n < 0 ? input_fail(&r->in, r->archive, err) : n;
}
