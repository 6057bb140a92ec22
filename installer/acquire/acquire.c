// SPDX-License-Identifier: Apache-2.0
#include "acquire/acquire.h"

#include "host/gpu_support.h"
#include "kmod/kernel_tree/compiler.h"
#include "kmod/kernel_tree/distro.h"
#include "precompiled/package/asset.h"
#include "precompiled/package/fetch.h"
#include "precompiled/package/package.h"

void acquire_done(struct acquire *o)
{
	package_done(&o->kept);
	fetch_result_done(&o->found);
	state_dir_done(&o->memory);
	store_done(&o->store);
	image_payload_done(&o->carry);
	strv_done(&o->kernels);
	strv_done(&o->refused);
	strv_done(&o->untrusted);
	free(o->compatible);
	free(o->why_not);
	close_fdp(&o->builder_use);
	*o = ACQUIRE_NONE;
}

bool acquire_has_store(const struct acquire *o)
{
	return o->store.layout.root.fd >= 0;
}

int acquire_make_store(struct acquire *o, struct err *err)
{
	return acquire_has_store(o) ? 0 : store_open(o->fetch.state, o->limit, &o->store, err);
}

int acquire_output(void *acquire, const struct layout **ret, struct err *err)
{
	struct acquire *o = acquire;
	if (acquire_make_store(o, err) < 0)
		return -1;
	*ret = &o->store.layout;
	return 0;
}

// A missing store is empty; a search does not create it.
int acquire_open_store(struct acquire *o, struct err *err)
{
	return root_exists(o->fetch.state, "store/oci-layout") ? acquire_make_store(o, err) : 0;
}

const struct package *acquire_found(const struct acquire *o)
{
	return o->kept.count ? &o->kept : o->found.candidate.package.count ? &o->found.candidate.package : NULL;
}

// Any flavour if it cannot be told: the plan reports why. The flavour that serves the GPUs; NULL = it cannot be told.
static const char *preferred_flavour(const struct acquire *o, const char *driver)
{
	struct gpu_support_choice choice = { 0 };
	struct err ignored;
	if (!driver || !o->gpus ||
	    gpu_support_choose(o->gpus, driver, MODULE_TYPE_AUTO, MODULE_TYPE_OPEN | MODULE_TYPE_PROPRIETARY, &choice,
			       &ignored) < 0)
		return NULL;
	enum module_type flavour = choice.flavour;
	gpu_support_choice_done(&choice);
	return module_type_name(flavour);
}

static int look_once(const struct acquire *o, const struct package_want *want, bool is_quiet, struct fetch_result *ret,
		     struct err *err)
{
	struct fetch fetch = o->fetch;
	if (!fetch.from || !fetch.from->count)
		return err_set(err, E_NO_PACKAGE, "no source was named");
	if (is_quiet)
		fetch.note = NULL;
	return fetch_find(&fetch, want, ret, err);
}

// The best flavour first, but any other is better than none.
static int find_in_sources(struct acquire *o, struct err *err)
{
	struct package_want want = o->want;
	auto_fetch_result struct fetch_result any = FETCH_RESULT_NONE;
	struct err ignored;
	if (want.driver) // others may have made it from the same source in another wrapping
		want.source = NULL;
	if (!want.flavour)
		want.flavour = preferred_flavour(o, want.driver);
	if (want.flavour && look_once(o, &want, !o->want.flavour, &o->found, err) == 0)
		return 0;
	if (o->want.flavour || look_once(o, &o->want, false, &any, err) < 0)
		return -1;
	want.driver = any.candidate.package.key.driver;
	want.flavour = preferred_flavour(o, want.driver);
	if (!want.flavour || str_eq(want.flavour, any.candidate.package.key.flavour) ||
	    look_once(o, &want, true, &o->found, &ignored) < 0) {
		o->found = any;
		any = FETCH_RESULT_NONE;
	}
	return 0;
}

