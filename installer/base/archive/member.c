// SPDX-License-Identifier: Apache-2.0
// Single members of a plain tar, found once and then read where they lie: the rest is skipped by seeking, so that a
// bundle of gigabytes costs its headers and what is asked for.
#include "base/archive/archive.h"
#include "base/archive/extract.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <sys/stat.h>

enum { CHUNK = 1 << 16 };

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
	m->name = extract_name(raw);
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
			       "'%s' is cut short: '%s' has %llu bytes from byte %lld on, all of it %lld", r->name, raw,
			       (unsigned long long)m->size, (long long)m->at, (long long)end);
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
