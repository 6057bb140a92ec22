// SPDX-License-Identifier: Apache-2.0
// A layout directory as a repository (oci:DIR). What is only read must exist; what is written is made.
//
// Signatures are found whoever wrote them: by the subject of each manifest in the index, and in the index under the
// fallback tag. Writing keeps that tag right, because a static server of the same files can only be asked by tag.
#include "precompiled/repository/repository.h"

#include "base/file/file.h"

#include <errno.h>
#include <sys/stat.h>

enum { CHUNK = 256 << 10 };

struct directory {
	struct repository repository;
	char *dir;
	struct layout layout; // .root.fd -1 = not open
	struct transfer **active;
	size_t count;
};

static int use(struct repository *r, struct err *err)
{
	struct directory *d = (struct directory *)r;
	auto_root struct root root = ROOT_NONE;
	if (d->layout.root.fd >= 0)
		return 0;
	if (root_init(&root, d->dir, err) < 0)
		return err->code == ENOENT ? err_code(err, E_NOT_FOUND) : -1;
	return layout_open(&root, &d->layout, err);
}

static int use_to_write(struct repository *r, struct err *err)
{
	struct directory *d = (struct directory *)r;
	auto_root struct root root = ROOT_NONE;
	if (d->layout.root.fd >= 0)
		return 0;
	return root_make(d->dir, &root, err) < 0 ? -1 : layout_make(&root, &d->layout, err);
}

static const struct layout *layout_of(const struct repository *r)
{
	return &((const struct directory *)r)->layout;
}

// The digest may be all that is known: the size is the file's.
static int measure(const struct layout *l, struct descriptor *d, struct err *err)
{
	struct stat st;
	auto_fd int fd = layout_blob_open(l, d->digest, err);
	if (fd < 0)
		return err->code == E_NOT_FOUND ? 0 : -1;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", d->digest, err);
	d->size = (uint64_t)st.st_size;
	return 1;
}

static int by_digest(const struct layout *l, const char *hex, char **ret, size_t *ret_len, struct err *err)
{
	struct descriptor d = { 0 };
	memcpy(d.digest, hex, sizeof(d.digest));
	int r = measure(l, &d, err);
	return r <= 0 ? r : layout_blob_read(l, &d, ret, ret_len, err) < 0 ? -1 : 1;
}

static int manifest(struct repository *r, const char *ref, char **ret, size_t *ret_len, struct err *err)
{
	char hex[DIGEST_HEX + 1];
	auto_index struct index x = { 0 };
	if (use(r, err) < 0)
		return -1;
	if (oci_digest_parse(ref, hex))
		return by_digest(layout_of(r), hex, ret, ret_len, err);
	if (layout_index(layout_of(r), &x, err) < 0)
		return -1;
	int i = index_find(&x, ref);
	if (i < 0)
		return 0;
	if (layout_blob_read(layout_of(r), &x.items[i], ret, ret_len, err) == 0)
		return 1;
	return err->code == E_NOT_FOUND ? err_code(err, E_INCOMPLETE) : -1;
}

static int tags(struct repository *r, struct strv *ret, struct err *err)
{
	auto_index struct index x = { 0 };
	if (use(r, err) < 0 || layout_index(layout_of(r), &x, err) < 0)
		return -1;
	for (size_t i = 0; i < x.count; i++) {
		const char *tag = descriptor_note(&x.items[i], OCI_REF_NAME);
		if (tag)
			strv_add(ret, str_dup(tag));
	}
	strv_sort(ret);
	return 0;
}

static int document(struct repository *r, const struct descriptor *d, char **ret, size_t *ret_len, struct err *err)
{
	if (use(r, err) < 0)
		return -1;
	if (layout_blob_read(layout_of(r), d, ret, ret_len, err) == 0)
		return 1;
	return err->code == E_NOT_FOUND ? 0 : -1;
}

static bool is_about(const struct layout *l, const struct descriptor *d, const char *hex)
{
	auto_str char *text = NULL;
	auto_manifest struct manifest m = { 0 };
	size_t len;
	struct err ignored;
	return str_eq(d->media_type, OCI_MANIFEST) && layout_blob_read(l, d, &text, &len, &ignored) == 0 &&
	       manifest_parse(text, len, d->digest, &m, &ignored) == 0 && m.subject.media_type &&
	       str_eq(m.subject.digest, hex);
}

// What the index under the fallback tag lists; nothing when there is none or it is unsound.
static void add_fallback(const struct layout *l, const struct index *all, const char *hex, struct index *ret)
{
	auto_str char *tag = str_fmt("sha256-%s", hex), *text = NULL;
	auto_index struct index listed = { 0 };
	size_t len;
	struct err ignored;
	int i = index_find(all, tag);
	if (i < 0 || layout_blob_read(l, &all->items[i], &text, &len, &ignored) < 0 ||
	    index_parse(text, len, tag, &listed, &ignored) < 0)
		return;
	for (size_t k = 0; k < listed.count; k++)
		index_put(ret, &listed.items[k], NULL);
}

static int referrers(struct repository *r, const char *hex, struct index *ret, struct err *err)
{
	auto_index struct index x = { 0 };
	if (use(r, err) < 0 || layout_index(layout_of(r), &x, err) < 0)
		return -1;
	add_fallback(layout_of(r), &x, hex, ret);
	for (size_t i = 0; i < x.count; i++)
		if (is_about(layout_of(r), &x.items[i], hex))
			index_put(ret, &x.items[i], NULL);
	return 0;
}

