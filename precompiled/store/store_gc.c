// SPDX-License-Identifier: Apache-2.0
// Removes packages that are not roots and not for a kernel that the node could boot, with their signatures, and cores
// that were fetched and of whose driver no package stays: a compile fetches one again. Other content (a catalogue,
// headers) stays.
//
// Order: first the new index, then unreferenced blobs, then the files of unfinished transfers. After a kill in between,
// the store has unreferenced blobs, which the next collection removes.
#include "precompiled/oci/closure.h"
#include "precompiled/package/asset.h"
#include "precompiled/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/statvfs.h>

struct gc_item {
	bool is_package, is_core, is_candidate, is_dropped;
	char *driver;               // of a package or a core; NULL = other content
	char about[DIGEST_HEX + 1]; // the package that it signs; "" = not a signature
	struct timespec arrived;
};

struct gc_run {
	const struct store *store;
	struct oci_index index;
	struct gc_item *items; // of the index
	size_t *oldest;        // candidates, oldest first
	size_t candidates;
	struct closure needed;
};

static void gc_run_done(struct gc_run *w)
{
	for (size_t i = 0; w->items && i < w->index.count; i++)
		free(w->items[i].driver);
	oci_index_done(&w->index);
	closure_done(&w->needed);
	free(w->items);
	free(w->oldest);
}
#define auto_gc_run __attribute__((cleanup(gc_run_done)))

static bool is_reused(const struct store_roots *roots, const char *hex, const struct strv *kernels)
{
	for (size_t i = 0; i < roots->reuse_count; i++)
		if (str_eq(roots->reuses[i].digest, hex) && strv_has(kernels, roots->reuses[i].release))
			return true;
	return false;
}

static bool is_fetched(const struct layout *l, const char *hex)
{
	static const struct trust_now nobody;
	auto_provenance struct provenance p = { 0 };
	struct err ignored;
	provenance_check(l, hex, &nobody, &p, &ignored);
	return p.is_recorded && (p.origin == PROVENANCE_FETCHED || p.origin == PROVENANCE_UNVERIFIED);
}

static void classify_entry(const struct gc_run *w, size_t i, const struct store_roots *roots,
			   const struct strv *kernels)
{
	static const char PREFIX[] = "sha256-";
	const struct layout *l = &w->store->layout;
	const struct oci_descriptor *d = &w->index.items[i];
	struct gc_item *item = &w->items[i];
	const char *tag = oci_descriptor_annotation(d, OCI_REF_NAME);
	auto_package struct package p = PACKAGE_NONE;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_str char *path = layout_blob_path(d->digest),
		      *about = tag && str_starts(tag, PREFIX) ?
				       str_ndup(tag + strlen(PREFIX), strnlen(tag + strlen(PREFIX), DIGEST_HEX)) :
				       NULL;
	struct stat st;
	struct err ignored;
	item->is_package = package_read(l, d, &p, &ignored) > 0;
	// A signature, by its tag, sha256-HEX or sha256-HEX.sig, or by its subject.
	if (!item->is_package && about && digest_is_hex(about))
		memcpy(item->about, about, DIGEST_HEX + 1);
	else if (!item->is_package && str_eq(d->media_type, OCI_MANIFEST) &&
		 layout_manifest(l, d, d->digest, &m, &ignored) == 0 && m.subject.media_type)
		memcpy(item->about, m.subject.digest, DIGEST_HEX + 1);
	item->is_core = str_eq(m.artifact_type, ASSET_CORE.type);
	const char *driver =
		item->is_core ? json_string_value(json_object_get(m.annotations, "io.kmodsmith.driver")) : p.key.driver;
	item->driver = driver ? str_dup(driver) : NULL;
	item->is_candidate = item->is_package ?
				     !store_roots_has(roots, d->digest) && !strv_has(kernels, p.key.release) &&
					     !is_reused(roots, d->digest, kernels) :
				     item->is_core && is_fetched(l, d->digest);
	if (root_stat(&l->root, path, &st, &ignored) > 0)
		item->arrived = st.st_mtim;
}

static int by_arrival(const void *a, const void *b, void *items)
{
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	const struct timespec *x = &((struct gc_item *)items)[i].arrived, *y = &((struct gc_item *)items)[k].arrived;
	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	if (x->tv_nsec != y->tv_nsec)
		return x->tv_nsec < y->tv_nsec ? -1 : 1;
	return i < k ? -1 : i > k;
}

static bool is_core_needed(const struct gc_run *w, const struct gc_item *core)
{
	for (size_t i = 0; i < w->index.count; i++)
		if (w->items[i].is_package && !w->items[i].is_candidate && str_eq(w->items[i].driver, core->driver))
			return true;
	return false;
}

