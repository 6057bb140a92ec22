// SPDX-License-Identifier: Apache-2.0
// A package of another kernel for this one: those that the labels and the policy let through, the most alike first,
// until the modules of one are proven to fit.
#include "acquire/acquire_internal.h"

#include "kmod/kernel_tree/compiler.h"
#include "kmod/kernel_tree/distro.h"
#include "precompiled/package/candidate.h"
#include "precompiled/package/find.h"

enum { IN_STORE = -1 };

struct candidate {
	struct package package; // not unpacked
	int source;             // position in fetch.from, or IN_STORE
	bool is_series, is_best_flavour;
};

struct reuse_search {
	struct acquire *o;
	struct package_want want; // without the kernel
	const char *flavour;      // best; NULL = any
	struct kernel_abi abi;
	char *distro;
	struct reuse_kernel kernel;
	struct candidate *items;
	size_t count; // first of those that could serve, then of those that may
	char *why;    // against the best; what a proof says counts more than what a label does
	int code;     // of a proof
};

static void reuse_search_done(struct reuse_search *h)
{
	for (size_t i = 0; i < h->count; i++)
		package_done(&h->items[i].package);
	free(h->items);
	free(h->why);
	free(h->distro);
	kernel_abi_done(&h->abi);
}
#define auto_reuse_search __attribute__((cleanup(reuse_search_done)))

static void note_objection(struct reuse_search *h, int code, char *take_why)
{
	if (h->why && (h->code || !code)) {
		free(take_why);
		return;
	}
	free(h->why);
	h->why = take_why;
	h->code = code;
}

// Takes p over when it could serve.
static void add_reuse_candidate(struct reuse_search *h, int source, struct package *p)
{
	auto_str char *ignored = NULL;
	if (!package_fits(p, &h->want, &ignored) || str_eq(p->key.release, h->o->want.release))
		return;
	h->items = mem_grow(h->items, h->count + 1, sizeof(*h->items));
	h->items[h->count] = (struct candidate){ .package = PACKAGE_NONE, .source = source };
	package_move(p, &h->items[h->count++].package);
}

// What is damaged is no candidate, and hides none.
static void add_store_candidates(struct reuse_search *h)
{
	const struct layout *l = &h->o->store.layout;
	auto_oci_index struct oci_index index = { 0 };
	struct err ignored;
	if (layout_index(l, &index, &ignored) < 0)
		return;
	for (size_t i = index.count; i-- > 0;) {
		auto_package struct package p = PACKAGE_NONE;
		if (find_by_descriptor(l, &index.items[i], &p, &ignored) > 0 &&
		    !strv_has(&h->o->untrusted, p.manifest.digest))
			add_reuse_candidate(h, IN_STORE, &p);
	}
}

static void add_source_candidates(struct reuse_search *h, int source)
{
	const struct fetch *f = &h->o->fetch;
	auto_repository struct repository *r = NULL;
	auto_strv struct strv tags = { 0 };
	struct err ignored;
	if (repository_open(f->from->items[source], f->options, &r, &ignored) < 0 ||
	    repository_tags(r, &tags, &ignored) < 0)
		return;
	for (size_t i = tags.count; i-- > 0;) {
		auto_candidate struct package_candidate offer = CANDIDATE_NONE;
		if (!str_starts(tags.items[i], "sha256-") && candidate_read(r, tags.items[i], &offer, &ignored) > 0)
			add_reuse_candidate(h, source, &offer.package);
	}
}

// The most alike first: newest driver, best flavour, same series, newest kernel, at hand.
static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	int driver = str_version_cmp(y->package.key.driver, x->package.key.driver);
	int kernel = str_version_cmp(y->package.key.release, x->package.key.release);
	if (driver)
		return driver;
	if (x->is_best_flavour != y->is_best_flavour)
		return y->is_best_flavour - x->is_best_flavour;
	if (x->is_series != y->is_series)
		return y->is_series - x->is_series;
	return kernel ? kernel : x->source - y->source;
}

// p is unpacked. 1 = it fits.
static int prove_candidate(struct reuse_search *h, const struct package *p, struct err *err)
{
	auto_str char *text = NULL;
	int code = 0, r = reuse_prove(p, h->want.modules, &h->abi, &text, &code, err);
	if (r > 0)
		h->o->compatible = TAKE(text);
	else if (r == 0)
		note_objection(h, code, TAKE(text));
	return r;
}

static int try_stored(struct reuse_search *h, struct package *p, struct err *err)
{
	struct acquire *o = h->o;
	if (acquire_check_trust(o, p->manifest.digest, err) < 0 || acquire_unpack(o, p, err) < 0)
		return -1;
	int r = prove_candidate(h, p, err);
	if (r > 0)
		package_move(p, &o->kept);
	return r;
}

// Its bytes are looked at in a layout of their own: only what is installed gets into the store.
static int try_source(struct reuse_search *h, const struct candidate *c, struct err *err)
{
	struct acquire *o = h->o;
	const struct package_want want = { .digest = c->package.manifest.digest };
	auto_strv struct strv from = { 0 };
	auto_fetch_result struct fetch_result found = FETCH_RESULT_NONE, again = FETCH_RESULT_NONE;
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_layout struct layout layout = LAYOUT_NONE;
	struct fetch fetch = o->fetch;
	strv_add(&from, str_dup(o->fetch.from->items[c->source]));
	fetch.from = &from;
	fetch.down = NULL;
	fetch.note = NULL;
	fetch.progress = NULL;
	fetch.is_unverified = false; // what is only looked at is not counted
	if (scratch_make(o->fetch.state, "reuse", &work, err) < 0 || layout_make(&work.root, &layout, err) < 0 ||
	    fetch_find(&fetch, &want, &found, err) < 0 || fetch_find(&fetch, &want, &again, err) < 0 ||
	    fetch_take(&fetch, &want, &found, &layout, err) < 0)
		return -1;
	int r = prove_candidate(h, &found.candidate.package, err);
	if (r <= 0)
		return r;
	again.source = (size_t)c->source;
	o->found = again;
	again = FETCH_RESULT_NONE;
	return 1;
}

