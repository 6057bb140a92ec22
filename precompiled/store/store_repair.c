// SPDX-License-Identifier: Apache-2.0
// The mark and the index of the store say nothing that its blobs do not say: where one of them lost its content, it is
// set aside and made again, so that no package has to be fetched, and no node is without its driver. What the blobs
// hold is checked by digest and signature when it is used, like anything else in the store.
#include "precompiled/oci/layout_view.h"
#include "precompiled/package/asset_key.h"
#include "precompiled/package/package.h"
#include "precompiled/store/store_internal.h"

#include "base/process/log.h"

#include <errno.h>

struct repair_blob {
	const char *hex;
	uint64_t size;
	struct timespec arrived;
};

void store_set_aside(const struct store *s, const char *from, const char *to)
{
	struct err ignored;
	auto_str char *path = str_fmt(STORE_QUARANTINE "/%s", to);
	if (root_mkdirs(&s->state, STORE_QUARANTINE, 0755, &ignored) == 0 &&
	    root_rmtree(&s->state, path, &ignored) >= 0)
		root_rename(&s->state, from, path, &ignored);
}

// A package and an asset go under their tags, a signature by its subject; other blobs are needed only through these.
static void add_to_new_index(const struct layout *l, const struct repair_blob *b, struct oci_index *x)
{
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST), .size = b->size };
	auto_package struct package p = PACKAGE_NONE;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_str char *tag = NULL;
	struct err ignored;
	memcpy(d.digest, b->hex, sizeof(d.digest));
	if (package_read(l, &d, &p, &ignored) > 0) {
		tag = package_tag(&p.key);
		d.artifact_type = str_dup(PACKAGE_TYPE);
	} else if (layout_manifest(l, &d, b->hex, &m, &ignored) < 0) {
		return;
	} else {
		tag = asset_tag_of(&m);
		d.artifact_type = str_dup(m.artifact_type);
	}
	if (tag || m.subject.media_type)
		oci_index_put(x, &d, tag);
}

static int by_arrival(const void *a, const void *b)
{
	const struct timespec *x = &((const struct repair_blob *)a)->arrived,
			      *y = &((const struct repair_blob *)b)->arrived;
	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

// In the order in which they came: of several packages with one tag, the last one has it.
static int collect_index(const struct layout *l, struct oci_index *ret, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(&l->root, LAYOUT_BLOBS, &names, err) < 0)
		return -1;
	struct repair_blob *blobs = mem_alloc((names.count + 1) * sizeof(*blobs));
	size_t count = 0;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = layout_blob_path(names.items[i]);
		struct stat st;
		struct err ignored;
		if (digest_is_hex(names.items[i]) && root_stat(&l->root, path, &st, &ignored) > 0 &&
		    S_ISREG(st.st_mode) && st.st_size <= OCI_DOCUMENT_MAX)
			blobs[count++] = (struct repair_blob){ names.items[i], (uint64_t)st.st_size, st.st_mtim };
	}
	qsort(blobs, count, sizeof(*blobs), by_arrival);
	for (size_t i = 0; i < count; i++)
		add_to_new_index(l, &blobs[i], ret);
	free(blobs);
	return 0;
}

static int check_layout(struct store *s, const struct root *dir, struct err *err)
{
	const struct layout_view *view;
	layout_done(&s->layout);
	return layout_open(dir, &s->layout, err) < 0 || layout_view(&s->layout, &view, err) < 0 ? -1 : 0;
}

static bool is_damage(int code)
{
	static const int codes[] = { E_NOT_FOUND, E_MANIFEST, E_TOO_LARGE, EISDIR, EINVAL, ELOOP, ENXIO, EIO };
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (code == codes[i])
			return true;
	return false;
}

static void note_repair(struct store *s, const char *name, const struct err *why)
{
	strv_add(&s->repaired, str_fmt("%s %s", name, why->text));
}

// Keeps the index in memory when the disk cannot be written.
static int repair_index(struct store *s, struct err *err)
{
	auto_oci_index struct oci_index old = { 0 }, x = { 0 };
	struct err why;
	if (layout_index(&s->layout, &old, &why) == 0)
		return 0;
	if (!is_damage(why.code)) {
		*err = why;
		return -1;
	}
	if (collect_index(&s->layout, &x, err) < 0)
		return -1;
	store_set_aside(s, STORE_DIR "/" LAYOUT_INDEX, LAYOUT_INDEX);
	note_repair(s, LAYOUT_INDEX, &why);
	if (layout_index_write(&s->layout, &x, err) < 0)
		layout_view_keep(&s->layout, &x);
	return 0;
}

// The mark comes last: with it the store is whole.
static int repair_mark(struct store *s, const struct root *dir, struct err *err)
{
	auto_layout struct layout marked = LAYOUT_NONE;
	struct err why;
	if (layout_open(dir, &marked, &why) == 0)
		return 0;
	store_set_aside(s, STORE_DIR "/" LAYOUT_MARK, LAYOUT_MARK);
	note_repair(s, LAYOUT_MARK, &why);
	return layout_mark(dir, err);
}

int store_check(const struct root *state, struct err *err)
{
	auto_store struct store s = STORE_NONE;
	auto_store_roots struct store_roots roots = { 0 };
	auto_root struct root dir = ROOT_NONE;
	if (!store_exists(state))
		return 0;
	if (root_sub(state, ".", &s.state, err) < 0 || root_sub(state, STORE_DIR, &dir, err) < 0)
		return -1;
	if (check_layout(&s, &dir, err) < 0)
		return err_code(err, is_damage(err->code) ? E_STORE_CORRUPT : err->code);
	return store_roots(&s, &roots, err);
}

// Nothing of it is lost: the store is new, or whoever began it was killed before the mark, which comes last.
static bool is_store_new(const struct root *dir)
{
	struct err ignored;
	struct stat st;
	auto_strv struct strv blobs = { 0 };
	root_list(dir, LAYOUT_BLOBS, &blobs, &ignored);
	return !blobs.count && root_stat(dir, LAYOUT_MARK, &st, &ignored) <= 0;
}

int store_open_layout(struct store *s, const struct root *dir, struct err *err)
{
	const struct layout here = { .root = *dir };
	if (check_layout(s, dir, err) == 0)
		return 0;
	if (!is_damage(err->code))
		return -1;
	bool is_new = is_store_new(dir);
	struct err unwritten = { 0 };
	auto_fd int held = layout_lock(&here, false, &unwritten); // on a read-only disk there are no other writers
	if (held < 0 && (is_new || unwritten.code == E_LOCKED)) {
		*err = unwritten;
		return -1;
	}
	if (held >= 0 && check_layout(s, dir, err) == 0) // another process was quicker
		return 0;
	layout_done(&s->layout);
	if ((root_mkdirs(dir, LAYOUT_BLOBS, 0755, err) < 0 && is_new) || layout_at(dir, &s->layout, err) < 0 ||
	    repair_index(s, err) < 0)
		return -1;
	if (repair_mark(s, dir, &unwritten) < 0 && is_new) {
		*err = unwritten;
		return -1;
	}
	if (is_new) {
		strv_done(&s->repaired);
		return 0;
	}
	auto_str char *all = strv_join(&s->repaired, "; ");
	log_warn("the store '%s' was damaged, and is made whole from its packages%s: %s", dir->name,
		 unwritten.code ? ", in memory only" : "", all);
	return 0;
}