static int gc_run_open(const struct store *s, const struct strv *kernels, struct gc_run *w, struct err *err)
{
	auto_store_roots struct store_roots roots = { 0 };
	w->store = s;
	if (layout_index(&s->layout, &w->index, err) < 0 || store_roots(s, &roots, err) < 0)
		return -1;
	w->items = mem_alloc((w->index.count + 1) * sizeof(*w->items));
	w->oldest = mem_alloc((w->index.count + 1) * sizeof(*w->oldest));
	for (size_t i = 0; i < w->index.count; i++)
		classify_entry(w, i, &roots, kernels);
	for (size_t i = 0; i < w->index.count; i++) {
		struct gc_item *item = &w->items[i];
		item->is_candidate &= !item->is_core || !is_core_needed(w, item);
		if (item->is_candidate)
			w->oldest[w->candidates++] = i;
	}
	qsort_r(w->oldest, w->candidates, sizeof(*w->oldest), by_arrival, w->items);
	return 0;
}

// Drops the oldest `count` candidates, and signatures of packages that are not in the store.
static int drop_oldest(struct gc_run *w, size_t count, struct err *err)
{
	struct strv kept = { .items = mem_alloc((w->index.count + 1) *
						sizeof(*kept.items)) }; // its strings are the index's
	int r = 0;
	closure_done(&w->needed);
	for (size_t i = 0; i < w->candidates; i++)
		w->items[w->oldest[i]].is_dropped = i < count;
	for (size_t i = 0; i < w->index.count; i++)
		if (!w->items[i].is_dropped && !*w->items[i].about)
			kept.items[kept.count++] = w->index.items[i].digest;
	strv_sort(&kept);
	for (size_t i = 0; i < w->index.count && r == 0; i++) {
		struct gc_item *item = &w->items[i];
		if (*item->about)
			item->is_dropped = !strv_has_sorted(&kept, item->about);
		if (!item->is_dropped)
			r = closure_add(&w->store->layout, &w->index.items[i], &w->needed, err);
	}
	closure_sort(&w->needed);
	free(kept.items);
	return r;
}

static bool is_part(const char *name)
{
	return name[0] == '.';
}

// 1 = removed, or would be; 0 = another process is writing it.
static int remove_blob_file(const struct gc_run *w, const char *name, bool is_dry, struct store_garbage *g,
			    struct err *err)
{
	const struct root *root = &w->store->layout.root;
	auto_str char *path = str_fmt(LAYOUT_BLOBS "/%s", name);
	struct stat st;
	auto_fd int fd = -1;
	int r = root_stat(root, path, &st, err);
	if (r <= 0)
		return r;
	if (is_part(name) && S_ISREG(st.st_mode)) {
		fd = root_open(root, path, O_RDWR | O_NOFOLLOW, err);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			return 0;
	}
	if (!is_dry && root_unlink(root, path, err) < 0)
		return -1;
	g->bytes += (uint64_t)st.st_size;
	*(is_part(name) ? &g->parts : &g->blobs) += 1;
	return 1;
}

static int write_kept_index(const struct gc_run *w, struct err *err)
{
	struct oci_index rest = { .items = mem_alloc((w->index.count + 1) * sizeof(*rest.items)) }; // of the old one
	for (size_t i = 0; i < w->index.count; i++)
		if (!w->items[i].is_dropped)
			rest.items[rest.count++] = w->index.items[i];
	int r = rest.count == w->index.count ? 0 : layout_index_write(&w->store->layout, &rest, err);
	free(rest.items);
	return r;
}

