// SPDX-License-Identifier: Apache-2.0
// A bundle as a repository (oci-archive:FILE): a layout as a plain tar. Its headers are read once; blobs are then read
// where they lie, and nothing is unpacked.
//
// A bundle comes from outside. A name that comes twice is refused, because two readers could take different ones.
#include "base/archive/archive.h"
#include "base/file/file.h"
#include "precompiled/repository/repository.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { CHUNK = 256 << 10, ENTRIES_MAX = 100000 };
static const char BLOBS[] = "blobs/sha256/";

struct place {
	char digest[DIGEST_HEX + 1];
	off_t at;
	uint64_t size;
};

struct bundle {
	struct repository repository;
	int fd;
	struct place mark, index_file; // .size 0 = absent
	struct place *blobs;           // sorted by digest
	size_t count, room;
	struct index index;
	struct transfer **active;
	size_t active_count;
};

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct place *)a)->digest, ((const struct place *)b)->digest);
}

static int refuse_twice(const struct bundle *b, const char *name, struct err *err)
{
	return err_set(err, E_ARCHIVE_UNSAFE, "'%s' has '%s' twice", b->repository.name, name);
}

static int set_place(const struct bundle *b, struct place *p, const struct archive_member *m, struct err *err)
{
	if (p->size)
		return refuse_twice(b, m->name, err);
	p->at = m->at;
	p->size = m->size;
	return 0;
}

static int visit(void *ctx, const struct archive_member *m, struct err *err)
{
	struct bundle *b = ctx;
	if (!m->is_file)
		return 0;
	if (str_eq(m->name, "oci-layout"))
		return set_place(b, &b->mark, m, err);
	if (str_eq(m->name, "index.json"))
		return set_place(b, &b->index_file, m, err);
	if (!str_starts(m->name, BLOBS) || !digest_is_hex(m->name + strlen(BLOBS)))
		return 0;
	if (b->count == b->room)
		b->blobs = mem_grow(b->blobs, b->room = b->room ? 2 * b->room : 64, sizeof(*b->blobs));
	struct place *p = &b->blobs[b->count++];
	*p = (struct place){ .at = m->at, .size = m->size };
	memcpy(p->digest, m->name + strlen(BLOBS), sizeof(p->digest));
	return 0;
}

static int sort(const struct bundle *b, struct err *err)
{
	if (b->count)
		qsort(b->blobs, b->count, sizeof(*b->blobs), compare);
	for (size_t i = 1; i < b->count; i++)
		if (compare(&b->blobs[i - 1], &b->blobs[i]) == 0)
			return refuse_twice(b, b->blobs[i].digest, err);
	return 0;
}

static int read_whole(const struct bundle *b, const struct place *p, const char *what, char **ret, size_t *ret_len,
		      struct err *err)
{
	auto_archive_member struct archive_member_reader *r = NULL;
	if (p->size > OCI_DOCUMENT_MAX)
		return err_set(err, E_TOO_LARGE, "'%s' in '%s' has %llu bytes, at most %d are read", what,
			       b->repository.name, (unsigned long long)p->size, OCI_DOCUMENT_MAX);
	if (archive_member_open(b->fd, b->repository.name, p->at, &r, err) < 0)
		return -1;
	auto_str char *data = mem_alloc((size_t)p->size + 1);
	for (size_t len = 0; len < p->size;) {
		ssize_t n = archive_member_read(r, data + len, (size_t)p->size - len, err);
		if (n <= 0)
			return n < 0 ? -1 :
				       err_set(err, E_ARCHIVE, "'%s' in '%s' is cut short", what, b->repository.name);
		len += (size_t)n;
	}
	*ret = TAKE(data);
	*ret_len = (size_t)p->size;
	return 0;
}

static int read_index(struct bundle *b, struct err *err)
{
	auto_str char *text = NULL, *name = str_fmt("index.json in %s", b->repository.name);
	size_t len;
	if (!b->mark.size)
		return err_set(err, E_NOT_FOUND, "'%s' is no bundle: it has no oci-layout", b->repository.name);
	if (!b->index_file.size)
		return err_set(err, E_INCOMPLETE, "'%s' has no index.json", b->repository.name);
	if (read_whole(b, &b->index_file, "index.json", &text, &len, err) < 0)
		return -1;
	return index_parse(text, len, name, &b->index, err);
}

static const struct place *find(const struct bundle *b, const char *hex)
{
	struct place key = { .size = 0 };
	memcpy(key.digest, hex, sizeof(key.digest));
	return b->count ? bsearch(&key, b->blobs, b->count, sizeof(key), compare) : NULL;
}

