// SPDX-License-Identifier: Apache-2.0
#include "acquire/acquire.h"

#include "host/gpu_support.h"
#include "host/module_set.h"
#include "journal/optional_modules.h"
#include "kmod/kernel_tree/compiler.h"
#include "kmod/kernel_tree/distro.h"
#include "precompiled/package/asset.h"
#include "precompiled/package/package.h"

const struct request request_none;

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

void acquire_set_want(struct acquire *o, const char *release, const char *build_id, const char *arch,
		      bool is_signing_due)
{
	const struct request *r = o->request;
	o->want = (struct package_want){ .driver = r->driver,
					 .digest = r->digest,
					 .flavour = r->flavour ? module_type_name(r->flavour) : NULL,
					 .release = release,
					 .build_id = build_id,
					 .arch = arch,
					 .modules = &r->modules };
	// Left from before Secure Boot was on: it can be compiled again, and signed.
	o->want.is_signed = r->module_key.key && !r->is_named && !r->digest && is_signing_due;
}

bool acquire_has_store(const struct acquire *o)
{
	return o->store.layout.root.fd >= 0;
}

static int make_store(struct acquire *o, struct err *err)
{
	return acquire_has_store(o) ? 0 : store_open(o->fetch.state, o->limit, &o->store, err);
}

int acquire_output(void *acquire, const struct layout **ret, struct err *err)
{
	struct acquire *o = acquire;
	if (make_store(o, err) < 0)
		return -1;
	*ret = &o->store.layout;
	return 0;
}

// A missing store is empty; a search does not create it.
int acquire_open_store(struct acquire *o, struct err *err)
{
	return store_exists(o->fetch.state) ? make_store(o, err) : 0;
}

const struct package *acquire_found(const struct acquire *o)
{
	return o->kept.count ? &o->kept : o->found.candidate.package.count ? &o->found.candidate.package : NULL;
}

void acquire_forget(struct acquire *o)
{
	package_done(&o->kept);
	fetch_result_done(&o->found);
	free(TAKE(o->compatible));
}

const char *acquire_flavour(const struct acquire *o, const char *driver)
{
	enum module_type flavour;
	struct err ignored;
	const unsigned both = MODULE_TYPE_OPEN | MODULE_TYPE_PROPRIETARY;
	if (!driver || !o->gpus ||
	    gpu_support_choose(o->gpus, driver, MODULE_TYPE_AUTO, both, &flavour, NULL, &ignored) < 0)
		return NULL;
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
	if (want.driver) // others may have built it from another packaging of the same source
		want.source = NULL;
	if (!want.flavour)
		want.flavour = acquire_flavour(o, want.driver);
	if (want.flavour && look_once(o, &want, !o->want.flavour, &o->found, err) == 0)
		return 0;
	if (o->want.flavour || look_once(o, &o->want, false, &any, err) < 0)
		return -1;
	want.driver = any.candidate.package.key.driver;
	want.flavour = acquire_flavour(o, want.driver);
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
			progress_note(o->node->progress,
				      "sha256:%.12s is trusted as when it was stored (%s): there is no trust "
				      "directory, neither --trust-dir nor /etc/kmodsmith/trust",
				      hex, who);
		return 0;
	}
	if (!o->is_back || !now->unread.code)
		return -1;
	progress_note(o->node->progress,
		      "rolling back to sha256:%.12s, which worked last, although its signatures cannot be checked: %s",
		      hex, err->text);
	return 0;
}

// Records why a package of the store is not used.
static void distrust_stored(struct acquire *o, const struct package *p, const struct err *why)
{
	auto_str char *tag = package_tag(&p->key);
	strv_add(&o->untrusted, str_dup(p->manifest.digest));
	progress_note(o->node->progress, "store: %s is not used: %s: %s", tag, err_info(why->code)->name, why->text);
	if (!o->distrust.code)
		o->distrust = *why;
}

// The best package of the store whose signer is still trusted.
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

