// SPDX-License-Identifier: Apache-2.0
// Damaged blobs are quarantined and what needs them is removed from the index, so that the next start fetches it again.
// An unreadable index is rebuilt from the packages in the store, which are checked by digest like any other.
#include "base/file/file.h"
#include "precompiled/oci/closure.h"
#include "precompiled/package/package.h"
#include "precompiled/store/store.h"

#include <errno.h>
#include <stdio.h>

struct store_check {
	const struct store *store;
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *ctx;
	uint64_t total;
	struct store_report report;
	struct stat *seen; // the file of each damaged blob as it was read; zero = none was found
	size_t seen_count;
};

void store_report_done(struct store_report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		free(r->damage[i].why);
		strv_done(&r->damage[i].lost);
	}
	free(r->damage);
	*r = (struct store_report){ 0 };
}

// Why the blob is damaged; NULL = it is not. One that the disk cannot read counts as damaged.
static char *find_blob_fault(struct store_check *c, const struct closure_blob *b, struct stat *ret, struct err *err)
{
	char hex[DIGEST_HEX + 1], buf[1 << 16];
	uint64_t size = 0;
	ssize_t n;
	auto_str char *path = layout_blob_path(b->digest);
	if (root_stat(&c->store->layout.root, path, ret, err) <= 0)
		*ret = (struct stat){ 0 };
	auto_fd int fd = layout_blob_open(&c->store->layout, b->digest, err);
	if (fd < 0)
		return err->code == E_NOT_FOUND ? str_dup("is missing") : str_dup(err->text);
	struct digest *sum = digest_new();
	while ((n = read(fd, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR)) {
		if (n < 0)
			continue;
		digest_add(sum, buf, (size_t)n);
		size += (uint64_t)n;
		c->report.bytes += (uint64_t)n;
		if (c->progress)
			c->progress(c->ctx, c->report.bytes, c->total);
	}
	if (n < 0)
		file_fail("read", b->digest, err);
	digest_hex(sum, hex);
	if (n < 0)
		return str_dup(err->text);
	if (size != b->size)
		return str_fmt("has %llu bytes instead of %llu", (unsigned long long)size, (unsigned long long)b->size);
	if (!str_eq(hex, b->digest))
		return str_fmt("has the SHA-256 %s", hex);
	return b->is_broken ? str_dup("is not a valid manifest") : NULL;
}

static void add_damage(struct store_check *c, const char *digest, char *take_why)
{
	struct store_damage damage = { .why = take_why };
	snprintf(damage.digest, sizeof(damage.digest), "%s", digest);
	c->report.damage = mem_grow(c->report.damage, c->report.count + 1, sizeof(damage));
	c->report.damage[c->report.count++] = damage;
}

// A package goes under its tag, a signature by its subject; other blobs are needed only through these.
static void add_to_new_index(const struct layout *l, const char *hex, uint64_t size, struct oci_index *x)
{
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST), .size = size };
	auto_package struct package p = PACKAGE_NONE;
	auto_oci_manifest struct oci_manifest m = { 0 };
	struct err ignored;
	memcpy(d.digest, hex, sizeof(d.digest));
	if (package_read(l, &d, &p, &ignored) > 0) {
		auto_str char *tag = package_tag(&p.key);
		d.artifact_type = str_dup(PACKAGE_TYPE);
		oci_index_put(x, &d, tag);
	} else if (layout_manifest(l, &d, hex, &m, &ignored) == 0 && m.subject.media_type) {
		oci_index_put(x, &d, NULL);
	}
}

static int rebuild_store_index(struct store_check *c, const struct err *why, struct err *err)
{
	const struct layout *l = &c->store->layout;
	auto_strv struct strv names = { 0 };
	auto_oci_index struct oci_index x = { 0 };
	if (root_list(&l->root, "blobs/sha256", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = layout_blob_path(names.items[i]);
		struct stat st;
		if (digest_is_hex(names.items[i]) && root_stat(&l->root, path, &st, err) > 0 &&
		    st.st_size <= OCI_DOCUMENT_MAX)
			add_to_new_index(l, names.items[i], (uint64_t)st.st_size, &x);
	}
	struct err ignored; // the old one is only kept for diagnosis
	if (root_mkdirs(&c->store->state, "quarantine", 0755, &ignored) == 0)
		root_rename(&c->store->state, "store/index.json", "quarantine/index.json", &ignored);
	if (layout_index_write(l, &x, err) < 0)
		return -1;
	add_damage(c, "index.json", str_dup(why->text));
	return 0;
}

static int read_or_rebuild_store_index(struct store_check *c, struct oci_index *ret, struct err *err)
{
	auto_fd int held = layout_lock(&c->store->layout, false, err);
	if (held < 0)
		return -1;
	if (layout_index(&c->store->layout, ret, err) == 0)
		return 0;
	struct err why = *err;
	if ((why.code != E_MANIFEST && why.code != E_TOO_LARGE) || rebuild_store_index(c, &why, err) < 0)
		return -1;
	return layout_index(&c->store->layout, ret, err);
}

// A blob that another process has brought anew in the meantime is not the one that was read.
static void drop_replaced(struct store_check *c, size_t first)
{
	size_t kept = first;
	for (size_t i = first; i < c->report.count; i++) {
		struct store_damage *d = &c->report.damage[i];
		const struct stat *then = &c->seen[i - first];
		auto_str char *path = layout_blob_path(d->digest);
		struct stat now = { 0 };
		struct err ignored;
		bool exists = root_stat(&c->store->layout.root, path, &now, &ignored) > 0;
		if (exists && (now.st_ino != then->st_ino || now.st_ctim.tv_sec != then->st_ctim.tv_sec ||
			       now.st_ctim.tv_nsec != then->st_ctim.tv_nsec))
			free(d->why);
		else
			c->report.damage[kept++] = *d;
	}
	c->report.count = kept;
}

static int verify_blobs(struct store_check *c, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_closure struct closure needed = { 0 };
	if (read_or_rebuild_store_index(c, &x, err) < 0)
		return -1;
	for (size_t i = 0; i < x.count; i++)
		if (closure_add(&c->store->layout, &x.items[i], &needed, err) < 0)
			return -1;
	closure_sort(&needed);
	for (size_t i = 0; i < needed.count; i++)
		c->total += needed.items[i].size;
	const size_t first = c->report.count; // an index that was rebuilt comes before the blobs
	for (size_t i = 0; i < needed.count; i++) {
		const struct closure_blob *b = &needed.items[i];
		struct stat st;
		char *why = find_blob_fault(c, b, &st, err);
		c->report.blobs++;
		if (!why)
			continue;
		add_damage(c, b->digest, why);
		c->seen = mem_grow(c->seen, c->seen_count + 1, sizeof(st));
		c->seen[c->seen_count++] = st;
	}
	drop_replaced(c, first);
	size_t count = c->report.count - first;
	return count ? store_quarantine_all(c->store, c->report.damage + first, count, err) : 0;
}

int store_verify(const struct store *s, void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
		 struct store_report *ret, struct err *err)
{
	struct store_check c = { .store = s, .progress = progress, .ctx = ctx };
	int r = verify_blobs(&c, err);
	free(c.seen);
	if (r < 0) {
		store_report_done(&c.report);
		return err_wrap(err, "verify the store");
	}
	*ret = c.report;
	return ret->count > 0;
}
