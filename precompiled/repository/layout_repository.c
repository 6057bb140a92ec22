// SPDX-License-Identifier: Apache-2.0
// A layout directory as a repository (oci:DIR). To read, it must exist; to write, it is created.
//
// Signatures of any writer are found: by the subject of each manifest in the index, and in the index under the fallback
// tag. Writing updates that tag, because a static server of the same files can only be queried by tag.
#include "precompiled/repository/repository.h"

#include "base/file/file.h"
#include "precompiled/oci/layout_view.h"

#include <errno.h>
#include <sys/stat.h>

enum { CHUNK = 256 << 10 };

struct layout_repository {
	struct repository repository;
	char *dir;
	struct layout layout;         // .root.fd -1 = not open
	const struct layout *current; // that, or the caller's
	struct blob_transfer **active;
	size_t count;
};

static int open_dir_layout(struct repository *r, struct err *err)
{
	struct layout_repository *d = (struct layout_repository *)r;
	auto_root struct root root = ROOT_NONE;
	if (d->current->root.fd >= 0)
		return 0;
	if (root_init(&root, d->dir, err) < 0)
		return err->code == ENOTDIR ? err_set(err, E_USAGE, "'%s' is a file, not an OCI layout", d->dir) :
		       err->code == ENOENT  ? err_code(err, E_NOT_FOUND) :
					      -1;
	return layout_open(&root, &d->layout, err);
}

static int open_dir_layout_to_write(struct repository *r, struct err *err)
{
	struct layout_repository *d = (struct layout_repository *)r;
	auto_root struct root root = ROOT_NONE;
	if (d->current->root.fd >= 0)
		return 0;
	return root_make(d->dir, &root, err) < 0 ? -1 : layout_make(&root, &d->layout, err);
}

// Only the digest is known, so the size comes from the file. 1 = read, 0 = absent.
static int dir_read_blob(const struct layout *l, const char *hex, char **ret, size_t *ret_len, struct err *err)
{
	struct oci_descriptor d = { 0 };
	struct stat st;
	memcpy(d.digest, hex, sizeof(d.digest));
	auto_fd int fd = layout_blob_open(l, hex, err);
	if (fd < 0)
		return err->code == E_NOT_FOUND ? 0 : -1;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", hex, err);
	d.size = (uint64_t)st.st_size;
	return layout_blob_read(l, &d, ret, ret_len, err) < 0 ? -1 : 1;
}

static int dir_manifest(struct repository *r, const char *ref, char **ret, size_t *ret_len, struct err *err)
{
	const struct layout *l = ((struct layout_repository *)r)->current;
	char hex[DIGEST_HEX + 1];
	const struct layout_view *v;
	if (open_dir_layout(r, err) < 0)
		return -1;
	if (oci_digest_parse(ref, hex))
		return dir_read_blob(l, hex, ret, ret_len, err);
	if (layout_view(l, &v, err) < 0)
		return -1;
	int i = layout_view_find(v, ref);
	if (i < 0)
		return 0;
	if (layout_blob_read(l, &v->index.items[i], ret, ret_len, err) == 0)
		return 1;
	return err->code == E_NOT_FOUND ? err_code(err, E_INCOMPLETE) : -1;
}

static int dir_tags(struct repository *r, struct strv *ret, struct err *err)
{
	const struct layout *l = ((struct layout_repository *)r)->current;
	const struct layout_view *v;
	if (open_dir_layout(r, err) < 0 || layout_view(l, &v, err) < 0)
		return -1;
	oci_index_tags(&v->index, ret);
	strv_sort(ret);
	return 0;
}

static int dir_untagged(struct repository *r, const char *artifact_type, struct strv *ret, struct err *err)
{
	const struct layout *l = ((struct layout_repository *)r)->current;
	const struct layout_view *v;
	if (open_dir_layout(r, err) < 0 || layout_view(l, &v, err) < 0)
		return -1;
	oci_index_untagged(&v->index, artifact_type, ret);
	return 0;
}