// A package that was used for this kernel before, if its labels still allow that. 1 = .kept and .compatible.
static int find_reused_before(struct acquire *o, struct err *err)
{
	struct err distrust;
	auto_package struct package p = PACKAGE_NONE;
	int r = o->request->reuse == REUSE_OFF ? 0 : store_find_reused(&o->store, &o->want, &p, err);
	if (r <= 0)
		return r;
	if (o->banner) {
		auto_str char *distro = distro_of(o->want.release, o->banner),
			      *compiler = compiler_of_banner(o->banner);
		const struct reuse_kernel kernel = { .release = o->want.release,
						     .distro = distro,
						     .compiler = compiler };
		auto_str char *why = reuse_why_not(o->request->reuse, &p.key, &kernel, NULL);
		if (why)
			return 0;
	}
	if (strv_has(&o->refused, p.manifest.digest))
		return 0;
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
		want.flavour = acquire_flavour(o, want.driver);
	int r = find_trusted(o, &want, err);
	if (r == 0 && !o->want.flavour)
		r = find_trusted(o, &o->want, err);
	return r == 0 ? find_reused_before(o, err) : r;
}

// Records why there is no package: what is distrusted in the store, and why the sources failed (NULL = not asked).
static int set_why_not(struct acquire *o, const struct err *others)
{
	if (o->distrust.code || others)
		free(TAKE(o->why_not));
	if (o->distrust.code)
		o->why_not =
			str_fmt("the store: %s%s%s", o->distrust.text, others ? "; " : "", others ? others->text : "");
	else if (others)
		o->why_not = str_dup(others->text);
	bool is_others = others && others->code != E_NO_PACKAGE;
	o->code = is_others ? others->code : o->distrust.code;
	snprintf(o->next, sizeof(o->next), "%s", is_others ? others->next : "");
	return 0;
}

int acquire_find(struct acquire *o, bool is_local, struct err *err)
{
	o->is_local = is_local;
	o->distrust.code = 0;
	strv_done(&o->untrusted);
	if (acquire_open_store(o, err) < 0)
		return -1;
	// Without a driver only a source can choose: it offers one, while the store may have several.
	if (!o->request->is_named && (o->want.driver || o->want.source || o->want.digest)) {
		int r = find_stored_package(o, err);
		if (r != 0)
			return r;
		if (o->fetch.from && o->fetch.from->count && !is_local)
			progress_note(o->node->progress, "store: no matching package");
	}
	if (is_local || !o->fetch.from || !o->fetch.from->count)
		return set_why_not(o, NULL);
	struct err why = { 0 };
	if (find_in_sources(o, &why) == 0)
		return 1;
	if (o->request->is_named && why.code != E_NO_PACKAGE) {
		*err = why;
		return why.code != E_USAGE ?
			       -1 :
			       err_next(err,
					"--package takes oci:DIR or oci-archive:FILE.tar of `kmodsmith build`; "
					"NVIDIA's .run or a distribution's package of the source goes to --source");
	}
	set_why_not(o, &why);
	const char *source = o->want.source;
	if (why.code == E_NO_PACKAGE || o->request->is_named || !o->want.driver || !source)
		return 0;
	// While sources are unreachable, use a package that was fetched earlier, whatever the packaging of its driver
	// source.
	o->want.source = NULL;
	int r = find_stored_package(o, err);
	o->want.source = source;
	if (r > 0)
		progress_note(o->node->progress, "%s", why.text);
	return r;
}

bool acquire_has_core(const void *modules, const struct package_key *key, char **ret_why)
{
	const struct strv *named = modules;
	for (size_t i = 0; (!named || !named->count) && i < ARRAY_SIZE(default_modules); i++) {
		if (optional_modules_is(default_modules[i]) || strv_has(&key->modules, default_modules[i]))
			continue;
		*ret_why = str_fmt("it has no %s", default_modules[i]);
		return false;
	}
	return true;
}

static bool is_serving(const void *acquire, const struct package_key *key, char **ret_why)
{
	const struct acquire *o = acquire;
	enum module_type flavour, chosen;
	struct err ignored;
	if (!acquire_has_core(o->want.modules, key, ret_why))
		return false;
	if (module_type_parse(key->flavour, &flavour) &&
	    gpu_support_choose(o->gpus, key->driver, MODULE_TYPE_AUTO, flavour, &chosen, NULL, &ignored) == 0)
		return true;
	*ret_why = str_fmt("its %s modules of %s do not support the GPUs here", key->flavour, key->driver);
	return false;
}

// In the store (from NULL) or in one source. 1 = *ret_driver; caller frees. 0 = none; err.code 0: the store has none.
static int find_newest_in(struct acquire *o, const struct package_want *want, const struct fetch *from,
			  char **ret_driver, struct err *err)
{
	auto_fetch_result struct fetch_result found = FETCH_RESULT_NONE;
	bool is_found = from ? fetch_find(from, want, &found, err) == 0 : find_trusted(o, want, err) > 0;
	if (is_found)
		*ret_driver = str_dup(from ? found.candidate.package.key.driver : o->kept.key.driver);
	else if (!from && !err->code)
		*err = o->distrust;
	package_done(&o->kept);
	return is_found;
}

