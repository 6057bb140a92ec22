// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/prebuild_internal.h"

#include "acquire/check.h"
#include "host/module_set.h"
#include "kmod/module/prove.h"
#include "kmod/module/vmlinuz.h"

#include <fcntl.h>

// "Linux version ...": which build of the release it is. An image in a form that cannot be read says nothing.
static char *image_banner(const struct boot_candidate *k)
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

void prebuild_kernel_open(struct prebuild *p, size_t at, struct prebuild_kernel *ret)
{
	struct prebuild_kernel a = PREBUILD_KERNEL_NONE;
	a.p = p;
	a.entry = &p->kernel_report.items[at];
	for (size_t i = 0; i < p->boot_candidates.count; i++)
		if (str_eq(p->boot_candidates.items[i].release, a.entry->release))
			a.kernel = &p->boot_candidates.items[i];
	a.banner = image_banner(a.kernel);
	if (a.banner)
		digest_data(a.banner, strlen(a.banner), a.build_id);
	*ret = a;
}

void prebuild_kernel_done(struct prebuild_kernel *a)
{
	acquire_done(&a->acquire);
	free(a->banner);
	*a = PREBUILD_KERNEL_NONE;
}

void prebuild_open_acquire(struct prebuild_kernel *a)
{
	const struct prebuild *p = a->p;
	struct acquire *o = &a->acquire;
	acquire_done(o);
	o->fetch = *p->fetch;
	o->limit = p->request->store_limit;
	o->gpus = &p->facts->gpus;
	o->progress = p->progress;
	o->reuse = p->request->reuse;
	o->host = &a->kernel->root;
	o->kern = p->kern;
	o->banner = a->banner;
	for (size_t i = 0; i < p->kept.count; i++)
		strv_add(&o->kernels, str_dup(p->kept.items[i]));
	o->want = (struct package_want){ .driver = p->request->driver,
					 .flavour = p->request->flavour ? flavour_name(p->request->flavour) : NULL,
					 .release = a->kernel->release,
					 .build_id = *a->build_id ? a->build_id : NULL,
					 .arch = p->facts->host.arch,
					 .source = *p->source_digest ? p->source_digest : NULL,
					 .modules = p->request->modules };
}

// What the running kernel enforces because of its firmware, the next one will, too.
static int read_abi(const struct prebuild_kernel *a, struct kernel_abi *abi, struct err *err)
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
static bool is_requested_module(const struct prebuild_kernel *a, const char *module)
{
	const struct strv *modules = a->p->request->modules;
	if (modules->count)
		return strv_has(modules, module);
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++)
		if (str_eq(default_modules[i], module))
			return true;
	return false;
}

int prebuild_prove(const struct prebuild_kernel *a, const struct package *package, struct err *err)
{
	auto_strv struct strv files = { 0 };
	auto_module_set struct module_set set = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	for (size_t i = 0; i < package->count; i++)
		if (is_requested_module(a, package->files[i].module))
			strv_add(&files, str_dup(package->files[i].name));
	if (read_abi(a, &abi, err) < 0 || module_set_read(&package->dir, &files, &set, err) < 0)
		return -1;
	prove_modules(set.pointers, set.count, &abi, NULL, &proof);
	if (proof_error(&proof, err) < 0)
		return -1;
	auto_str char *tag = package_tag(&package->key), *text = str_fmt("%s: %s", tag, proof.text);
	kernel_report_set(a->entry, KERNEL_READY, 0, text);
	free(a->entry->package);
	a->entry->package = oci_digest_text(package->manifest.digest);
	return 0;
}

static bool was_proven(const struct prebuild_kernel *a)
{
	const struct kernel_report_entry *old = kernel_report_find(&a->p->before, a->kernel->release);
	auto_str char *digest = oci_digest_text(a->acquire.kept.manifest.digest);
	if (!a->acquire.kept.count || !old || old->verdict != KERNEL_READY || !str_eq(old->stamp, a->entry->stamp) ||
	    !str_eq(old->package, digest))
		return false;
	kernel_report_set(a->entry, KERNEL_READY, 0, old->evidence);
	a->entry->package = TAKE(digest);
	return true;
}

void prebuild_quarantine(struct prebuild_kernel *a, const struct package *package, const struct err *why)
{
	struct err err;
	bool is_bad = why->code == E_ABI || why->code == E_ELF || why->code == E_ARCH;
	if (!is_bad || store_quarantine(&a->acquire.store, package->layer.digest, NULL, &err) < 0)
		return;
	auto_str char *tag = package_tag(&package->key);
	progress_note(a->p->progress, "%s does not fit %s and is quarantined: %s", tag, a->kernel->release, why->text);
}

