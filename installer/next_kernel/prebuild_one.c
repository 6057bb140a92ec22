// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/prebuild_internal.h"

#include "acquire/check.h"
#include "host/module_set.h"
#include "kmod/module/prove.h"
#include "kmod/module/vmlinuz.h"

#include <fcntl.h>

// "Linux version ...": which build of the release it is. An image in a form that cannot be read says nothing.
static char *image_banner(const struct coming_kernel *k)
{
	auto_strv struct strv paths = { 0 };
	strv_add(&paths, str_fmt("boot/vmlinuz-%s", k->release));
	strv_add(&paths, str_fmt("lib/modules/%s/vmlinuz", k->release));
	for (size_t i = 0; i < paths.count; i++) {
		struct err ignored;
		auto_vmlinuz struct vmlinuz v = { 0 };
		auto_fd int fd = root_open(&k->root, paths.items[i], O_RDONLY | O_NONBLOCK, &ignored);
		if (fd >= 0 && vmlinuz_read(fd, paths.items[i], &v, &ignored) == 0)
			return TAKE(v.banner);
	}
	return NULL;
}

void ahead_open(struct prebuild *p, size_t at, struct ahead *ret)
{
	struct ahead a = AHEAD_NONE;
	a.p = p;
	a.entry = &p->forecast.items[at];
	for (size_t i = 0; i < p->coming.count; i++)
		if (str_eq(p->coming.items[i].release, a.entry->release))
			a.kernel = &p->coming.items[i];
	a.banner = image_banner(a.kernel);
	if (a.banner)
		digest_data(a.banner, strlen(a.banner), a.build_id);
	*ret = a;
}

void ahead_done(struct ahead *a)
{
	obtain_done(&a->obtain);
	free(a->banner);
	*a = AHEAD_NONE;
}

void ahead_open_obtain(struct ahead *a)
{
	const struct prebuild *p = a->p;
	struct obtain *o = &a->obtain;
	obtain_done(o);
	o->fetch = *p->fetch;
	o->limit = p->wish->store_limit;
	o->gpus = &p->facts->gpus;
	o->watch = p->watch;
	o->reuse = p->wish->reuse;
	o->host = &a->kernel->root;
	o->kern = p->kern;
	o->banner = a->banner;
	for (size_t i = 0; i < p->kept.count; i++)
		strv_add(&o->kernels, str_dup(p->kept.items[i]));
	o->want = (struct package_want){ .driver = p->wish->driver,
					 .flavour = p->wish->flavour ? flavour_name(p->wish->flavour) : NULL,
					 .release = a->kernel->release,
					 .build_id = *a->build_id ? a->build_id : NULL,
					 .arch = p->facts->host.arch,
					 .source = *p->source_digest ? p->source_digest : NULL,
					 .modules = p->wish->modules };
}

// What the running kernel enforces because of its firmware, the next one will, too.
static int read_abi(const struct ahead *a, struct kernel_abi *abi, struct err *err)
{
	const struct host *h = &a->p->facts->host;
	if (kernel_abi_read(abi, &a->kernel->root, a->p->kern, a->kernel->release, err) < 0)
		return -1;
	abi->is_sig_enforced |= h->is_sig_enforced;
	abi->is_locked_down |= h->lockdown == LOCKDOWN_INTEGRITY || h->lockdown == LOCKDOWN_CONFIDENTIALITY;
	abi->has_sig |= abi->is_sig_enforced || abi->is_locked_down;
	return 0;
}

// What is not going to be loaded needs not fit.
static bool is_of_wish(const struct ahead *a, const char *module)
{
	const struct strv *modules = a->p->wish->modules;
	if (modules->count)
		return strv_has(modules, module);
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++)
		if (str_eq(default_modules[i], module))
			return true;
	return false;
}

int ahead_prove(const struct ahead *a, const struct package *package, struct err *err)
{
	auto_strv struct strv files = { 0 };
	auto_module_set struct module_set set = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	for (size_t i = 0; i < package->count; i++)
		if (is_of_wish(a, package->files[i].module))
			strv_add(&files, str_dup(package->files[i].name));
	if (read_abi(a, &abi, err) < 0 || module_set_read(&package->dir, &files, &set, err) < 0)
		return -1;
	prove_modules(set.pointers, set.count, &abi, NULL, &proof);
	if (proof_error(&proof, err) < 0)
		return -1;
	auto_str char *tag = package_tag(&package->key), *text = str_fmt("%s: %s", tag, proof.text);
	forecast_say(a->entry, FORECAST_READY, 0, text);
	free(a->entry->package);
	a->entry->package = oci_digest_text(package->manifest.digest);
	return 0;
}