// 1 = found, 0 = absent. The digest is compared here, for a tag as well.
static int by_digest(const struct bundle *b, const char *hex, char **ret, size_t *ret_len, struct err *err)
{
	auto_str char *data = NULL;
	char found[DIGEST_HEX + 1];
	size_t len;
	const struct place *p = find(b, hex);
	if (!p)
		return 0;
	if (read_whole(b, p, hex, &data, &len, err) < 0)
		return -1;
	digest_data(data, len, found);
	if (!str_eq(found, hex))
		return err_set(err, E_DIGEST, "'%s' in '%s' has the SHA-256 %s", hex, b->repository.name, found);
	*ret = TAKE(data);
	*ret_len = len;
	return 1;
}

static int manifest(struct repository *r, const char *ref, char **ret, size_t *ret_len, struct err *err)
{
	const struct bundle *b = (struct bundle *)r;
	char hex[DIGEST_HEX + 1];
	if (oci_digest_parse(ref, hex))
		return by_digest(b, hex, ret, ret_len, err);
	int i = index_find(&b->index, ref);
	if (i < 0)
		return 0;
	int found = by_digest(b, b->index.items[i].digest, ret, ret_len, err);
	return found ? found :
		       err_set(err, E_INCOMPLETE, "'%s' lists '%s', but sha256:%s is not in it", r->name, ref,
			       b->index.items[i].digest);
}

static int tags(struct repository *r, struct strv *ret, struct err *err)
{
	const struct bundle *b = (struct bundle *)r;
	(void)err;
	for (size_t i = 0; i < b->index.count; i++) {
		const char *tag = descriptor_note(&b->index.items[i], OCI_REF_NAME);
		if (tag)
			strv_add(ret, str_dup(tag));
	}
	strv_sort(ret);
	return 0;
}

static int document(struct repository *r, const struct descriptor *d, char **ret, size_t *ret_len, struct err *err)
{
	const struct bundle *b = (struct bundle *)r;
	const struct place *p = find(b, d->digest);
	if (p && p->size != d->size)
		return err_set(err, E_DIGEST, "sha256:%s in '%s' has %llu bytes instead of %llu", d->digest, r->name,
			       (unsigned long long)p->size, (unsigned long long)d->size);
	return by_digest(b, d->digest, ret, ret_len, err);
}

static bool is_about(const struct bundle *b, const struct descriptor *d, const char *hex)
{
	auto_str char *text = NULL;
	auto_manifest struct manifest m = { 0 };
	size_t len;
	struct err ignored;
	return str_eq(d->media_type, OCI_MANIFEST) && by_digest(b, d->digest, &text, &len, &ignored) > 0 &&
	       manifest_parse(text, len, d->digest, &m, &ignored) == 0 && m.subject.media_type &&
	       str_eq(m.subject.digest, hex);
}

static int referrers(struct repository *r, const char *hex, struct index *ret, struct err *err)
{
	const struct bundle *b = (struct bundle *)r;
	auto_str char *tag = str_fmt("sha256-%s", hex), *text = NULL;
	auto_index struct index listed = { 0 };
	size_t len;
	(void)err; // an unsound list is none; signatures that are missing are the verifier's to report
	struct err ignored;
	if (manifest(r, tag, &text, &len, &ignored) > 0)
		index_parse(text, len, tag, &listed, &ignored);
	for (size_t i = 0; i < listed.count; i++)
		index_put(ret, &listed.items[i], NULL);
	for (size_t i = 0; i < b->index.count; i++)
		if (is_about(b, &b->index.items[i], hex))
			index_put(ret, &b->index.items[i], NULL);
	return 0;
}

struct stream {
	struct archive_member_reader *reader;
	off_t from; // of the member
	uint64_t at;
};

static int begin(struct repository *r, struct transfer *t, struct err *err)
{
	struct bundle *b = (struct bundle *)r;
	const struct place *p = find(b, t->part->digest);
	struct archive_member_reader *reader = NULL;
	if (!p)
		return err_set(err, E_INCOMPLETE, "sha256:%s is not in '%s'", t->part->digest, r->name);
	if (archive_member_open(b->fd, r->name, p->at, &reader, err) < 0)
		return -1;
	struct stream *s = mem_alloc(sizeof(*s));
	*s = (struct stream){ .reader = reader, .from = p->at };
	t->own = s;
	b->active = mem_grow(b->active, b->active_count + 1, sizeof(struct transfer *));
	b->active[b->active_count++] = t;
	return 0;
}

// The part was emptied under way.
static int rewind_stream(const struct repository *r, struct stream *s, struct err *err)
{
	struct archive_member_reader *again = NULL;
	if (archive_member_open(((const struct bundle *)r)->fd, r->name, s->from, &again, err) < 0)
		return -1;
	archive_member_free(s->reader);
	s->reader = again;
	s->at = 0;
	return 0;
}

// One chunk. What the part already has is read past.
static int move(const struct repository *r, const struct transfer *t, char *buf, struct err *err)
{
	struct part *p = t->part;
	struct stream *s = t->own;
	if (p->have == p->size)
		return 1;
	if (s->at > p->have && rewind_stream(r, s, err) < 0)
		return -1;
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
	return part_add(p, buf + past, (size_t)(to - p->have), err) < 0 ? -1 : p->have == p->size;
}

