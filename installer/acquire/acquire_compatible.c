// SPDX-License-Identifier: Apache-2.0
// A package of another kernel for this one: try those that labels and policy allow, the most similar first, until the
// modules of one are proven to fit.
#include "acquire/acquire.h"

#include "kmod/kernel_tree/distro.h"
#include "kmod/module/proof.h"
#include "precompiled/package/fetch.h"
#include "precompiled/package/package.h"

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
	size_t count; // first of those that could be used, then of those that the policy allows
	char *why;    // the best was refused; a proof counts more than a label
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

// Takes p over if it could be used.
static void add_reuse_candidate(struct reuse_search *h, int source, struct package *p)
{
	auto_str char *ignored = NULL;
	if (!package_fits(p, &h->want, &ignored) || str_eq(p->key.release, h->o->want.release))
		return;
	h->items = mem_grow(h->items, h->count + 1, sizeof(*h->items));
	h->items[h->count] = (struct candidate){ .package = PACKAGE_NONE, .source = source };
	package_move(p, &h->items[h->count++].package);
}

// Skips damaged packages.
static void add_store_candidates(struct reuse_search *h)
{
	const struct layout *l = &h->o->store.layout;
	auto_oci_index struct oci_index index = { 0 };
	struct err ignored;
	if (layout_index(l, &index, &ignored) < 0)
		return;
	for (size_t i = index.count; i-- > 0;) {
		auto_package struct package p = PACKAGE_NONE;
		if (package_read(l, &index.items[i], &p, &ignored) > 0 &&
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
		if (!str_starts(tags.items[i], "sha256-") &&
		    package_candidate_read(r, tags.items[i], &offer, &ignored) > 0)
			add_reuse_candidate(h, source, &offer.package);
	}
}

// The most similar first: newest driver, best flavour, same series, newest kernel, in the store.
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

// Names alone, and few: what the sources say follows in the same error.
static char *crc_mismatch_text(const struct package *p, const struct module_set *set, const struct proof *proof)
{
	enum { LISTED = 6 };
	size_t worst = 0;
	for (size_t i = 0; i < proof->count; i++)
		if (proof->modules[i].mismatch_count > proof->modules[worst].mismatch_count)
			worst = i;
	const struct proof_module *m = &proof->modules[worst];
	if (!m->mismatch_count)
		return str_dup(proof->text);
	char *s =
		str_fmt("%s made for %s: %zu CRCs differ:", set->items[worst].name, p->key.release, m->mismatch_count);
	for (size_t i = 0; i < m->mismatch_count && i < LISTED; i++)
		str_add(&s, "%s %s", i ? "," : "", m->mismatches[i].symbol);
	if (m->mismatch_count > LISTED)
		str_add(&s, " and %zu more", m->mismatch_count - LISTED);
	return s;
}

// Modules that will not be loaded need not fit.
static bool is_requested(const struct strv *modules, const char *name)
{
	if (modules && modules->count)
		return strv_has(modules, name);
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++)
		if (str_eq(default_modules[i], name))
			return true;
	return false;
}

// p is unpacked. 1 = the modules that are going to be loaded fit the kernel, and are what the labels say.
static int prove_candidate(struct reuse_search *h, const struct package *p, struct err *err)
{
	auto_strv struct strv files = { 0 };
	auto_module_set struct module_set set = { 0 };
	auto_proof struct proof proof = { 0 };
	for (size_t i = 0; i < p->count; i++)
		if (is_requested(h->want.modules, p->files[i].module))
			strv_add(&files, str_dup(p->files[i].name));
	if (!files.count) {
		note_objection(h, E_ABI,
			       str_fmt("made for %s, and none of its modules would be loaded", p->key.release));
		return 0;
	}
	if (module_set_read(&p->dir, &files, &set, err) < 0)
		return -1;
	char *false_label =
		reuse_why_not(h->o->request->reuse, &p->key, &h->kernel, &set); // the labels themselves are allowed
	if (false_label) {
		note_objection(h, E_ABI, false_label);
		return 0;
	}
	proof_make(set.pointers, set.count, &h->abi, NULL, &proof);
	if (proof.code) {
		note_objection(h, proof.code, crc_mismatch_text(p, &set, &proof));
		return 0;
	}
	h->o->compatible = str_dup(proof.text);
	return 1;
}