int acquire_check_trust(const struct acquire *o, const char *hex, struct err *err)
{
	const struct trust_now *now = o->fetch.now_trusted;
	auto_provenance struct provenance p = { 0 };
	if (!now)
		return 0;
	if (provenance_check(&o->store.layout, hex, now, &p, err) == 0) {
		auto_str char *who = provenance_text(&p);
		if (now->is_absent && provenance_is_vouched(&p))
			progress_note(o->progress,
				      "sha256:%.12s is trusted as when it was stored (%s): there is no trust "
				      "directory, neither --trust-dir nor /etc/kmodsmith/trust",
				      hex, who);
		return 0;
	}
	if (!o->is_back || !now->unread.code)
		return -1;
	progress_note(o->progress,
		      "rolling back to sha256:%.12s, which worked last, although its signatures cannot be checked: %s",
		      hex, err->text);
	return 0;
}

// The stored package is not used, because of why.
static void distrust_stored(struct acquire *o, const struct package *p, const struct err *why)
{
	auto_str char *tag = package_tag(&p->key);
	strv_add(&o->untrusted, str_dup(p->manifest.digest));
	progress_note(o->progress, "store: %s is not used: %s: %s", tag, err_info(why->code)->name, why->text);
	if (!o->distrust.code)
		o->distrust = *why;
}

// The best package that a currently trusted key signed.
static int find_trusted(struct acquire *o, const struct package_want *want, struct err *err)
{
	struct package_want rest = *want;
	rest.but = &o->untrusted;
	for (;;) {
		struct err why;
		int r = package_find(&o->store.layout, &rest, &o->kept, NULL, err);
		if (r <= 0 || acquire_check_trust(o, o->kept.manifest.digest, &why) == 0)
			return r;
		distrust_stored(o, &o->kept, &why);
		package_done(&o->kept);
	}
}

static char *why_not_reused_again(const struct acquire *o, const struct package *p)
{
	if (!o->banner)
		return NULL;
	auto_str char *distro = distro_of(o->want.release, o->banner), *compiler = compiler_of_banner(o->banner);
	const struct reuse_kernel kernel = { .release = o->want.release, .distro = distro, .compiler = compiler };
	return reuse_why_not(o->reuse, &p->key, &kernel);
}

// What the store took for this very kernel before, if the labels still allow it. 1 = .kept and .compatible.
static int find_reused_before(struct acquire *o, struct err *err)
{
	auto_package struct package p = PACKAGE_NONE;
	int r = o->reuse == REUSE_OFF ? 0 : store_find_reused(&o->store, &o->want, &p, err);
	auto_str char *why = r > 0 ? why_not_reused_again(o, &p) : NULL;
	if (r <= 0 || why || strv_has(&o->refused, p.manifest.digest))
		return r < 0 ? -1 : 0;
	struct err distrust;
	if (acquire_check_trust(o, p.manifest.digest, &distrust) < 0) {
		distrust_stored(o, &p, &distrust);
		return 0;
	}
	o->compatible = str_fmt("used for %s before", o->want.release);
	package_move(&p, &o->kept);
	return 1;
}

static int find_stored_package(struct acquire *o, struct err *err)
{
	struct package_want want = o->want;
	if (!acquire_has_store(o))
		return 0;
	if (!want.flavour)
		want.flavour = preferred_flavour(o, want.driver);
	int r = find_trusted(o, &want, err);
	if (r == 0 && !o->want.flavour)
		r = find_trusted(o, &o->want, err);
	return r == 0 ? find_reused_before(o, err) : r;
}

// Records why there is no package: what the store distrusts, and what the sources answered (NULL = not asked).
static int set_why_not(struct acquire *o, const struct err *others)
{
	if (o->distrust.code || others)
		free(TAKE(o->why_not));
	if (o->distrust.code)
		o->why_not =
			str_fmt("the store: %s%s%s", o->distrust.text, others ? "; " : "", others ? others->text : "");
	else if (others)
		o->why_not = str_dup(others->text);
	o->code = others && others->code != E_NO_PACKAGE ? others->code : o->distrust.code;
	return 0;
}

// While sources are unreachable, a package that they gave earlier will do, whatever the packaging of its driver source.
static int find_stored_any_source(struct acquire *o, struct err *err)
{
	const char *source = o->want.source;
	if (o->is_named || !o->want.driver || !source)
		return 0;
	o->want.source = NULL;
	int r = find_stored_package(o, err);
	o->want.source = source;
	return r;
}

