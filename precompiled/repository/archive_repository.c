// SPDX-License-Identifier: Apache-2.0
// A bundle as a repository (oci-archive:FILE): a layout as a plain tar. Its headers are read once; blobs are then read
// in place, and nothing is unpacked.
//
// A bundle is untrusted input. A duplicate name is refused, because two readers could use different members.
#include "base/archive/archive.h"
#include "base/file/file.h"
#include "precompiled/repository/repository.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { CHUNK = 256 << 10, ENTRIES_MAX = 100000 };
static const char BLOBS[] = "blobs/sha256/";

struct blob_place {
	char digest[DIGEST_HEX + 1];
	off_t at;
	uint64_t size;
};

struct archive_repository {
	struct repository repository;
	int fd;
	struct blob_place mark, index_file; // .size 0 = absent
	struct blob_place *blobs;           // sorted by digest
	size_t count, room;
	struct oci_index index;
	struct blob_transfer **active;
	size_t active_count;
};

static int compare_places(const void *a, const void *b)
{
	return strcmp(((const struct blob_place *)a)->digest, ((const struct blob_place *)b)->digest);
}

static int refuse_duplicate(const struct archive_repository *b, const char *name, struct err *err)
{
	return err_set(err, E_ARCHIVE_UNSAFE, "'%s' has '%s' twice", b->repository.name, name);
}

static int index_member(void *ctx, const struct archive_member *m, struct err *err)
{
	struct archive_repository *b = ctx;
	struct blob_place *p = str_eq(m->name, "oci-layout") ? &b->mark :
			       str_eq(m->name, "index.json") ? &b->index_file :
							       NULL;
	bool is_blob = str_starts(m->name, BLOBS) && digest_is_hex(m->name + strlen(BLOBS));
	if (!m->is_file || (!p && !is_blob))
		return 0;
	if (p && p->size)
		return refuse_duplicate(b, m->name, err);
	if (is_blob) {
		if (b->count == b->room)
			b->blobs = mem_grow(b->blobs, b->room = b->room ? 2 * b->room : 64, sizeof(*b->blobs));
		p = &b->blobs[b->count++];
		memcpy(p->digest, m->name + strlen(BLOBS), sizeof(p->digest));
	}
	p->at = m->at;
	p->size = m->size;
	return 0;
}

static int read_place(const struct archive_repository *b, const struct blob_place *p, const char *what, char **ret,
		      size_t *ret_len, struct err *err)
{
	auto_archive_member struct archive_member_reader *r = NULL;
	if (p->size > OCI_DOCUMENT_MAX)
		return err_set(err, E_TOO_LARGE, "'%s' in '%s' has %llu bytes, more than the limit of %d", what,
			       b->repository.name, (unsigned long long)p->size, OCI_DOCUMENT_MAX);
	if (archive_member_open(b->fd, b->repository.name, p->at, &r, err) < 0)
		return -1;
	auto_str char *data = mem_alloc((size_t)p->size + 1);
	for (size_t len = 0; len < p->size;) {
		ssize_t n = archive_member_read(r, data + len, (size_t)p->size - len, err);
		if (n <= 0)
			return n < 0 ? -1 :
				       err_set(err, E_ARCHIVE, "'%s' in '%s' is truncated", what, b->repository.name);
		len += (size_t)n;
	}
	*ret = TAKE(data);
	*ret_len = (size_t)p->size;
	return 0;
}

static const struct blob_place *find_blob(const struct archive_repository *b, const char *hex)
{
	struct blob_place key = { .size = 0 };
	memcpy(key.digest, hex, sizeof(key.digest));
	return b->count ? bsearch(&key, b->blobs, b->count, sizeof(key), compare_places) : NULL;
}

// 1 = found, 0 = absent. The digest is checked here, also for a tag.
static int archive_read_blob(const struct archive_repository *b, const char *hex, char **ret, size_t *ret_len,
			     struct err *err)
{
	auto_str char *data = NULL;
	char found[DIGEST_HEX + 1];
	size_t len;
	const struct blob_place *p = find_blob(b, hex);
	if (!p)
		return 0;
	if (read_place(b, p, hex, &data, &len, err) < 0)
		return -1;
	digest_data(data, len, found);
	if (!str_eq(found, hex))
		return err_set(err, E_DIGEST, "'%s' in '%s' has the SHA-256 %s", hex, b->repository.name, found);
	*ret = TAKE(data);
	*ret_len = len;
	return 1;
}

static int archive_manifest(struct repository *r, const char *ref, char **ret, size_t *ret_len, struct err *err)
{
	const struct archive_repository *b = (struct archive_repository *)r;
	char hex[DIGEST_HEX + 1];
	if (oci_digest_parse(ref, hex))
		return archive_read_blob(b, hex, ret, ret_len, err);
	int i = oci_index_find(&b->index, ref);
	if (i < 0)
		return 0;
	int found = archive_read_blob(b, b->index.items[i].digest, ret, ret_len, err);
	return found ? found :
		       err_set(err, E_INCOMPLETE, "'%s' lists '%s', but sha256:%s is missing", r->name, ref,
			       b->index.items[i].digest);
}

