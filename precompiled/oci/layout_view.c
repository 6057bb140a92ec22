// SPDX-License-Identifier: Apache-2.0
#include "precompiled/oci/layout_view.h"

#include <errno.h>
#include <fcntl.h>

static void empty_view(struct layout_view *v)
{
	close_fdp(&v->fd);
	oci_index_done(&v->index);
	free(v->tags);
	free(v->subjects);
	*v = (struct layout_view){ .fd = -1, .kept = v->kept };
}

struct layout_view *layout_view_new(void)
{
	struct layout_view *v = mem_alloc(sizeof(*v));
	v->fd = -1;
	return v;
}

void layout_view_free(struct layout_view *v)
{
	if (v) {
		empty_view(v);
		free(v->kept);
	}
	free(v);
}

void layout_view_keep(const struct layout *l, const struct oci_index *x)
{
	empty_view(l->view);
	free(l->view->kept);
	l->view->kept = oci_index_text(x);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int by_tag(const void *a, const void *b)
{
	const struct layout_tag *x = a, *y = b;
	int r = strcmp(x->tag, y->tag);
	return r ? r : x->at < y->at ? -1 : x->at > y->at;
}

static int by_subject(const void *a, const void *b)
{
	const struct layout_subject *x = a, *y = b;
	int r = memcmp(x->hex, y->hex, DIGEST_HEX);
	return r ? r : x->at < y->at ? -1 : x->at > y->at;
}

static void sort_tags(struct layout_view *v)
{
	v->tags = mem_alloc((v->index.count + 1) * sizeof(*v->tags));
	for (size_t i = 0; i < v->index.count; i++) {
		const char *tag = oci_descriptor_annotation(&v->index.items[i], OCI_REF_NAME);
		if (tag)
			v->tags[v->tag_count++] = (struct layout_tag){ tag, i };
	}
	qsort(v->tags, v->tag_count, sizeof(*v->tags), by_tag);
}

int layout_view(const struct layout *l, const struct layout_view **ret, struct err *err)
{
	struct layout_view *v = l->view;
	struct stat now;
	struct err ignored;
	*ret = v;
	if (v->kept && v->tags)
		return 0;
	if (v->fd >= 0 && root_stat(&l->root, LAYOUT_INDEX, &now, &ignored) > 0 && is_same_file(&now, &v->seen))
		return 0;
	empty_view(v);
	// Opened before it is read: what is read may then be newer, and is read again the next time.
	auto_fd int fd = root_open(&l->root, LAYOUT_INDEX, O_RDONLY, &ignored);
	if (fd >= 0 && fstat(fd, &now) < 0)
		return err_set(err, errno, "look at '%s/%s'", l->root.name, LAYOUT_INDEX);
	if (layout_index(l, &v->index, err) < 0)
		return -1;
	sort_tags(v);
	v->seen = now;
	v->fd = TAKE_FD(fd);
	return 0;
}

int layout_view_find(const struct layout_view *v, const char *tag)
{
	size_t low = 0, high = v->tag_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(v->tags[middle].tag, tag) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < v->tag_count && str_eq(v->tags[low].tag, tag) ? (int)v->tags[low].at : -1;
}

static void read_subjects(const struct layout *l, struct layout_view *v, bool with_tagged)
{
	free(v->subjects);
	v->subjects = mem_alloc((v->index.count + 1) * sizeof(*v->subjects));
	v->subject_count = 0;
	for (size_t i = 0; i < v->index.count; i++) {
		const struct oci_descriptor *d = &v->index.items[i];
		auto_oci_manifest struct oci_manifest m = { 0 };
		struct err ignored;
		if (!str_eq(d->media_type, OCI_MANIFEST) ||
		    (!with_tagged && oci_descriptor_annotation(d, OCI_REF_NAME)) ||
		    layout_manifest(l, d, d->digest, &m, &ignored) < 0 || !m.subject.media_type)
			continue;
		struct layout_subject *s = &v->subjects[v->subject_count++];
		memcpy(s->hex, m.subject.digest, sizeof(s->hex));
		s->at = i;
	}
	qsort(v->subjects, v->subject_count, sizeof(*v->subjects), by_subject);
	v->has_subjects = true;
	v->has_tagged = with_tagged;
}

int layout_referrers(const struct layout *l, const char *hex, bool with_tagged, const struct layout_view **ret_view,
		     const struct layout_subject **ret, size_t *ret_count, struct err *err)
{
	const struct layout_view *v;
	if (layout_view(l, &v, err) < 0)
		return -1;
	if (!v->has_subjects || (with_tagged && !v->has_tagged))
		read_subjects(l, l->view, with_tagged);
	size_t low = 0, high = v->subject_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (memcmp(v->subjects[middle].hex, hex, DIGEST_HEX) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (high = low; high < v->subject_count && str_eq(v->subjects[high].hex, hex);)
		high++;
	*ret_view = v;
	*ret = v->subjects + low;
	*ret_count = high - low;
	return 0;
}