static int begin(struct repository *r, struct transfer *t, struct err *err)
{
	struct directory *d = (struct directory *)r;
	if (use(r, err) < 0)
		return -1;
	int fd = layout_blob_open(&d->layout, t->part->digest, err);
	if (fd < 0)
		return -1;
	int *own = mem_alloc(sizeof(*own));
	*own = fd;
	t->own = own;
	d->active = mem_grow(d->active, d->count + 1, sizeof(struct transfer *));
	d->active[d->count++] = t;
	return 0;
}

// One chunk. Whether its bytes are right is the part's matter.
static int move(const struct repository *r, const struct transfer *t, char *buf, struct err *err)
{
	struct part *p = t->part;
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
	return part_add(p, buf, (size_t)n, err) < 0 ? -1 : p->have == p->size;
}

static int step(struct repository *r, struct err *err)
{
	const struct directory *d = (struct directory *)r;
	auto_str char *buf = mem_alloc(CHUNK);
	(void)err; // what fails is one transfer
	for (size_t i = 0; i < d->count; i++) {
		struct transfer *t = d->active[i];
		if (!t->is_done)
			t->is_done = move(r, t, buf, &t->err) != 0;
	}
	return 0;
}

static void end(struct repository *r, struct transfer *t)
{
	struct directory *d = (struct directory *)r;
	int *own = TAKE(t->own);
	for (size_t i = 0; i < d->count; i++)
		if (d->active[i] == t)
			d->active[i] = d->active[--d->count];
	if (own)
		close(*own);
	free(own);
}

static int has_blob(struct repository *r, const char *hex, struct err *err)
{
	if (use(r, err) < 0)
		return err->code == E_NOT_FOUND ? 0 : -1; // it is made when something is written
	return layout_has(layout_of(r), hex);
}

static int put_blob(struct repository *r, const struct layout *from, const struct descriptor *d, struct err *err)
{
	auto_part struct part p = PART_NONE;
	if (use_to_write(r, err) < 0)
		return -1;
	auto_fd int fd = layout_blob_open(from, d->digest, err);
	int done = fd < 0 ? -1 : part_open(layout_of(r), d, &p, err);
	if (done != 0)
		return done < 0 ? -1 : 0;
	auto_str char *buf = mem_alloc(CHUNK);
	const struct transfer t = { .part = &p, .own = &fd };
	while (done == 0)
		done = move(r, &t, buf, err);
	return done < 0 ? -1 : part_commit(&p, err);
}

// How a manifest is listed. Others look at these fields, we open the manifest.
static int describe(const char *data, size_t len, const char *media_type, struct descriptor *ret, struct manifest *m,
		    struct err *err)
{
	if (str_eq(media_type, OCI_MANIFEST) && manifest_parse(data, len, "the manifest", m, err) < 0)
		return -1;
	const char *type = m->artifact_type ? m->artifact_type : m->config.media_type;
	ret->media_type = str_dup(media_type);
	ret->size = len;
	ret->artifact_type = str_dup(type);
	ret->annotations = json_deep_copy(m->annotations);
	return 0;
}

static int list_under_subject(const struct layout *l, struct index *x, const struct descriptor *d, const char *subject,
			      struct err *err)
{
	auto_str char *tag = str_fmt("sha256-%s", subject);
	auto_index struct index listed = { 0 };
	add_fallback(l, x, subject, &listed);
	index_put(&listed, d, NULL);
	auto_str char *text = index_text(&listed);
	auto_descriptor struct descriptor its = { .media_type = str_dup(OCI_INDEX), .size = strlen(text) };
	if (layout_blob_put(l, text, strlen(text), its.digest, err) < 0)
		return -1;
	int old = index_find(x, tag);
	if (old >= 0)
		index_drop(x, (size_t)old);
	index_put(x, &its, tag);
	return 0;
}

static int put_manifest(struct repository *r, const char *data, size_t len, const char *media_type, const char *tag,
			struct err *err)
{
	auto_descriptor struct descriptor d = { 0 };
	auto_manifest struct manifest m = { 0 };
	auto_index struct index x = { 0 };
	if (describe(data, len, media_type, &d, &m, err) < 0 || use_to_write(r, err) < 0)
		return -1;
	auto_fd int held = layout_lock(layout_of(r), false, err);
	if (held < 0 || layout_blob_put(layout_of(r), data, len, d.digest, err) < 0 ||
	    layout_index(layout_of(r), &x, err) < 0)
		return -1;
	index_put(&x, &d, tag);
	if (m.subject.media_type && list_under_subject(layout_of(r), &x, &d, m.subject.digest, err) < 0)
		return -1;
	return layout_index_write(layout_of(r), &x, err);
}

static void release(struct repository *r)
{
	struct directory *d = (struct directory *)r;
	layout_done(&d->layout);
	free(d->active);
	free(d->dir);
	free(r->name);
	free(d);
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

int repository_open_layout(const char *dir, struct repository **ret, struct err *err)
{
	if (!*dir)
		return err_set(err, E_USAGE, "'oci:' names no directory");
	struct directory *d = mem_alloc(sizeof(*d));
	d->repository = (struct repository){ .ops = &ops, .name = str_fmt("oci:%s", dir) };
	d->dir = str_dup(dir);
	d->layout = LAYOUT_NONE;
	*ret = &d->repository;
	return 0;
}