static int archive_tags(struct repository *r, struct strv *ret, struct err *err)
{
	const struct archive_repository *b = (struct archive_repository *)r;
	(void)err;
	oci_index_tags(&b->index, ret);
	strv_sort(ret);
	return 0;
}

static int archive_untagged(struct repository *r, const char *artifact_type, struct strv *ret, struct err *err)
{
	(void)err;
	oci_index_untagged(&((struct archive_repository *)r)->index, artifact_type, ret);
	return 0;
}

static int archive_document(struct repository *r, const struct oci_descriptor *d, char **ret, size_t *ret_len,
			    struct err *err)
{
	const struct archive_repository *b = (struct archive_repository *)r;
	const struct blob_place *p = find_blob(b, d->digest);
	if (p && p->size != d->size)
		return err_set(err, E_DIGEST, "sha256:%s in '%s' has %llu bytes instead of %llu", d->digest, r->name,
			       (unsigned long long)p->size, (unsigned long long)d->size);
	return archive_read_blob(b, d->digest, ret, ret_len, err);
}

static int archive_referrers(struct repository *r, const char *hex, struct oci_index *ret, struct err *err)
{
	const struct archive_repository *b = (struct archive_repository *)r;
	auto_str char *tag = str_fmt("sha256-%s", hex), *text = NULL;
	auto_oci_index struct oci_index listed = { 0 };
	size_t len;
	(void)err; // an invalid list counts as none; the verifier reports missing signatures
	struct err ignored;
	if (archive_manifest(r, tag, &text, &len, &ignored) > 0)
		oci_index_parse(text, len, tag, &listed, &ignored);
	for (size_t i = 0; i < listed.count; i++)
		oci_index_put(ret, &listed.items[i], NULL);
	for (size_t i = 0; i < b->index.count; i++) {
		const struct oci_descriptor *d = &b->index.items[i];
		auto_str char *data = NULL;
		auto_oci_manifest struct oci_manifest m = { 0 };
		if (str_eq(d->media_type, OCI_MANIFEST) && archive_read_blob(b, d->digest, &data, &len, &ignored) > 0 &&
		    oci_manifest_parse(data, len, d->digest, &m, &ignored) == 0 && m.subject.media_type &&
		    str_eq(m.subject.digest, hex))
			oci_index_put(ret, d, NULL);
	}
	return 0;
}

struct blob_stream {
	struct archive_member_reader *reader;
	off_t from; // of the member
	uint64_t at;
};

static int archive_begin(struct repository *r, struct blob_transfer *t, struct err *err)
{
	struct archive_repository *b = (struct archive_repository *)r;
	const struct blob_place *p = find_blob(b, t->part->digest);
	struct archive_member_reader *reader = NULL;
	if (!p)
		return err_set(err, E_INCOMPLETE, "sha256:%s is not in '%s'", t->part->digest, r->name);
	if (archive_member_open(b->fd, r->name, p->at, &reader, err) < 0)
		return -1;
	struct blob_stream *s = mem_alloc(sizeof(*s));
	*s = (struct blob_stream){ .reader = reader, .from = p->at };
	t->own = s;
	b->active = mem_grow(b->active, b->active_count + 1, sizeof(struct blob_transfer *));
	b->active[b->active_count++] = t;
	return 0;
}

// One chunk. Bytes that the part already has are skipped.
static int archive_copy_chunk(const struct repository *r, const struct blob_transfer *t, char *buf, struct err *err)
{
	struct partial_blob *p = t->part;
	struct blob_stream *s = t->own;
	if (p->have == p->size)
		return 1;
	if (s->at > p->have) { // the part was restarted during the transfer
		struct archive_member_reader *again = NULL;
		if (archive_member_open(((const struct archive_repository *)r)->fd, r->name, s->from, &again, err) < 0)
			return -1;
		archive_member_free(s->reader);
		s->reader = again;
		s->at = 0;
	}
	ssize_t n = archive_member_read(s->reader, buf, CHUNK, err);
	if (n < 0)
		return -1;
	if (n == 0)
		return err_set(err, E_DIGEST, "sha256:%s has %llu bytes in '%s' instead of %llu", p->digest,
			       (unsigned long long)s->at, r->name, (unsigned long long)p->size);
	uint64_t from = s->at, to = s->at += (uint64_t)n;
	if (to <= p->have)
		return 0;
	uint64_t past = p->have - from;
	return partial_blob_append(p, buf + past, (size_t)(to - p->have), err) < 0 ? -1 : p->have == p->size;
}

static int archive_step(struct repository *r, struct err *err)
{
	const struct archive_repository *b = (struct archive_repository *)r;
	auto_str char *buf = mem_alloc(CHUNK);
	(void)err; // an error belongs to one transfer
	for (size_t i = 0; i < b->active_count; i++) {
		struct blob_transfer *t = b->active[i];
		if (!t->is_done)
			t->is_done = archive_copy_chunk(r, t, buf, &t->err) != 0;
	}
	return 0;
}