static int step(struct repository *r, struct err *err)
{
	const struct bundle *b = (struct bundle *)r;
	auto_str char *buf = mem_alloc(CHUNK);
	(void)err; // what fails is one transfer
	for (size_t i = 0; i < b->active_count; i++) {
		struct transfer *t = b->active[i];
		if (!t->is_done)
			t->is_done = move(r, t, buf, &t->err) != 0;
	}
	return 0;
}

static void end(struct repository *r, struct transfer *t)
{
	struct bundle *b = (struct bundle *)r;
	struct stream *s = TAKE(t->own);
	for (size_t i = 0; i < b->active_count; i++)
		if (b->active[i] == t)
			b->active[i] = b->active[--b->active_count];
	if (s)
		archive_member_free(s->reader);
	free(s);
}

static int has_blob(struct repository *r, const char *hex, struct err *err)
{
	(void)err;
	return find((struct bundle *)r, hex) != NULL;
}

static int put_blob(struct repository *r, const struct layout *from, const struct descriptor *d, struct err *err)
{
	(void)from, (void)d;
	return err_set(err, E_USAGE, "'%s' is a bundle: it is made whole by `kmodsmith bundle create`", r->name);
}

static int put_manifest(struct repository *r, const char *data, size_t len, const char *media_type, const char *tag,
			struct err *err)
{
	(void)data, (void)len, (void)media_type, (void)tag;
	return put_blob(r, NULL, NULL, err);
}

static void release(struct repository *r)
{
	struct bundle *b = (struct bundle *)r;
	index_done(&b->index);
	free(b->blobs);
	free(b->active);
	if (b->fd >= 0)
		close(b->fd);
	free(r->name);
	free(b);
}

static const struct repository_ops ops = {
	.manifest = manifest,
	.tags = tags,
	.document = document,
	.referrers = referrers,
	.begin = begin,
	.step = step,
	.end = end,
	.has_blob = has_blob,
	.put_blob = put_blob,
	.put_manifest = put_manifest,
	.free = release,
};

static int open_file(const char *file, struct err *err)
{
	struct stat st;
	auto_fd int fd = file_open_arg(file, O_RDONLY | O_NONBLOCK, err);
	if (fd < 0)
		return err->code == ENOENT ? err_code(err, E_NOT_FOUND) : -1;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", file, err);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_ARCHIVE,
			       "'%s' is no regular file; a bundle must be, because it is read by seeking", file);
	return TAKE_FD(fd);
}

static int open_bundle(struct bundle *b, const char *file, struct err *err)
{
	b->fd = open_file(file, err);
	if (b->fd < 0)
		return -1;
	if (archive_walk(b->fd, b->repository.name, ENTRIES_MAX, visit, b, err) < 0)
		return err->code == E_ARCHIVE ? err_wrap(err, "read it as a plain tar") : -1;
	return sort(b, err) < 0 ? -1 : read_index(b, err);
}

int repository_open_bundle(const char *file, struct repository **ret, struct err *err)
{
	struct bundle *b = mem_alloc(sizeof(*b));
	b->repository = (struct repository){ .ops = &ops, .name = str_fmt("oci-archive:%s", file) };
	if (open_bundle(b, file, err) < 0) {
		release(&b->repository);
		return -1;
	}
	*ret = &b->repository;
	return 0;
}

static int digest_blob(const struct bundle *b, const struct place *p, char *buf, char ret[DIGEST_HEX + 1],
		       struct err *err)
{
	auto_archive_member struct archive_member_reader *r = NULL;
	ssize_t n;
	if (archive_member_open(b->fd, b->repository.name, p->at, &r, err) < 0)
		return -1;
	struct digest *sum = digest_new();
	while ((n = archive_member_read(r, buf, CHUNK, err)) > 0)
		digest_add(sum, buf, (size_t)n);
	digest_hex(sum, ret);
	return n < 0 ? -1 : 0;
}

int repository_bundle_blobs(struct repository *r,
			    int (*each)(void *ctx, const char *hex, uint64_t size, const char *found, struct err *err),
			    void *ctx, struct err *err)
{
	const struct bundle *b = (struct bundle *)r;
	auto_str char *buf = mem_alloc(CHUNK);
	if (r->ops != &ops)
		return err_set(err, E_USAGE, "'%s' is no bundle", r->name);
	for (size_t i = 0; i < b->count; i++) {
		char found[DIGEST_HEX + 1];
		if (digest_blob(b, &b->blobs[i], buf, found, err) < 0 ||
		    each(ctx, b->blobs[i].digest, b->blobs[i].size, found, err) < 0)
			return -1;
	}
	return 0;
}