// What was made for another kernel is found again, and stays, as this one's.
static int remember_compatible(const struct prebuild_kernel *a, const struct package *package, struct err *err)
{
	const struct acquire *o = &a->acquire;
	if (!o->compatible || !*a->build_id)
		return 0;
	return store_set_reuse(&o->store, a->kernel->release, a->build_id, package->manifest.digest, err);
}

static int acquire_once(struct prebuild_kernel *a, bool is_local, struct err *why)
{
	auto_package struct package package = PACKAGE_NONE;
	struct acquire *o = &a->acquire;
	prebuild_open_acquire(a);
	int r = acquire_find(o, is_local, why);
	if (r == 0 && !is_local)
		r = acquire_find_compatible(o, why);
	if (r == 0)
		err_set(why, o->code ? o->code : E_NO_PACKAGE, "%s",
			o->why_not ? o->why_not : "the store has no package for it, and no source was named (--from)");
	if (r <= 0)
		return r;
	if (was_proven(a))
		return 1;
	if (acquire_take(o, &package, why) < 0)
		return -1;
	if (prebuild_prove(a, &package, why) == 0)
		return remember_compatible(a, &package, why) < 0 ? -1 : 1;
	if (!o->compatible)
		prebuild_quarantine(a, &package, why);
	return -1;
}

static bool has_sources(const struct prebuild *p)
{
	return p->fetch->from && p->fetch->from->count;
}

// What the store has may be bad; then the sources are asked as if it had nothing.
int prebuild_acquire(struct prebuild_kernel *a, struct err *why)
{
	struct err local;
	int r = acquire_once(a, true, &local);
	if (r <= 0 && acquire_once(a, false, why) > 0)
		return 1;
	if (r < 0 && !has_sources(a->p))
		*why = local;
	return r > 0;
}

static int open_prebuild_source(struct prebuild *p)
{
	if (p->source.version)
		return 0;
	if (p->unopened.code)
		return -1;
	if (scratch_make(p->state, "source", &p->source_work, &p->unopened) < 0 ||
	    source_open(p->request->source, p->request->source_sha256, &p->source_work.root, &p->source, &p->unopened) <
		    0)
		return -1;
	p->unopened.code = 0;
	return 0;
}

static int judge_candidate(struct prebuild_kernel *a, struct check_result *ret, struct err *err)
{
	struct prebuild *p = a->p;
	struct headers_offer offer = { .bring = acquire_headers, .ctx = &a->acquire };
	const char *signing = host_signing_reason(&p->facts->host);
	if (signing)
		return err_set(err, E_SIGNING_REQUIRED, "%s, so modules compiled here could not be loaded", signing);
	if (open_prebuild_source(p) < 0) {
		*err = p->unopened;
		return -1;
	}
	if (!str_eq(p->request->driver, p->source.version))
		return err_set(err, E_SOURCE, "the source is of driver %s, wished is %s", p->source.version,
			       p->request->driver);
	struct check_request request = { .release = a->kernel->release,
					 .banner = a->banner,
					 .headers = p->request->headers,
					 .offer = &offer,
					 .source = &p->source,
					 .flavour = p->request->flavour,
					 .gpus = &p->facts->gpus,
					 .host = &a->kernel->root,
					 .kern = p->kern,
					 .state = p->state,
					 .patches = p->request->patches,
					 .is_rt_allowed = p->request->is_rt_allowed };
	return check_kernel(&request, ret, err);
}

void prebuild_judge(struct prebuild_kernel *a)
{
	auto_check_result struct check_result result = { 0 };
	struct err why;
	if (judge_candidate(a, &result, &why) < 0)
		kernel_report_set(a->entry, KERNEL_IMPOSSIBLE, why.code, why.text);
	else if (result.code == E_TOOLCHAIN && has_sources(a->p)) // which may have a builder image
		kernel_report_set(a->entry, KERNEL_NEEDS_BUILD, result.code, result.reason);
	else
		kernel_report_set(a->entry,
				  result.verdict == VERDICT_IMPOSSIBLE ? KERNEL_IMPOSSIBLE : KERNEL_NEEDS_BUILD,
				  result.code, result.reason);
}