static void archive_end(struct repository *r, struct blob_transfer *t)
{
	struct archive_repository *b = (struct archive_repository *)r;
	struct blob_stream *s = TAKE(t->own);
	for (size_t i = 0; i < b->active_count; i++)
		if (b->active[i] == t)
			b->active[i] = b->active[--b->active_count];
	if (s)
		archive_member_free(s->reader);
	free(s);
}

static int archive_has_blob(struct repository *r, const char *hex, struct err *err)
{
	(void)err;
	return find_blob((struct archive_repository *)r, hex) != NULL;
}

static int archive_put_blob(struct repository *r, const struct layout *from, const struct oci_descriptor *d,
			    struct err *err)
{
	(void)from, (void)d;
	return err_set(err, E_USAGE, "'%s' is a bundle, which only `kmodsmith bundle create` can write", r->name);
}

static int archive_put_manifest(struct repository *r, const char *data, size_t len, const char *media_type,
				const char *tag, struct err *err)
{
	(void)data, (void)len, (void)media_type, (void)tag;
	return archive_put_blob(r, NULL, NULL, err);
}

static void archive_free(struct repository *r)
{
	struct archive_repository *b = (struct archive_repository *)r;
	oci_index_done(&b->index);
	free(b->blobs);
	free(b->active);
	if (b->fd >= 0)
		close(b->fd);
	free(r->name);
	free(b);
}

static const struct repository_ops ops = {
	.manifest = archive_manifest,
	.tags = archive_tags,
	.untagged = archive_untagged,
	.document = archive_document,
	.referrers = archive_referrers,
	.begin = archive_begin,
	.step = archive_step,
	.end = archive_end,
	.has_blob = archive_has_blob,
	.put_blob = archive_put_blob,
	.put_manifest = archive_put_manifest,
	.free = archive_free,
};

static int open_archive_file(const char *file, struct err *err)
{
	struct stat st;
	auto_fd int fd = file_open_arg(file, O_RDONLY | O_NONBLOCK, err);
	if (fd < 0)
		return err->code == ENOENT ? err_code(err, E_NOT_FOUND) : -1;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", file, err);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_ARCHIVE,
			       "'%s' is not a regular file; a bundle must be one, because it is read by seeking", file);
	return TAKE_FD(fd);
}

int repository_open_bundle(const char *file, const struct repository_options *options, struct repository **ret,
			   struct err *err)
{
	(void)options;
	struct archive_repository *b = mem_alloc(sizeof(*b));
	auto_repository struct repository *r = &b->repository;
	*r = (struct repository){ .ops = &ops, .name = repository_name(REPOSITORY_BUNDLE, file) };
	auto_str char *text = NULL, *index = str_fmt("index.json in %s", r->name);
	size_t len;
	b->fd = open_archive_file(file, err);
	if (b->fd < 0)
		return -1;
	if (archive_walk(b->fd, r->name, ENTRIES_MAX, index_member, b, err) < 0)
		return err->code == E_ARCHIVE ? err_wrap(err, "read it as a plain tar") : -1;
	if (b->count)
		qsort(b->blobs, b->count, sizeof(*b->blobs), compare_places);
	for (size_t i = 1; i < b->count; i++)
		if (compare_places(&b->blobs[i - 1], &b->blobs[i]) == 0)
			return refuse_duplicate(b, b->blobs[i].digest, err);
	if (!b->mark.size)
		return err_set(err, E_NOT_FOUND, "'%s' is not a bundle: it has no oci-layout", r->name);
	if (!b->index_file.size)
		return err_set(err, E_INCOMPLETE, "'%s' has no index.json", r->name);
	if (read_place(b, &b->index_file, "index.json", &text, &len, err) < 0 ||
	    oci_index_parse(text, len, index, &b->index, err) < 0)
		return -1;
	*ret = TAKE(r);
	return 0;
}

int repository_bundle_blobs(struct repository *r,
			    int (*each)(void *ctx, const char *hex, uint64_t size, const char *found, struct err *err),
			    void *ctx, struct err *err)
{
	const struct archive_repository *b = (struct archive_repository *)r;
	auto_str char *buf = mem_alloc(CHUNK);
	if (r->ops != &ops)
		return err_set(err, E_USAGE, "'%s' is not a bundle", r->name);
	for (size_t i = 0; i < b->count; i++) {
		const struct blob_place *p = &b->blobs[i];
		auto_archive_member struct archive_member_reader *reader = NULL;
		char found[DIGEST_HEX + 1];
		ssize_t n;
		if (archive_member_open(b->fd, r->name, p->at, &reader, err) < 0)
			return -1;
		struct digest *sum = digest_new();
		while ((n = archive_member_read(reader, buf, CHUNK, err)) > 0)
			digest_add(sum, buf, (size_t)n);
		digest_hex(sum, found);
		if (n < 0 || each(ctx, p->digest, p->size, found, err) < 0)
			return -1;
	}
	return 0;
}