int acquire_newest(struct acquire *o, const char *branch, char **ret_driver, char **ret_place, struct err *ret_why)
{
	struct package_want want = o->want;
	const size_t count = o->fetch.from ? o->fetch.from->count : 0;
	auto_str char *all = NULL;
	int code = 0;
	want.driver = NULL;
	want.branch = branch;
	want.serves = is_serving;
	want.ctx = o;
	for (size_t i = acquire_has_store(o) ? 0 : 1; i <= count; i++) {
		struct err why = { 0 };
		auto_str char *driver = NULL;
		const char *place = i ? o->fetch.from->items[i - 1] : "the store";
		const struct strv one = { .items = i ? &o->fetch.from->items[i - 1] : NULL, .count = 1 };
		struct fetch fetch = o->fetch;
		fetch.from = &one;
		fetch.down = fetch.down && i ? &fetch.down[i - 1] : NULL;
		int found = find_newest_in(o, &want, i ? &fetch : NULL, &driver, &why);
		if (found && (!*ret_driver || str_version_cmp(driver, *ret_driver) > 0)) {
			str_set(ret_driver, driver);
			str_set(ret_place, place);
		} else if (!found && why.code) {
			str_add(&all, "%s%s%s", all ? "; " : "", i ? "" : "the store: ", why.text);
			code = code ? code : why.code == E_NO_PACKAGE ? 0 : why.code;
		}
	}
	if (*ret_driver && all)
		progress_note(o->node->progress, "%s", all);
	if (!*ret_driver)
		err_set(ret_why, code ? code : E_NO_PACKAGE, "%s",
			all ? all : "the store has none, and no --from was given");
	return *ret_driver != NULL;
}

int acquire_take(struct acquire *o, struct package *ret, struct err *err)
{
	if (o->kept.count) {
		if (o->kept.dir.fd >= 0) { // unpacked for its proof
			package_move(&o->kept, ret);
			return 0;
		}
		if (state_dir_stage(&o->memory, &o->store.layout, o->fetch.state, &o->kept, err) == 0) {
			provenance_remember(&o->store.layout, &o->kept.manifest);
			package_move(&o->kept, ret);
			return 0;
		}
		struct err damage = *err;
		if (damage.code != E_STORE_CORRUPT || store_quarantine(&o->store, o->kept.layer.digest, NULL, err) < 0)
			return -1;
		progress_note(o->node->progress, "%s; quarantined", damage.text);
		package_done(&o->kept);
		if (find_in_sources(o, err) < 0) {
			*err = damage;
			return -1;
		}
	}
	if (make_store(o, err) < 0 ||
	    store_room(&o->store, o->found.candidate.package.layer.size, &o->kernels, err) < 0 ||
	    fetch_take(&o->fetch, &o->want, &o->found, &o->store.layout, err) < 0)
		return -1;
	package_move(&o->found.candidate.package, ret);
	return 0;
}

int acquire_peek(struct acquire *o, struct package *ret, struct err *err)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_layout struct layout copy = LAYOUT_NONE;
	if (o->kept.count) {
		if (o->kept.dir.fd < 0 &&
		    state_dir_stage(&o->memory, &o->store.layout, o->fetch.state, &o->kept, err) < 0)
			return 0; // a damaged one is fetched again
		package_move(&o->kept, ret);
		return 1;
	}
	if (!o->found.candidate.package.count ||
	    repository_kind(o->fetch.from->items[o->found.source]) != REPOSITORY_LAYOUT)
		return 0;
	// Reads from this source alone: a damaged blob is no reason to download.
	const struct strv asked = { .items = o->fetch.from->items, .count = o->found.source + 1 };
	struct fetch fetch = o->fetch;
	fetch.from = &asked;
	if (scratch_make(o->fetch.state, "peek", &work, err) < 0 || layout_make(&work.root, &copy, err) < 0)
		return -1;
	if (fetch_take(&fetch, &o->want, &o->found, &copy, err) < 0)
		return asked.count < o->fetch.from->count ? 0 : -1;
	package_move(&o->found.candidate.package, ret);
	return 1;
}
