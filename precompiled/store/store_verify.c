// SPDX-License-Identifier: Apache-2.0
// Damaged blobs are quarantined and what needs them is removed from the index, so that the next start fetches it again.
// Own files of the store that are damaged were made again when it was opened (store_repair.c).
#include "base/file/file.h"
#include "precompiled/oci/closure.h"
#include "precompiled/package/package.h"
#include "precompiled/store/store_internal.h"

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

static void add_repaired(struct store *s, struct store_check *c)
{
	for (size_t i = 0; i < s->repaired.count; i++) {
		const char *text = s->repaired.items[i];
		auto_str char *name = str_ndup(text, strcspn(text, " "));
		add_damage(c, name, str_dup(text + strlen(name) + 1));
	}
	strv_done(&s->repaired);
}

// Whether one was damaged while the store was open, and the list of what must stay.
static int check_own_files(struct store *s, struct store_check *c, struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	struct store_roots roots;
	if (root_sub(&s->layout.root, ".", &dir, err) < 0 || store_open_layout(s, &dir, err) < 0)
		return -1;
	s->layout.is_store = true;
	add_repaired(s, c);
	if (store_roots(s, &roots, err) == 0) {
		store_roots_done(&roots);
		return 0;
	}
	if (err->code != E_STORE_CORRUPT)
		return -1;
	add_damage(c, "roots.json", str_dup(err->text));
	return store_mend_roots(s, err);
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

static int read_own_index(const struct store *s, struct oci_index *ret, struct err *err)
{
	auto_fd int held = layout_lock(&s->layout, false, err);
	return held < 0 ? -1 : layout_index(&s->layout, ret, err);
}

static int verify_blobs(struct store_check *c, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_closure struct closure needed = { 0 };
	if (read_own_index(c->store, &x, err) < 0)
		return -1;
	for (size_t i = 0; i < x.count; i++)
		if (closure_add(&c->store->layout, &x.items[i], &needed, err) < 0)
			return -1;
	closure_sort(&needed);
	for (size_t i = 0; i < needed.count; i++)
		c->total += needed.items[i].size;
	const size_t first = c->report.count; // own files come before the blobs
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

int store_verify(struct store *s, void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
		 struct store_report *ret, struct err *err)
{
	struct store_check c = { .store = s, .progress = progress, .ctx = ctx };
	int r = check_own_files(s, &c, err) < 0 ? -1 : verify_blobs(&c, err);
	free(c.seen);
	if (r < 0) {
		store_report_done(&c.report);
		return err_wrap(err, "verify the store");
	}
	*ret = c.report;
	return ret->count > 0;
}
