// SPDX-License-Identifier: Apache-2.0
// A layer is identified by two digests: of its bytes, and of the tar inside. libarchive computes neither, so the same
// entries are written twice: to the file, and uncompressed to a hash.
#include "base/archive/pack.h"

#include "base/file/file.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>

enum { CHUNK = 1 << 16 };

struct sink {
	struct archive *archive;
	int fd; // -1 = only hash
	const char *name;
	struct digest *sum;
	uint64_t size;
	struct err err;
};

struct pack {
	struct sink out, tar;
	char *name;
	time_t time;
};

static la_ssize_t write_sink(struct archive *a, void *ctx, const void *data, size_t len)
{
	struct sink *s = ctx;
	if (s->fd >= 0 && file_write(s->fd, s->name, data, len, &s->err) < 0) {
		archive_set_error(a, EIO, "%s", s->err.text);
		return -1;
	}
	digest_add(s->sum, data, len);
	s->size += len;
	return (la_ssize_t)len;
}

static int sink_fail(const struct sink *s, struct err *err)
{
	if (s->err.code) {
		*err = s->err;
		return -1;
	}
	const char *text = archive_error_string(s->archive);
	return err_set(err, E_SYSTEM, "write the archive '%s': %s", s->name, text ? text : "failed");
}

// One thread and one level, so that the same content is the same bytes.
static int add_filter(struct archive *a, enum pack_filter filter)
{
	if (filter == PACK_GZIP)
		return archive_write_add_filter_gzip(a) != ARCHIVE_OK ?
			       ARCHIVE_FATAL :
			       archive_write_set_filter_option(a, "gzip", "timestamp", NULL);
	if (filter == PACK_ZSTD)
		return archive_write_add_filter_zstd(a) != ARCHIVE_OK ?
			       ARCHIVE_FATAL :
			       archive_write_set_filter_option(a, "zstd", "compression-level", "10");
	return ARCHIVE_OK;
}

static int open_sink(struct sink *s, enum pack_filter filter, struct err *err)
{
	s->archive = archive_write_new();
	s->sum = digest_new();
	if (!s->archive)
		abort();
	if (archive_write_set_format_pax_restricted(s->archive) != ARCHIVE_OK ||
	    add_filter(s->archive, filter) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(s->archive, 1) != ARCHIVE_OK ||
	    archive_write_open(s->archive, s, NULL, write_sink, NULL) != ARCHIVE_OK)
		return sink_fail(s, err);
	return 0;
}

int pack_new(int fd, const char *name, enum pack_filter filter, struct pack **ret, struct err *err)
{
	uint64_t seconds = 0;
	auto_pack struct pack *p = mem_alloc(sizeof(*p));
	str_u64(getenv("SOURCE_DATE_EPOCH"), 10, &seconds);
	p->time = (time_t)seconds;
	p->name = str_dup(name);
	p->out.fd = fd;
	p->tar.fd = -1;
	p->out.name = p->tar.name = p->name;
	if (open_sink(&p->out, filter, err) < 0 || open_sink(&p->tar, PACK_PLAIN, err) < 0)
		return -1;
	*ret = TAKE(p);
	return 0;
}

// link: of AE_IFLNK.
static int put_header(struct pack *p, const char *path, mode_t kind, mode_t mode, uint64_t size, const char *link,
		      struct err *err)
{
	struct archive_entry *e = archive_entry_new();
	archive_entry_set_pathname(e, path);
	if (link)
		archive_entry_set_symlink(e, link);
	archive_entry_set_filetype(e, kind);
	archive_entry_set_perm(e, mode);
	archive_entry_set_size(e, (la_int64_t)size);
	archive_entry_set_mtime(e, p->time, 0);
	archive_entry_set_uid(e, 0);
	archive_entry_set_gid(e, 0);
	int r = archive_write_header(p->out.archive, e) != ARCHIVE_OK ? sink_fail(&p->out, err) :
		archive_write_header(p->tar.archive, e) != ARCHIVE_OK ? sink_fail(&p->tar, err) :
									0;
	archive_entry_free(e);
	return r;
}

int pack_dir(struct pack *p, const char *path, struct err *err)
{
	return put_header(p, path, AE_IFDIR, 0755, 0, NULL, err);
}