static int dir_document(struct repository *r, const struct oci_descriptor *d, char **ret, size_t *ret_len,
			struct err *err)
{
	const struct layout *l = ((struct layout_repository *)r)->current;
	if (open_dir_layout(r, err) < 0)
		return -1;
	if (layout_blob_read(l, d, ret, ret_len, err) == 0)
		return 1;
	return err->code == E_NOT_FOUND ? 0 : -1;
}

// Adds the entries of the index under the fallback tag, if it exists (d) and is valid.
static void add_fallback(const struct layout *l, const struct oci_descriptor *d, struct oci_index *ret)
{
	auto_str char *text = NULL;
	auto_oci_index struct oci_index listed = { 0 };
	size_t len;
	struct err ignored;
	if (!d || layout_blob_read(l, d, &text, &len, &ignored) < 0 ||
	    oci_index_parse(text, len, d->digest, &listed, &ignored) < 0)
		return;
	for (size_t k = 0; k < listed.count; k++)
		oci_index_put(ret, &listed.items[k], NULL);
}

static int dir_referrers(struct repository *r, const char *hex, struct oci_index *ret, struct err *err)
{
	const struct layout_view *v;
	const struct layout_subject *found;
	size_t count;
	auto_str char *tag = str_fmt("sha256-%s", hex);
	if (open_dir_layout(r, err) < 0)
		return -1;
	const struct layout *l = ((struct layout_repository *)r)->current;
	if (layout_referrers(l, hex, true, &v, &found, &count, err) < 0)
		return -1;
	int i = layout_view_find(v, tag);
	add_fallback(l, i < 0 ? NULL : &v->index.items[i], ret);
	for (size_t k = 0; k < count; k++)
		oci_index_put(ret, &v->index.items[found[k].at], NULL);
	return 0;
}

static int dir_begin(struct repository *r, struct blob_transfer *t, struct err *err)
{
	struct layout_repository *d = (struct layout_repository *)r;
	if (open_dir_layout(r, err) < 0)
		return -1;
	int fd = layout_blob_open(d->current, t->part->digest, err);
	if (fd < 0)
		return -1;
	int *own = mem_alloc(sizeof(*own));
	*own = fd;
	t->own = own;
	d->active = mem_grow(d->active, d->count + 1, sizeof(struct blob_transfer *));
	d->active[d->count++] = t;
	return 0;
}

// One chunk. The part checks the content.
static int dir_copy_chunk(const struct repository *r, const struct blob_transfer *t, char *buf, struct err *err)
{
	struct partial_blob *p = t->part;
	ssize_t n;
	if (p->have == p->size)
		return 1;
	do
		n = pread(*(const int *)t->own, buf, CHUNK, (off_t)p->have);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return file_fail("read", p->digest, err);
	if (n == 0)
		return err_set(err, E_DIGEST, "sha256:%s has %llu bytes in %s instead of %llu", p->digest,
			       (unsigned long long)p->have, r->name, (unsigned long long)p->size);
	return partial_blob_append(p, buf, (size_t)n, err) < 0 ? -1 : p->have == p->size;
}

static int dir_step(struct repository *r, struct err *err)
{
	const struct layout_repository *d = (struct layout_repository *)r;
	auto_str char *buf = mem_alloc(CHUNK);
	(void)err; // an error belongs to one transfer
	for (size_t i = 0; i < d->count; i++) {
		struct blob_transfer *t = d->active[i];
		if (!t->is_done)
			t->is_done = dir_copy_chunk(r, t, buf, &t->err) != 0;
	}
	return 0;
}

static void dir_end(struct repository *r, struct blob_transfer *t)
{
	struct layout_repository *d = (struct layout_repository *)r;
	int *own = TAKE(t->own);
	for (size_t i = 0; i < d->count; i++)
		if (d->active[i] == t)
			d->active[i] = d->active[--d->count];
	if (own)
		close(*own);
	free(own);
}

static int dir_has_blob(struct repository *r, const char *hex, struct err *err)
{
	if (open_dir_layout(r, err) < 0)
		return err->code == E_NOT_FOUND ? 0 : -1; // it is created by the first write
	return layout_has(((struct layout_repository *)r)->current, hex);
}

