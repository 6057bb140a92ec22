// SPDX-License-Identifier: Apache-2.0
// The packages that a node keeps, so that the next start needs neither compiler nor network (R-A2): the layout
// STATE/store, and STATE/roots.json with what must stay.
//
// Whoever has the store open holds a shared lock, and what collects garbage wants it alone: so a blob that was just
// brought cannot be taken away before the index names it. A kill at any instant leaves a store that verifies.
#pragma once
#include "precompiled/oci/layout.h"
#include "precompiled/package/package.h"

struct store {
	struct layout layout;
	struct root state;
	uint64_t limit; // bytes of blobs; 0 = what the disk has
	int use;        // the lock
};
#define STORE_NONE ((struct store){ .layout = LAYOUT_NONE, .state = ROOT_NONE, .use = -1 })
// Made when there is none. Waits for a collection that runs.
int store_open(const struct root *state, uint64_t limit, struct store *ret, struct err *err);
void store_done(struct store *s);
#define auto_store __attribute__((cleanup(store_done)))
bool store_size_parse(const char *text, uint64_t *ret); // "500M": bytes, or with K, M, G (1024 each)

// A package that was proven to serve another kernel than it was made for, and was taken for it: it stays as long as
// that kernel does.
struct store_reuse {
	char *release, *build_id; // of the kernel that it serves
	char *digest;
};

// What is never collected, as digests of manifests.
struct store_roots {
	char *target, *last_good; // the package in use by intention; the one that last made the node ready; NULL = none
	struct strv pins;         // by the administrator
	struct store_reuse *reuses; // one per release
	size_t reuse_count;
};
void store_roots_done(struct store_roots *r);
#define auto_store_roots __attribute__((cleanup(store_roots_done)))
int store_roots(const struct store *s, struct store_roots *ret, struct err *err); // E_STORE_CORRUPT: unreadable
bool store_roots_has(const struct store_roots *r, const char *hex);
int store_set_target(const struct store *s, const char *hex, struct err *err); // 1 = changed, here and below
int store_set_last_good(const struct store *s, const char *hex, struct err *err);
// hex NULL: the kernel is served by a package of its own, or by none.
int store_set_reuse(const struct store *s, const char *release, const char *build_id, const char *hex, struct err *err);
// The digest of what serves this build of this release; NULL = nothing was taken for it.
const char *store_roots_reuse(const struct store_roots *r, const char *release, const char *build_id);
int store_pin(const struct store *s, const char *hex, struct err *err);
int store_unpin(const struct store *s, const char *hex, struct err *err);

// 1 = a package that was made for the kernel of want, or else one that was taken for it; 0 = none.
int store_find(const struct store *s, const struct package_want *want, struct package *ret, struct err *err);
int store_find_reused(const struct store *s, const struct package_want *want, struct package *ret, struct err *err);

// A blob that a reader found damaged: it goes to STATE/quarantine, and what needs it leaves the index: ret_lost (may be
// NULL) gets the tags, or digests.
int store_quarantine(const struct store *s, const char *hex, struct strv *ret_lost, struct err *err);

struct store_damage {
	char digest[DIGEST_HEX + 1]; // or "index.json", which was then made again
	char *why;                   // "is missing", "has 5 bytes instead of 7", ...
	struct strv lost;            // what left the index: tags, or digests
};
struct store_report {
	size_t blobs;
	uint64_t bytes; // read
	struct store_damage *damage;
	size_t count;
};
void store_report_done(struct store_report *r);
#define auto_store_report __attribute__((cleanup(store_report_done)))
// Reads every blob that the index needs, and quarantines what is damaged. 1 = damage was found, 0 = all is sound.
int store_verify(const struct store *s, void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
		 struct store_report *ret, struct err *err);

struct store_garbage {
	struct strv packages; // "TAG sha256:HEX" that leave, or would
	size_t blobs, parts;  // files
	uint64_t bytes;
};
void store_garbage_done(struct store_garbage *g);
#define auto_store_garbage __attribute__((cleanup(store_garbage_done)))
// Everything goes but roots, packages of or for these kernel releases, what belongs to those, and what is no package.
// E_LOCKED: somebody else has the store open.
int store_gc(const struct store *s, const struct strv *kernels, bool is_dry, struct store_garbage *ret,
	     struct err *err);
// Room for so many bytes more, within the limit and on the disk; collects only as much as it must, oldest first.
// E_STORE_FULL says how much there is.
int store_room(const struct store *s, uint64_t bytes, const struct strv *kernels, struct err *err);