static bool was_proven(const struct ahead *a)
{
	const struct forecast_kernel *old = forecast_find(&a->p->before, a->kernel->release);
	auto_str char *digest = oci_digest_text(a->obtain.kept.manifest.digest);
	if (!a->obtain.kept.count || !old || old->verdict != FORECAST_READY || !str_eq(old->stamp, a->entry->stamp) ||
	    !str_eq(old->package, digest))
		return false;
	forecast_say(a->entry, FORECAST_READY, 0, old->evidence);
	a->entry->package = TAKE(digest);
	return true;
}

void ahead_put_aside(struct ahead *a, const struct package *package, const struct err *why)
{
	struct err err;
	bool is_bad = why->code == E_ABI || why->code == E_ELF || why->code == E_ARCH;
	if (!is_bad || store_quarantine(&a->obtain.store, package->layer.digest, NULL, &err) < 0)
		return;
	auto_str char *tag = package_tag(&package->key);
	watch_note(a->p->watch, "%s does not fit %s and is quarantined: %s", tag, a->kernel->release, why->text);
}

// What was made for another kernel is found again, and stays, as this one's.
static int remember(const struct ahead *a, const struct package *package, struct err *err)
{
	const struct obtain *o = &a->obtain;
	if (!o->compatible || !*a->build_id)
		return 0;
	return store_set_reuse(&o->store, a->kernel->release, a->build_id, package->manifest.digest, err);
}

static int obtain_once(struct ahead *a, bool is_local, struct err *why)
{
	auto_package struct package package = PACKAGE_NONE;
	struct obtain *o = &a->obtain;
	ahead_open_obtain(a);
	int r = obtain_look(o, is_local, why);
	if (r == 0 && !is_local)
		r = obtain_reuse(o, why);
	if (r == 0)
		err_set(why, o->code ? o->code : E_NO_PACKAGE, "%s",
			o->why_not ? o->why_not : "the store has no package for it, and no source was named (--from)");
	if (r <= 0)
		return r;
	if (was_proven(a))
		return 1;
	if (obtain_take(o, &package, why) < 0)
		return -1;
	if (ahead_prove(a, &package, why) == 0)
		return remember(a, &package, why) < 0 ? -1 : 1;
	if (!o->compatible)
		ahead_put_aside(a, &package, why);
	return -1;
}

static bool has_sources(const struct prebuild *p)
{
	return p->fetch->from && p->fetch->from->count;
}

// What the store has may be bad; then the sources are asked as if it had nothing.
int ahead_obtain(struct ahead *a, struct err *why)
{
	struct err local;
	int r = obtain_once(a, true, &local);
	if (r <= 0 && obtain_once(a, false, why) > 0)
		return 1;
	if (r < 0 && !has_sources(a->p))
		*why = local;
	return r > 0;
}

static int open_source(struct prebuild *p)
{
	if (p->source.version)
		return 0;
	if (p->unopened.code)
		return -1;
	if (scratch_make(p->state, "source", &p->source_work, &p->unopened) < 0 ||
	    source_open(p->wish->source, p->wish->source_sha256, &p->source_work.root, &p->source, &p->unopened) < 0)
		return -1;
	p->unopened.code = 0;
	return 0;
}

static int judge(struct ahead *a, struct verdict_result *ret, struct err *err)
{
	struct prebuild *p = a->p;
	struct headers_offer offer = { .bring = obtain_headers, .ctx = &a->obtain };
	const char *signing = host_signing_reason(&p->facts->host);
	if (signing)
		return err_set(err, E_SIGNING_REQUIRED, "%s, so modules compiled here could not be loaded", signing);
	if (open_source(p) < 0) {
		*err = p->unopened;
		return -1;
	}
	if (!str_eq(p->wish->driver, p->source.version))
		return err_set(err, E_SOURCE, "the source is of driver %s, wished is %s", p->source.version,
			       p->wish->driver);
	struct verdict_wish wish = { .release = a->kernel->release,
				     .banner = a->banner,
				     .headers = p->wish->headers,
				     .offer = &offer,
				     .source = &p->source,
				     .flavour = p->wish->flavour,
				     .gpus = &p->facts->gpus,
				     .host = &a->kernel->root,
				     .kern = p->kern,
				     .state = p->state,
				     .patches = p->wish->patches,
				     .is_rt_allowed = p->wish->is_rt_allowed };
	return verdict_make(&wish, ret, err);
}

void ahead_judge(struct ahead *a)
{
	auto_verdict struct verdict_result result = { 0 };
	struct err why;
	if (judge(a, &result, &why) < 0)
		forecast_say(a->entry, FORECAST_IMPOSSIBLE, why.code, why.text);
	else if (result.code == E_TOOLCHAIN && has_sources(a->p)) // which may have a builder image
		forecast_say(a->entry, FORECAST_NEEDS_BUILD, result.code, result.reason);
	else
		forecast_say(a->entry,
			     result.verdict == VERDICT_IMPOSSIBLE ? FORECAST_IMPOSSIBLE : FORECAST_NEEDS_BUILD,
			     result.code, result.reason);
}