static int dir_put_blob(struct repository *r, const struct layout *from, const struct oci_descriptor *d,
			struct err *err)
{
	auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE;
	if (open_dir_layout_to_write(r, err) < 0)
		return -1;
	auto_fd int fd = layout_blob_open(from, d->digest, err);
	int done = fd < 0 ? -1 : partial_blob_open(((struct layout_repository *)r)->current, d, &p, err);
	if (done != 0)
		return done < 0 ? -1 : 0;
	auto_str char *buf = mem_alloc(CHUNK);
	const struct blob_transfer t = { .part = &p, .own = &fd };
	while (done == 0)
		done = dir_copy_chunk(r, &t, buf, err);
	return done < 0 ? -1 : partial_blob_commit(&p, err);
}

static int list_under_subject(const struct layout *l, struct oci_index *x, const struct oci_descriptor *d,
			      const char *subject, struct err *err)
{
	auto_str char *tag = str_fmt("sha256-%s", subject);
	auto_oci_index struct oci_index listed = { 0 };
	auto_oci_descriptor struct oci_descriptor its = { 0 };
	int at = oci_index_find(x, tag);
	add_fallback(l, at < 0 ? NULL : &x->items[at], &listed);
	oci_index_put(&listed, d, NULL);
	auto_str char *text = oci_index_text(&listed);
	if (layout_document_put(l, OCI_INDEX, text, &its, err) < 0)
		return -1;
	oci_index_drop(x, tag);
	oci_index_put(x, &its, tag);
	return 0;
}

static int dir_put_manifest(struct repository *r, const char *data, size_t len, const char *media_type, const char *tag,
			    struct err *err)
{
	const struct layout *l = ((struct layout_repository *)r)->current;
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(media_type), .size = len };
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_oci_index struct oci_index x = { 0 };
	if (str_eq(media_type, OCI_MANIFEST) && oci_manifest_parse(data, len, "the manifest", &m, err) < 0)
		return -1;
	// Other programs use these fields of the index entry, we read the manifest.
	d.artifact_type = str_dup(m.artifact_type ? m.artifact_type : m.config.media_type);
	d.annotations = json_deep_copy(m.annotations);
	auto_fd int held = open_dir_layout_to_write(r, err) < 0 ? -1 : layout_lock(l, false, err);
	if (held < 0 || layout_blob_put(l, data, len, d.digest, err) < 0 || layout_index(l, &x, err) < 0)
		return -1;
	oci_index_put(&x, &d, tag);
	if (m.subject.media_type && list_under_subject(l, &x, &d, m.subject.digest, err) < 0)
		return -1;
	return layout_index_write(l, &x, err);
}

static void dir_free(struct repository *r)
{
	struct layout_repository *d = (struct layout_repository *)r;
	layout_done(&d->layout);
	free(d->active);
	free(d->dir);
	free(r->name);
	free(d);
}

static const struct repository_ops ops = {
	.manifest = dir_manifest,
	.tags = dir_tags,
	.untagged = dir_untagged,
	.document = dir_document,
	.referrers = dir_referrers,
	.begin = dir_begin,
	.step = dir_step,
	.end = dir_end,
	.has_blob = dir_has_blob,
	.put_blob = dir_put_blob,
	.put_manifest = dir_put_manifest,
	.free = dir_free,
};

int repository_open_layout(const char *dir, const struct repository_options *options, struct repository **ret,
			   struct err *err)
{
	(void)options;
	if (!*dir)
		return err_set(err, E_USAGE, "'oci:' names no directory");
	struct layout_repository *d = mem_alloc(sizeof(*d));
	d->repository = (struct repository){ .ops = &ops, .name = repository_name(REPOSITORY_LAYOUT, dir) };
	d->dir = str_dup(dir);
	d->layout = LAYOUT_NONE;
	d->current = &d->layout;
	*ret = &d->repository;
	return 0;
}

struct repository *repository_of_layout(const struct layout *l)
{
	struct layout_repository *d = mem_alloc(sizeof(*d));
	d->repository = (struct repository){ .ops = &ops, .name = repository_name(REPOSITORY_LAYOUT, l->root.name) };
	d->layout = LAYOUT_NONE;
	d->current = l;
	return &d->repository;
}