static int try_all(struct reuse_search *h)
{
	if (h->count)
		qsort(h->items, h->count, sizeof(*h->items), compare_candidates);
	for (size_t i = 0; i < h->count; i++) {
		struct candidate *c = &h->items[i];
		struct err err;
		int r = c->source == IN_STORE ? try_stored(h, &c->package, &err) : try_source(h, c, &err);
		if (r > 0)
			return 1;
		if (r < 0)
			note_objection(h, err.code, str_dup(err.text));
	}
	return 0;
}

static int read_wanted_kernel(struct reuse_search *h, struct err *err)
{
	const struct acquire *o = h->o;
	if (kernel_abi_read(&h->abi, o->host, o->kern, o->want.release, err) < 0)
		return -1;
	const char *banner = o->banner ? o->banner : h->abi.banner;
	h->distro = distro_of(o->want.release, banner);
	h->kernel =
		(struct reuse_kernel){ .release = o->want.release, .distro = h->distro, .compiler = h->abi.compiler };
	return 0;
}

static void add_candidates(struct reuse_search *h)
{
	const struct acquire *o = h->o;
	if (acquire_has_store(o) && !o->is_named)
		add_store_candidates(h);
	for (size_t i = 0; !o->is_local && o->fetch.from && i < o->fetch.from->count; i++)
		if (!repository_is_remote(o->fetch.from->items[i]))
			add_source_candidates(h, (int)i);
}

// Those that the policy lets through, by their labels.
static void drop_refused_candidates(struct reuse_search *h)
{
	size_t kept = 0;
	for (size_t i = 0; i < h->count; i++) {
		struct candidate *c = &h->items[i];
		const struct package_key *key = &c->package.key;
		char *why = strv_has(&h->o->refused, c->package.manifest.digest) ?
				    str_fmt("made for %s, and it failed on this kernel before", key->release) :
				    reuse_why_not(h->o->reuse, key, &h->kernel);
		c->is_best_flavour = str_eq(key->flavour, h->flavour);
		c->is_series = reuse_is_series(key, &h->kernel);
		if (why) {
			note_objection(h, 0, why);
			package_done(&c->package);
		} else {
			h->items[kept++] = *c;
		}
	}
	h->count = kept;
	if (kept)
		qsort(h->items, kept, sizeof(*h->items), compare_candidates);
}

static void set_why_no_candidate(struct reuse_search *h)
{
	struct acquire *o = h->o;
	auto_str char *before = TAKE(o->why_not);
	o->why_not = before ? str_fmt("%s; %s", h->why, before) : str_dup(h->why);
	if (!o->code)
		o->code = h->code;
}

static int choose_candidate(struct reuse_search *h, struct err *err)
{
	struct acquire *o = h->o;
	progress_enter(o->progress, "reuse");
	if (read_wanted_kernel(h, err) < 0)
		return -1;
	drop_refused_candidates(h);
	int r = try_all(h);
	if (r == 0)
		set_why_no_candidate(h);
	progress_end(o->progress, "reuse", "%s%s", r ? "" : "none: ", r ? o->compatible : h->why);
	return r;
}

int acquire_find_compatible(struct acquire *o, struct err *err)
{
	auto_reuse_search struct reuse_search h = { .o = o, .want = o->want };
	h.want.release = h.want.build_id = NULL;
	// Another flavour that is there is better than none, as in a look.
	h.flavour = h.want.flavour ? h.want.flavour : acquire_flavour(o, h.want.driver);
	// As in a look: without a driver version the store does not know what is meant.
	if (o->reuse == REUSE_OFF || (!h.want.driver && !h.want.source && !o->is_named))
		return 0;
	add_candidates(&h);
	return h.count ? choose_candidate(&h, err) : 0;
}

static char *why_not_reused_again(const struct acquire *o, const struct package *p)
{
	if (!o->banner)
		return NULL;
	auto_str char *distro = distro_of(o->want.release, o->banner), *compiler = compiler_of_banner(o->banner);
	const struct reuse_kernel kernel = { .release = o->want.release, .distro = distro, .compiler = compiler };
	return reuse_why_not(o->reuse, &p->key, &kernel);
}

int acquire_find_reused(struct acquire *o, struct err *err)
{
	auto_package struct package p = PACKAGE_NONE;
	int r = o->reuse == REUSE_OFF ? 0 : store_find_reused(&o->store, &o->want, &p, err);
	auto_str char *why = r > 0 ? why_not_reused_again(o, &p) : NULL;
	if (r <= 0 || why || strv_has(&o->refused, p.manifest.digest))
		return r < 0 ? -1 : 0;
	struct err distrust;
	if (acquire_check_trust(o, p.manifest.digest, &distrust) < 0) {
		acquire_distrust(o, &p, &distrust);
		return 0;
	}
	o->compatible = str_fmt("taken for %s before", o->want.release);
	package_move(&p, &o->kept);
	return 1;
}