int acquire_find(struct acquire *o, bool is_local, struct err *err)
{
	o->is_local = is_local;
	o->distrust.code = 0;
	strv_done(&o->untrusted);
	if (acquire_open_store(o, err) < 0)
		return -1;
	// Without a driver version only sources can choose: they offer one, the store merely has several.
	if (!o->is_named && (o->want.driver || o->want.source)) {
		int r = find_stored_package(o, err);
		if (r != 0)
			return r;
		if (o->fetch.from && o->fetch.from->count && !is_local)
			progress_note(o->progress, "store: no matching package");
	}
	if (is_local || !o->fetch.from || !o->fetch.from->count)
		return set_why_not(o, NULL);
	struct err why = { 0 };
	if (find_in_sources(o, &why) == 0)
		return 1;
	if (o->is_named && why.code != E_NO_PACKAGE) {
		*err = why;
		return -1;
	}
	set_why_not(o, &why);
	return why.code == E_NO_PACKAGE ? 0 : find_stored_any_source(o, err);
}

static int fetch_found_package(struct acquire *o, struct package *ret, struct err *err)
{
	if (acquire_make_store(o, err) < 0 ||
	    store_room(&o->store, o->found.candidate.package.layer.size, &o->kernels, err) < 0 ||
	    fetch_take(&o->fetch, &o->want, &o->found, &o->store.layout, err) < 0)
		return -1;
	package_move(&o->found.candidate.package, ret);
	return 0;
}

int acquire_unpack(struct acquire *o, struct package *p, struct err *err)
{
	return state_dir_stage(&o->memory, &o->store.layout, o->fetch.state, p, err);
}

int acquire_take(struct acquire *o, struct package *ret, struct err *err)
{
	if (!o->kept.count)
		return fetch_found_package(o, ret, err);
	if (o->kept.dir.fd >= 0) { // for its proof
		package_move(&o->kept, ret);
		return 0;
	}
	if (acquire_unpack(o, &o->kept, err) == 0) {
		provenance_remember(&o->store.layout, &o->kept.manifest);
		package_move(&o->kept, ret);
		return 0;
	}
	if (err->code != E_STORE_CORRUPT)
		return -1;
	struct err damage = *err;
	if (store_quarantine(&o->store, o->kept.layer.digest, NULL, err) < 0)
		return -1;
	progress_note(o->progress, "%s; quarantined", damage.text);
	package_done(&o->kept);
	if (find_in_sources(o, err) < 0) {
		*err = damage;
		return -1;
	}
	return fetch_found_package(o, ret, err);
}

// A package of another kernel for this one: try those that labels and policy allow, the most similar first, until the
// modules of one are proven to fit.

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

// A damaged package is not a candidate, and does not hide others.
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

// Checked in a layout of its own: only what is installed gets into the store.
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

// Keeps those that the policy allows, by their labels.
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

int acquire_find_compatible(struct acquire *o, struct err *err)
{
	auto_reuse_search struct reuse_search h = { .o = o, .want = o->want };
	int r = 0;
	h.want.release = h.want.build_id = NULL;
	// Any other flavour is better than none, as in acquire_find().
	h.flavour = h.want.flavour ? h.want.flavour : preferred_flavour(o, h.want.driver);
	// As in acquire_find(): without a driver version only sources can choose.
	if (o->reuse == REUSE_OFF || (!h.want.driver && !h.want.source && !o->is_named))
		return 0;
	add_candidates(&h);
	if (!h.count)
		return 0;
	progress_enter(o->progress, "reuse");
	if (read_wanted_kernel(&h, err) < 0)
		return -1;
	drop_refused_candidates(&h);
	for (size_t i = 0; i < h.count && r <= 0; i++) {
		struct candidate *c = &h.items[i];
		struct err why;
		r = c->source == IN_STORE ? try_stored(&h, &c->package, &why) : try_source(&h, c, &why);
		if (r < 0)
			note_objection(&h, why.code, str_dup(why.text));
	}
	if (r > 0) {
		progress_end(o->progress, "reuse", "%s", o->compatible);
		return 1;
	}
	auto_str char *before = TAKE(o->why_not);
	o->why_not = before ? str_fmt("%s; %s", h.why, before) : str_dup(h.why);
	if (!o->code)
		o->code = h.code;
	progress_end(o->progress, "reuse", "none: %s", h.why);
	return 0;
}
