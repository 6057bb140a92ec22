// SPDX-License-Identifier: Apache-2.0
// The packages that a node keeps, so that the next start needs neither compiler nor network (R-A2): the layout
// STATE/store, and STATE/roots.json, which lists what must stay.
//
// Every user of the store holds a shared lock, and garbage collection takes it exclusively, so a new blob is never
// removed before the index names it. A kill at any time leaves a store that passes verification.
#pragma once
#include "precompiled/oci/layout.h"
#include "precompiled/package/package.h"

struct store {
	struct layout layout;
	struct root state;
	uint64_t limit;       // bytes of blobs; 0 = limited by the disk only
	int use;              // the lock
	struct strv repaired; // "NAME WHY" of its own files that were damaged and made again
};
#define STORE_NONE ((struct store){ .layout = LAYOUT_NONE, .state = ROOT_NONE, .use = -1 })
bool store_exists(const struct root *state);
// E_STORE_CORRUPT: one of its own files is damaged; it stays so.
int store_check(const struct root *state, struct err *err);
// Creates the store if needed; own files that are damaged are made again, with a warning. Waits for a collection.
int store_open(const struct root *state, uint64_t limit, struct store *ret, struct err *err);
void store_done(struct store *s);
#define auto_store __attribute__((cleanup(store_done)))
bool store_size_parse(const char *text, uint64_t *ret); // bytes; suffixes K, M, G are powers of 1024

// A package that is used for another kernel than it was built for, because it was proven compatible: it stays as long
// as that kernel is installed.
struct store_reuse {
	char *release, *build_id; // of the kernel it is used for
	char *digest;
};

// Manifests that are never removed, by digest.
struct store_roots {
	char *target, *last_good;   // the package that should run; the one that last made the node ready; NULL = none
	struct strv pins;           // set by the administrator; sorted
	struct store_reuse *reuses; // one per release
	size_t reuse_count;
};
void store_roots_done(struct store_roots *r);
#define auto_store_roots __attribute__((cleanup(store_roots_done)))
int store_roots(const struct store *s, struct store_roots *ret, struct err *err); // E_STORE_CORRUPT: unreadable
bool store_roots_has(const struct store_roots *r, const char *hex);
int store_set_target(const struct store *s, const char *hex, struct err *err); // 1 = changed, here and below
int store_set_last_good(const struct store *s, const char *hex, struct err *err);
// hex NULL: the kernel has a package of its own, or none.
int store_set_reuse(const struct store *s, const char *release, const char *build_id, const char *hex, struct err *err);
// The digest of the package reused for this build of this release; NULL = none.
const char *store_roots_reuse(const struct store_roots *r, const char *release, const char *build_id);
int store_pin(const struct store *s, const char *hex, bool is_pinned, struct err *err);

// 1 = a package built for the kernel of want, or else one reused for it; 0 = none.
int store_find(const struct store *s, const struct package_want *want, struct package *ret, struct err *err);
int store_find_reused(const struct store *s, const struct package_want *want, struct package *ret, struct err *err);

// Moves a damaged blob to STATE/quarantine and removes everything that needs it from the index; ret_lost (may be NULL)
// gets the tags, or digests, of what was removed.
int store_quarantine(const struct store *s, const char *hex, struct strv *ret_lost, struct err *err);

struct store_damage {
	char digest[DIGEST_HEX + 1]; // or "index.json", "oci-layout", "roots.json"
	char *why;                   // "is missing", "has 5 bytes instead of 7", ...
	struct strv lost;            // what was removed from the index: tags, or digests
};
// The same for many, sorted by digest; each gets what was lost, but what several of them damaged is lost to the first.
int store_quarantine_all(const struct store *s, struct store_damage *damage, size_t count, struct err *err);

struct store_report {
	size_t blobs;
	uint64_t bytes; // read
	struct store_damage *damage;
	size_t count;
};
void store_report_done(struct store_report *r);
#define auto_store_report __attribute__((cleanup(store_report_done)))
// Reads every blob that the index needs and quarantines damaged ones. 1 = damage was found, 0 = no damage.
int store_verify(struct store *s, void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
		 struct store_report *ret, struct err *err);

struct store_garbage {
	struct strv packages; // "TAG sha256:HEX" of what is or would be removed
	size_t blobs, parts;  // files
	uint64_t bytes;
};
static inline void store_garbage_done(struct store_garbage *g)
{
	strv_done(&g->packages);
	*g = (struct store_garbage){ 0 };
}
#define auto_store_garbage __attribute__((cleanup(store_garbage_done)))
// Removes everything except roots, packages built or reused for these kernel releases, what belongs to those, and other
// content than packages and fetched cores of drivers without a package. E_LOCKED: another process uses the store.
int store_gc(const struct store *s, const struct strv *kernels, bool is_dry, struct store_garbage *ret,
	     struct err *err);
// Makes room for that many bytes, within the limit and on the disk; removes only as much as needed, oldest first.
// E_STORE_FULL reports the available room.
int store_room(const struct store *s, uint64_t bytes, const struct strv *kernels, struct err *err);