static int try_stored(struct reuse_search *h, struct package *p, struct err *err)
{
	struct acquire *o = h->o;
	if (acquire_check_trust(o, p->manifest.digest, err) < 0 ||
	    state_dir_stage(&o->memory, &o->store.layout, o->fetch.state, p, err) < 0)
		return -1;
	int r = prove_candidate(h, p, err);
	if (r > 0)
		package_move(p, &o->kept);
	return r;
}

// Fetched into a layout of its own: only what is installed goes into the store.
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
	fetch.is_unverified = false; // only a check: not counted
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

// Keeps those that the policy allows, by their labels.
static void drop_refused_candidates(struct reuse_search *h)
{
	size_t kept = 0;
	for (size_t i = 0; i < h->count; i++) {
		struct candidate *c = &h->items[i];
		const struct package_key *key = &c->package.key;
		char *why = strv_has(&h->o->refused, c->package.manifest.digest) ?
				    str_fmt("made for %s, and it failed on this kernel before", key->release) :
				    reuse_why_not(h->o->request->reuse, key, &h->kernel, NULL);
		c->is_best_flavour = str_eq(key->flavour, h->flavour);
		auto_str char *not_of_series = reuse_why_not(REUSE_SERIES, key, &h->kernel, NULL);
		c->is_series = !not_of_series;
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

int acquire_find_compatible(struct acquire *o, struct err *err)
{
	auto_reuse_search struct reuse_search h = { .o = o, .want = o->want };
	int r = 0;
	h.want.release = h.want.build_id = NULL;
	// Any other flavour is better than none, as in acquire_find().
	h.flavour = h.want.flavour ? h.want.flavour : acquire_flavour(o, h.want.driver);
	// As in acquire_find(): without a driver version only sources can choose.
	if (o->request->reuse == REUSE_OFF || (!h.want.driver && !h.want.source && !o->request->is_named))
		return 0;
	if (acquire_has_store(o) && !o->request->is_named)
		add_store_candidates(&h);
	for (size_t i = 0; !o->is_local && o->fetch.from && i < o->fetch.from->count; i++)
		if (!repository_is_remote(o->fetch.from->items[i]))
			add_source_candidates(&h, (int)i);
	if (!h.count)
		return 0;
	progress_enter(o->node->progress, "reuse");
	if (kernel_abi_read(&h.abi, o->node->host, o->node->kern, o->fetch.state, o->want.release, err) < 0)
		return -1;
	h.distro = distro_of(o->want.release, o->banner ? o->banner : h.abi.banner);
	h.kernel = (struct reuse_kernel){ .release = o->want.release, .distro = h.distro, .compiler = h.abi.compiler };
	drop_refused_candidates(&h);
	for (size_t i = 0; i < h.count && r <= 0; i++) {
		struct candidate *c = &h.items[i];
		struct err why;
		r = c->source == IN_STORE ? try_stored(&h, &c->package, &why) : try_source(&h, c, &why);
		if (r < 0)
			note_objection(&h, why.code, str_dup(why.text));
	}
	if (r > 0) {
		progress_end(o->node->progress, "reuse", "%s", o->compatible);
		return 1;
	}
	auto_str char *before = TAKE(o->why_not);
	o->why_not = before ? str_fmt("%s; %s", h.why, before) : str_dup(h.why);
	if (!o->code)
		o->code = h.code;
	progress_end(o->node->progress, "reuse", "none: %s", h.why);
	return 0;
}