static int put_fd(struct pack *p, const char *path, mode_t mode, int in, uint64_t size, struct err *err)
{
	char buf[CHUNK];
	if (put_header(p, path, AE_IFREG, mode, size, NULL, err) < 0)
		return -1;
	for (uint64_t left = size; left;) {
		ssize_t n = read(in, buf, left < sizeof(buf) ? (size_t)left : sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_fail("read", path, err);
		if (n == 0)
			return err_set(err, E_SYSTEM, "'%s' shrank while it was being packed", path);
		if (archive_write_data(p->out.archive, buf, (size_t)n) < n)
			return sink_fail(&p->out, err);
		if (archive_write_data(p->tar.archive, buf, (size_t)n) < n)
			return sink_fail(&p->tar, err);
		left -= (uint64_t)n;
	}
	return 0;
}

int pack_file(struct pack *p, const char *path, int in, uint64_t size, struct err *err)
{
	return put_fd(p, path, 0644, in, size, err);
}

int pack_data(struct pack *p, const char *path, const void *data, size_t len, struct err *err)
{
	if (put_header(p, path, AE_IFREG, 0644, len, NULL, err) < 0)
		return -1;
	if (archive_write_data(p->out.archive, data, len) < (la_ssize_t)len)
		return sink_fail(&p->out, err);
	return archive_write_data(p->tar.archive, data, len) < (la_ssize_t)len ? sink_fail(&p->tar, err) : 0;
}

int pack_link(struct pack *p, const char *path, const char *target, struct err *err)
{
	return put_header(p, path, AE_IFLNK, 0777, 0, target, err);
}

static int put_below(struct pack *p, const struct root *root, const char *dir, unsigned depth, struct err *err)
{
	enum { DEPTH_MAX = 100 };
	auto_strv struct strv names = { 0 };
	if (depth > DEPTH_MAX)
		return err_set(err, E_TOO_LARGE, "'%s/%s' is %u directories deep", root->name, dir, depth);
	if (root_list(root, *dir ? dir : ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s%s%s", dir, *dir ? "/" : "", names.items[i]), *target = NULL;
		auto_fd int fd = -1;
		struct stat st;
		int r = root_stat(root, path, &st, err);
		if (r < 0)
			return -1;
		if (r == 0)
			return err_set(err, E_SYSTEM, "'%s/%s' disappeared while it was being packed", root->name,
				       path);
		switch (st.st_mode & S_IFMT) {
		case S_IFLNK:
			r = root_readlink(root, path, &target, err) < 0 ? -1 : pack_link(p, path, target, err);
			break;
		case S_IFREG:
			fd = root_open(root, path, O_RDONLY | O_NOFOLLOW, err);
			if (fd < 0)
				return -1;
			if (fstat(fd, &st) < 0)
				return file_fail("look at", path, err);
			r = put_fd(p, path, st.st_mode & 0111 ? 0755 : 0644, fd, (uint64_t)st.st_size, err);
			break;
		case S_IFDIR:
			r = pack_dir(p, path, err) < 0 ? -1 : put_below(p, root, path, depth + 1, err);
			break;
		default:
			return err_set(err, E_ARCHIVE_UNSAFE, "'%s/%s' is a device, fifo or socket", root->name, path);
		}
		if (r < 0)
			return -1;
	}
	return 0;
}

int pack_tree(struct pack *p, const struct root *root, struct err *err)
{
	return put_below(p, root, "", 0, err);
}

int pack_close(struct pack *p, char ret_digest[DIGEST_HEX + 1], char ret_diff_id[DIGEST_HEX + 1], uint64_t *ret_size,
	       struct err *err)
{
	if (archive_write_close(p->out.archive) != ARCHIVE_OK)
		return sink_fail(&p->out, err);
	if (archive_write_close(p->tar.archive) != ARCHIVE_OK)
		return sink_fail(&p->tar, err);
	char ignored[DIGEST_HEX + 1];
	digest_hex(TAKE(p->out.sum), ret_digest ? ret_digest : ignored);
	digest_hex(TAKE(p->tar.sum), ret_diff_id ? ret_diff_id : ignored);
	if (ret_size)
		*ret_size = p->out.size;
	return 0;
}

static void close_sink(struct sink *s)
{
	char ignored[DIGEST_HEX + 1];
	if (s->archive)
		archive_write_free(s->archive);
	if (s->sum)
		digest_hex(s->sum, ignored);
}

void pack_free(struct pack *p)
{
	if (!p)
		return;
	// An archive that was not closed is closed by its release, which writes: to nowhere.
	p->out.fd = p->tar.fd = -1;
	close_sink(&p->out);
	close_sink(&p->tar);
	free(p->name);
	free(p);
}