static int drop_and_remove(const struct gc_run *w, bool is_dry, struct store_garbage *ret, struct err *err)
{
	const struct root *root = &w->store->layout.root;
	auto_store_garbage struct store_garbage g = { 0 };
	auto_strv struct strv names = { 0 }, blobs = { 0 };
	for (size_t i = 0; i < w->index.count; i++) {
		const struct oci_descriptor *d = &w->index.items[i];
		const char *tag = oci_descriptor_annotation(d, OCI_REF_NAME);
		if (w->items[i].is_dropped && (w->items[i].is_package || w->items[i].is_core))
			strv_add(&g.packages, str_fmt("%s%ssha256:%s", tag ? tag : "", tag ? " " : "", d->digest));
	}
	if (!is_dry && write_kept_index(w, err) < 0)
		return -1;
	// Left by a process killed while writing a document: no other process is here, and such a name is used once.
	if (!is_dry && root_list(root, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (names.items[i][0] == '.' && str_ends(names.items[i], ".tmp") &&
		    root_unlink(root, names.items[i], err) < 0)
			return -1;
	if (root_list(root, LAYOUT_BLOBS, &blobs, err) < 0)
		return -1;
	for (int parts = 0; parts < 2; parts++)
		for (size_t i = 0; i < blobs.count; i++) {
			const char *name = blobs.items[i];
			bool is_garbage = is_part(name) || (digest_is_hex(name) && !closure_has(&w->needed, name));
			if (is_part(name) == parts && is_garbage && remove_blob_file(w, name, is_dry, &g, err) < 0)
				return -1;
		}
	store_garbage_done(ret);
	*ret = g;
	g = (struct store_garbage){ 0 };
	return 0;
}

// Upgrades the shared lock to an exclusive one. The change is not atomic: a failed upgrade has lost the shared lock and
// takes it again.
static int lock_exclusively(const struct store *s, struct err *err)
{
	if (flock(s->use, LOCK_EX | LOCK_NB) == 0)
		return 0;
	int problem = errno;
	flock(s->use, LOCK_SH);
	if (problem != EWOULDBLOCK)
		return err_set(err, problem, "lock '%s'", s->layout.root.name);
	return err_set(err, E_LOCKED, "another process is using the store '%s'", s->layout.root.name);
}

static int collect_garbage(const struct store *s, const struct strv *kernels, bool is_dry, struct store_garbage *ret,
			   struct err *err)
{
	auto_gc_run struct gc_run w = { 0 };
	auto_fd int held = layout_lock(&s->layout, false, err);
	return held < 0 || gc_run_open(s, kernels, &w, err) < 0 || drop_oldest(&w, w.candidates, err) < 0 ?
		       -1 :
		       drop_and_remove(&w, is_dry, ret, err);
}

int store_gc(const struct store *s, const struct strv *kernels, bool is_dry, struct store_garbage *ret, struct err *err)
{
	if (!is_dry && lock_exclusively(s, err) < 0)
		return -1;
	int r = collect_garbage(s, kernels, is_dry, ret, err);
	if (!is_dry)
		flock(s->use, LOCK_SH);
	return r;
}

struct free_room {
	uint64_t used, free, want, limit;
};

static bool is_room_enough(const struct free_room *r, uint64_t freed)
{
	uint64_t used = r->used > freed ? r->used - freed : 0;
	return r->want <= r->free + freed && (!r->limit || (r->want <= r->limit && used <= r->limit - r->want));
}

static int measure_room(const struct store *s, uint64_t bytes, struct free_room *ret, struct err *err)
{
	struct statvfs fs;
	auto_strv struct strv names = { 0 };
	auto_fd int fd = root_open(&s->layout.root, ".", O_RDONLY | O_DIRECTORY, err);
	if (fd < 0 || root_list(&s->layout.root, LAYOUT_BLOBS, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt(LAYOUT_BLOBS "/%s", names.items[i]);
		struct stat st;
		int r = root_stat(&s->layout.root, path, &st, err);
		if (r < 0)
			return -1;
		ret->used += r > 0 ? (uint64_t)st.st_size : 0;
	}
	if (fstatvfs(fd, &fs) < 0)
		return err_set(err, errno, "check the free space of '%s'", s->layout.root.name);
	ret->free = (uint64_t)fs.f_bavail * fs.f_frsize;
	ret->want = bytes;
	ret->limit = s->limit;
	return 0;
}

// 1 = dropping that many makes enough room.
static int try_to_drop(struct gc_run *w, size_t count, const struct free_room *room, struct store_garbage *g,
		       struct err *err)
{
	if (drop_oldest(w, count, err) < 0 || drop_and_remove(w, true, g, err) < 0)
		return -1;
	return is_room_enough(room, g->bytes);
}

static int collect_for_room(const struct store *s, const struct strv *kernels, struct free_room *room, struct err *err)
{
	auto_gc_run struct gc_run w = { 0 };
	auto_store_garbage struct store_garbage g = { 0 };
	auto_fd int held = layout_lock(&s->layout, false, err);
	if (held < 0 || gc_run_open(s, kernels, &w, err) < 0)
		return -1;
	// The smallest number that is enough: doubled until it is, then halved. Each try reads every manifest that
	// stays, and most often a few packages are enough.
	size_t low = 0, high = 0;
	int r;
	while ((r = try_to_drop(&w, high, room, &g, err)) == 0 && high < w.candidates) {
		low = high + 1;
		high = 2 * high + 1 < w.candidates ? 2 * high + 1 : w.candidates;
	}
	while (r > 0 && low < high) {
		size_t middle = low + (high - low) / 2;
		int enough = try_to_drop(&w, middle, room, &g, err);
		if (enough > 0)
			high = middle;
		else
			low = middle + 1;
		r = enough < 0 ? -1 : 1;
	}
	if (r != 0)
		return r < 0 || drop_oldest(&w, high, err) < 0 ? -1 : drop_and_remove(&w, false, &g, err);
	char limit[64] = "without a limit";
	if (room->limit)
		snprintf(limit, sizeof(limit), "of %llu allowed", (unsigned long long)room->limit);
	return err_set(
		err, E_STORE_FULL,
		"'%s' has no room for %llu bytes: it holds %llu %s, the disk has %llu free, and %llu could be removed",
		s->layout.root.name, (unsigned long long)room->want, (unsigned long long)room->used, limit,
		(unsigned long long)room->free, (unsigned long long)g.bytes);
}

int store_room(const struct store *s, uint64_t bytes, const struct strv *kernels, struct err *err)
{
	struct free_room room = { 0 };
	if (measure_room(s, bytes, &room, err) < 0)
		return -1;
	if (is_room_enough(&room, 0))
		return 0;
	if (lock_exclusively(s, err) < 0)
		return err_wrap(err, "make room for %llu bytes", (unsigned long long)bytes);
	int r = collect_for_room(s, kernels, &room, err);
	flock(s->use, LOCK_SH);
	return r;
}
