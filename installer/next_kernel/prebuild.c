// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/prebuild.h"

#include "acquire/check.h"
#include "acquire/signing.h"
#include "base/file/file.h"
#include "base/process/proc.h"
#include "host/module_set.h"
#include "kmod/module/proof.h"
#include "kmod/module/vmlinuz.h"
#include "kmod/source/recipe.h"
#include "precompiled/package/package.h"

#include <fcntl.h>
#include <inttypes.h>
#include <time.h>

enum { RETRY_FIRST_S = 15 * 60, RETRY_MOST_S = 24 * 60 * 60, DOUBLINGS_MAX = 7 };

// One kernel of a prebuild_run().
struct prebuild_kernel {
	struct prebuild *p;
	const struct boot_candidate *kernel;
	struct kernel_report_entry *entry;
	struct node node;              // this one, with the root that the kernel is in; its kernel runs nowhere yet
	char *banner;                  // of its image; NULL = not known
	char build_id[DIGEST_HEX + 1]; // of that
	struct acquire acquire;
};
#define PREBUILD_KERNEL_NONE ((struct prebuild_kernel){ .acquire = ACQUIRE_NONE })

// "Linux version ...": which build of the release it is. NULL for an image in an unknown format.
static char *image_banner(const struct boot_candidate *k)
{
	auto_strv struct strv paths = { 0 };
	strv_add(&paths, str_fmt("boot/vmlinuz-%s", k->release));
	strv_add(&paths, str_fmt("lib/modules/%s/vmlinuz", k->release));
	for (size_t i = 0; i < paths.count; i++) {
		struct err ignored;
		auto_vmlinuz struct vmlinuz v = { 0 };
		auto_fd int fd = root_open(&k->root, paths.items[i], O_RDONLY, &ignored);
		if (fd >= 0 && vmlinuz_read(fd, paths.items[i], &v, &ignored) == 0)
			return TAKE(v.banner);
	}
	return NULL;
}

static void open_prebuild_kernel(struct prebuild *p, size_t at, struct prebuild_kernel *ret)
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

static void prebuild_kernel_done(struct prebuild_kernel *a)
{
	acquire_done(&a->acquire);
	free(a->banner);
	*a = PREBUILD_KERNEL_NONE;
}
#define auto_prebuild_kernel __attribute__((cleanup(prebuild_kernel_done)))

// Anew for each question: what an earlier one found must not answer this one.
static void reset_acquire(struct prebuild_kernel *a)
{
	const struct prebuild *p = a->p;
	struct acquire *o = &a->acquire;
	acquire_done(o);
	o->fetch = *p->fetch;
	o->limit = p->scope->store_limit;
	o->gpus = &p->facts->gpus;
	o->request = p->request;
	o->node = &a->node;
	a->node = *p->node;
	a->node.host = &a->kernel->root;
	a->node.sys = NULL;
	o->banner = a->banner;
	for (size_t i = 0; i < p->kept.count; i++)
		strv_add(&o->kernels, str_dup(p->kept.items[i]));
	acquire_set_want(o, a->kernel->release, *a->build_id ? a->build_id : NULL, p->facts->host.arch,
			 host_signing_reason(&p->facts->host));
	o->want.source = *p->source_digest ? p->source_digest : NULL;
}

// Modules that will not be loaded need not fit.
static bool is_requested_module(const struct prebuild_kernel *a, const char *module)
{
	const struct strv *modules = &a->p->request->modules;
	if (modules->count)
		return strv_has(modules, module);
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++)
		if (str_eq(default_modules[i], module))
			return true;
	return false;
}

// Whether the unpacked package fits the kernel. Negative: E_ABI, ..., or a fault in the kernel's own files.
static int prove_for_kernel(const struct prebuild_kernel *a, const struct package *package, struct err *err)
{
	const struct host *h = &a->p->facts->host;
	auto_strv struct strv files = { 0 };
	auto_module_set struct module_set set = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	for (size_t i = 0; i < package->count; i++)
		if (is_requested_module(a, package->files[i].module))
			strv_add(&files, str_dup(package->files[i].name));
	if (kernel_abi_read(&abi, &a->kernel->root, a->p->node->kern, a->p->node->state, a->kernel->release, err) < 0)
		return -1;
	// What the running kernel enforces because of the firmware, the next one will enforce, too.
	abi.is_sig_enforced |= h->is_sig_enforced;
	abi.is_locked_down |= h->lockdown == LOCKDOWN_INTEGRITY || h->lockdown == LOCKDOWN_CONFIDENTIALITY;
	abi.has_sig |= abi.is_sig_enforced || abi.is_locked_down;
	if (module_set_read(&package->dir, &files, &set, err) < 0)
		return -1;
	proof_make(set.pointers, set.count, &abi, NULL, &proof);
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

static void quarantine_misfit(struct prebuild_kernel *a, const struct package *package, const struct err *why)
{
	struct err err;
	bool is_bad = why->code == E_ABI || why->code == E_ELF || why->code == E_ARCH;
	if (!is_bad || store_quarantine(&a->acquire.store, package->layer.digest, NULL, &err) < 0)
		return;
	auto_str char *tag = package_tag(&package->key);
	progress_note(a->p->node->progress, "%s does not fit %s and is quarantined: %s", tag, a->kernel->release,
		      why->text);
}

static int acquire_once(struct prebuild_kernel *a, bool is_local, struct err *why)
{
	auto_package struct package package = PACKAGE_NONE;
	struct acquire *o = &a->acquire;
	reset_acquire(a);
	int r = acquire_find(o, is_local, why);
	if (r == 0 && !is_local)
		r = acquire_find_compatible(o, why);
	if (r == 0)
		err_set(why, o->code ? o->code : E_NO_PACKAGE, "%s",
			o->why_not ? o->why_not :
				     "the store has no package for it, and neither a repository (--from) nor what to "
				     "compile (--source) is configured");
	if (r <= 0)
		return r;
	if (was_proven(a))
		return 1;
	if (acquire_take(o, &package, why) < 0)
		return -1;
	if (prove_for_kernel(a, &package, why) < 0) {
		if (!o->compatible)
			quarantine_misfit(a, &package, why);
		return -1;
	}
	// Another kernel's package that serves this one is recorded, so that it is found again and stays.
	return o->compatible && *a->build_id &&
			       store_set_reuse(&o->store, a->kernel->release, a->build_id, package.manifest.digest,
					       why) < 0 ?
		       -1 :
		       1;
}

static bool has_sources(const struct prebuild *p)
{
	return p->fetch->from && p->fetch->from->count;
}

// A package from the store or the sources, proven and kept in the store. 1 = there is one; 0 = none fits, see why.
// When the stored one is bad, the sources are asked as if the store had none.
static int acquire_for_kernel(struct prebuild_kernel *a, struct err *why)
{
	struct err local;
	int r = acquire_once(a, true, &local);
	if (r <= 0 && acquire_once(a, false, why) > 0)
		return 1;
	if (r < 0 && !has_sources(a->p))
		*why = local;
	return r > 0;
}

// Of this node's kernel; what belongs to one kernel is asked with reset_acquire().
static void open_node_acquire(const struct prebuild *p, struct acquire *ret)
{
	ret->fetch = *p->fetch;
	ret->limit = p->scope->store_limit;
	ret->node = p->node;
	ret->want.arch = p->facts->host.arch;
}

// What a compile is made from: the named source, else the one that came with the driver's user space. NULL = neither.
static const char *prebuild_source(struct prebuild *p)
{
	const struct request *w = p->request;
	auto_acquire struct acquire o = ACQUIRE_NONE;
	struct err why;
	if (w->source || p->is_stored_asked)
		return w->source ? w->source : p->stored_source;
	p->is_stored_asked = true;
	if (host_signing_reason(&p->facts->host) && !w->module_key.key) // its modules could not be loaded
		return NULL;
	open_node_acquire(p, &o);
	int r = acquire_payload_source(&o, w->driver, &p->stored_source, &why);
	if (r > 0)
		progress_note(p->node->progress, "no source was named: the one of the stored payload is asked");
	else if (r < 0)
		progress_note(p->node->progress, "no sources of the stored payload: %s", why.text);
	return p->stored_source;
}

static int open_prebuild_source(struct prebuild *p)
{
	if (p->source.version)
		return 0;
	if (p->unopened.code)
		return -1;
	if (scratch_make(p->node->state, "source", &p->source_work, &p->unopened) < 0 ||
	    source_open(prebuild_source(p), p->request->source_sha256, &p->source_work.root, &p->source, &p->unopened) <
		    0)
		return -1;
	p->unopened.code = 0;
	return 0;
}

static int judge_candidate(struct prebuild_kernel *a, struct check_result *ret, struct err *err)
{
	struct prebuild *p = a->p;
	const char *signing = host_signing_reason(&p->facts->host);
	if (signing && !p->request->module_key.key)
		return err_set(err, E_SIGNING_REQUIRED, "%s, so modules compiled here could not be loaded", signing);
	auto_str char *signer = NULL;
	if (signing_check(&p->facts->host, p->node->kern, &p->request->module_key, &signer, err) < 0)
		return -1;
	if (open_prebuild_source(p) < 0) {
		*err = p->unopened;
		return -1;
	}
	if (!str_eq(p->request->driver, p->source.version))
		return err_set(err, E_SOURCE, "the source is of driver %s, but %s was requested", p->source.version,
			       p->request->driver);
	struct check_request request = { .asked = p->request,
					 .release = a->kernel->release,
					 .banner = a->banner,
					 .offer = acquire_headers_offer(&a->acquire),
					 .source = &p->source,
					 .gpus = &p->facts->gpus,
					 .node = &a->node };
	return check_kernel(&request, ret, err);
}

// The verdict on a compile, without compiling.
static void judge_kernel(struct prebuild_kernel *a)
{
	auto_check_result struct check_result result = { 0 };
	struct err why;
	if (judge_candidate(a, &result, &why) < 0) {
		kernel_report_set(a->entry, KERNEL_IMPOSSIBLE, why.code, why.text);
		return;
	}
	bool has_builder = result.code == E_TOOLCHAIN && has_sources(a->p); // which may have a builder image
	kernel_report_set(a->entry,
			  result.verdict == VERDICT_IMPOSSIBLE && !has_builder ? KERNEL_IMPOSSIBLE : KERNEL_NEEDS_BUILD,
			  result.code, result.reason);
}

static int64_t boottime_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec;
}

static void record_compile_failure(struct prebuild_kernel *a, const struct err *why)
{
	struct kernel_report_entry *e = a->entry;
	if (!err_info(why->code)->retryable) {
		kernel_report_set(e, KERNEL_IMPOSSIBLE, why->code, why->text);
		return;
	}
	int64_t pause = (int64_t)RETRY_FIRST_S << (e->tries < DOUBLINGS_MAX ? e->tries : DOUBLINGS_MAX);
	e->tries++;
	e->not_before_s = boottime_s() + (pause < RETRY_MOST_S ? pause : RETRY_MOST_S);
	kernel_report_set(e, KERNEL_NEEDS_BUILD, why->code, why->text);
}

// 1 = another node has made it.
static int compile_for_candidate(struct prebuild_kernel *a, const struct compile_gate *gate, struct err *err)
{
	const struct prebuild *p = a->p;
	auto_package struct package package = PACKAGE_NONE;
	auto_compile_report struct compile_report report = { 0 };
	struct compile_request request = { .asked = p->request,
					   .release = a->kernel->release,
					   .banner = a->banner,
					   .source = &p->source,
					   .offer = acquire_headers_offer(&a->acquire),
					   .cores = acquire_core_offer(&a->acquire),
					   .builder = acquire_builder,
					   .builder_ctx = &a->acquire,
					   .flavour = p->request->flavour,
					   .gpus = &p->facts->gpus,
					   .node = &a->node,
					   .output = acquire_output,
					   .output_ctx = &a->acquire,
					   .gate = gate };
	int made = compile_package(&request, p->node->progress, &package, &report, err);
	if (made != 0)
		return made;
	if (prove_for_kernel(a, &package, err) == 0)
		return 0;
	quarantine_misfit(a, &package, err);
	return -1;
}

// Another node's package is proven here; one that does not fit counts as none.
static int make_candidate_package(struct prebuild_kernel *a, struct err *err)
{
	const struct prebuild *p = a->p;
	struct err ignored; // the compile reports it
	enum module_type flavour = p->request->flavour;
	gpu_support_choose(&p->facts->gpus, p->source.version, p->request->flavour, p->source.flavours, &flavour, NULL,
			   &ignored);
	const struct prebuild_scope *scope = p->scope;
	const struct compile_gate *gate = NULL;
	reset_acquire(a);
	if (scope->share)
		gate = scope->share(scope->share_ctx, &a->acquire, &p->source, flavour);
	int made = compile_for_candidate(a, gate, err);
	if (made <= 0)
		return made;
	if (acquire_for_kernel(a, err) > 0)
		return 0;
	progress_note(p->node->progress, "%s; this node compiles for itself", err->text);
	reset_acquire(a);
	return compile_for_candidate(a, NULL, err);
}

static void compile_for_kernel(struct prebuild_kernel *a)
{
	struct err why;
	if (!a->p->request->is_retry && a->entry->tries && boottime_s() < a->entry->not_before_s)
		return;
	auto_str char *text = str_fmt("compiling driver %s for it now", a->p->source.version);
	kernel_report_set(a->entry, KERNEL_BUILDING, 0, text);
	// Reported before the wait for idle time, which may never come; from here on nothing waits for us.
	if (kernel_report_write(a->p->node->host, a->p->facts->host.boot_id, &a->p->kernel_report, &why) < 0 ||
	    proc_idle(&why) < 0)
		progress_note(a->p->node->progress, "%s", why.text);
	if (make_candidate_package(a, &why) < 0) {
		auto_str char *newer = recipe_newer_kernel(a->p->source.version, a->kernel->release);
		if (newer && why.code == E_BUILD)
			err_wrap(&why, "the kernel is %s", newer);
		progress_fail(a->p->node->progress);
		record_compile_failure(a, &why);
	}
}

int prebuild_choose(const struct prebuild_drivers *known, struct request *request, struct err *err)
{
	const char *const drivers[] = { known->requested, known->of_source, known->of_image, known->loaded->version,
					known->last_good };
	for (size_t i = 0; i < ARRAY_SIZE(drivers) && !request->driver; i++)
		request->driver = drivers[i];
	if (!request->driver)
		return err_set(err, E_USAGE, "no driver is loaded, and none is named: --driver, --source or --payload");
	if (request->flavour == MODULE_TYPE_AUTO && str_eq(request->driver, known->loaded->version))
		request->flavour = known->loaded->flavour;
	return 0;
}

void prebuild_done(struct prebuild *p)
{
	kernel_report_done(&p->kernel_report);
	kernel_report_done(&p->before);
	boot_candidates_done(&p->boot_candidates);
	strv_done(&p->kept);
	source_done(&p->source);
	scratch_done(&p->source_work);
	free(p->stored_source);
}

// The payload whose sources would be compiled.
static void add_payload_stamp(const struct prebuild *p, char **text)
{
	auto_acquire struct acquire o = ACQUIRE_NONE;
	auto_str char *why = NULL;
	struct err ignored;
	open_node_acquire(p, &o);
	if (acquire_find_payload(&o, p->request->driver, true, &why, &ignored) > 0)
		str_add(text, " %s", o.payload);
}

// What a verdict depends on beside the kernel's own files, this program included.
static void make_inputs(struct prebuild *p)
{
	const struct request *w = p->request;
	const char *signing = host_signing_reason(&p->facts->host);
	auto_str char *modules = strv_join(&w->modules, ","),
		      *text = str_fmt("%s %s %s %s %s %d %d %s", KMODSMITH_VERSION, reuse_name(w->reuse), w->driver,
				      module_type_name(w->flavour), modules, w->options.is_rt_allowed,
				      w->is_compile_forbidden, signing ? signing : "");
	if (w->source)
		file_add_stamp(&text, w->source);
	else
		add_payload_stamp(p, &text);
	for (size_t i = 0; i < w->headers.count; i++)
		file_add_stamp(&text, w->headers.items[i]);
	if (w->options.patches)
		file_add_stamp(&text, w->options.patches->name);
	digest_data(text, strlen(text), p->inputs);
}

static struct kernel_report_entry make_report_entry(const struct prebuild *p, const struct boot_candidate *k)
{
	const struct kernel_report_entry *old = kernel_report_find(&p->before, k->release);
	struct kernel_report_entry e = { .release = str_dup(k->release),
					 .where = str_dup(k->where),
					 .is_next = k->is_next };
	auto_str char *both = str_fmt("%s %s", p->inputs, k->stamp);
	digest_data(both, strlen(both), e.stamp);
	kernel_report_set(&e, KERNEL_NEEDS_BUILD, 0, "not checked yet");
	if (old && str_eq(old->stamp, e.stamp)) {
		e.tries = old->tries;
		e.not_before_s = old->not_before_s;
	}
	return e;
}

static int list_report_candidates(struct prebuild *p, struct err *err)
{
	struct kernel_report *f = &p->kernel_report;
	const struct strv *only = p->scope->only;
	const char *running = p->facts->host.release;
	if (boot_candidates_read(p->node->host, running, p->scope->roots, &p->boot_candidates, err) < 0 ||
	    boot_installed_kernels(p->node->host, running, &p->kept, err) < 0)
		return -1;
	*f = (struct kernel_report){ .running = str_dup(running),
				     .driver = str_dup(p->request->driver),
				     .is_gated = p->scope->is_gated };
	f->items = mem_alloc((p->boot_candidates.count + 1) * sizeof(*f->items));
	for (size_t i = 0; i < p->boot_candidates.count; i++) {
		const struct boot_candidate *k = &p->boot_candidates.items[i];
		if (!only || !only->count || strv_has(only, k->release))
			f->items[f->count++] = make_report_entry(p, k);
		if (!strv_has(&p->kept, k->release))
			strv_add(&p->kept, str_dup(k->release));
	}
	for (size_t i = 0; only && i < only->count; i++)
		if (!kernel_report_find(f, only->items[i]))
			return err_set(err, E_NOT_FOUND, "this machine has no kernel '%s' beside the running %s",
				       only->items[i], running);
	return 0;
}

// Releases of every package in the store, except these.
static int list_stored(const struct store *s, const struct strv *but, struct strv *ret, struct err *err)
{
	auto_oci_index struct oci_index all = { 0 };
	if (layout_index(&s->layout, &all, err) < 0)
		return -1;
	for (size_t i = 0; i < all.count; i++) {
		struct err ignored;
		auto_package struct package p = PACKAGE_NONE;
		if (package_read(&s->layout, &all.items[i], &p, &ignored) > 0 && !strv_has(but, p.key.release))
			strv_add(ret, str_dup(p.key.release));
	}
	return 0;
}

// Packages of kernels that were there at the last run and are gone: they can no longer be loaded.
static int collect_removed_kernels(const struct prebuild *p, struct err *err)
{
	auto_store struct store s = STORE_NONE;
	auto_strv struct strv removed = { 0 }, stay = { 0 };
	auto_store_garbage struct store_garbage g = { 0 };
	for (size_t i = 0; i < p->before.count; i++)
		if (!strv_has(&p->kept, p->before.items[i].release))
			strv_add(&removed, str_dup(p->before.items[i].release));
	if (!removed.count || !store_exists(p->node->state))
		return 0;
	for (size_t i = 0; i < p->kept.count; i++) // one that serves another kernel than it was made for
		strv_add(&stay, str_dup(p->kept.items[i]));
	if (store_open(p->node->state, 0, &s, err) < 0 || list_stored(&s, &removed, &stay, err) < 0 ||
	    store_gc(&s, &stay, false, &g, err) < 0)
		return -1;
	for (size_t i = 0; i < g.packages.count; i++)
		progress_note(p->node->progress, "removing %s from the store: its kernel was removed",
			      g.packages.items[i]);
	return 0;
}

// Reuses an earlier verdict that only other inputs can change. A builder image may appear in the sources at any time,
// and a disk be writable again.
static bool is_verdict_final(const struct prebuild *p, struct kernel_report_entry *e)
{
	const struct kernel_report_entry *old = kernel_report_find(&p->before, e->release);
	if (p->request->is_retry || !old || !str_eq(old->stamp, e->stamp) || old->verdict != KERNEL_IMPOSSIBLE ||
	    !old->code || old->code == E_TOOLCHAIN || old->code == E_READ_ONLY || err_info(old->code)->retryable)
		return false;
	kernel_report_set(e, old->verdict, old->code, old->evidence);
	return true;
}

static void look_at_candidate(struct prebuild *p, size_t at)
{
	struct err why;
	auto_prebuild_kernel struct prebuild_kernel a = PREBUILD_KERNEL_NONE;
	open_prebuild_kernel(p, at, &a);
	if (a.kernel->lacks) {
		auto_str char *text =
			str_fmt("%s yet: it is still being installed, or was installed only in part", a.kernel->lacks);
		kernel_report_set(a.entry, KERNEL_INCOMPLETE, 0, text);
	} else if (acquire_for_kernel(&a, &why) == 0) {
		if (p->request->is_compile_forbidden || !prebuild_source(p))
			kernel_report_set(a.entry, KERNEL_IMPOSSIBLE, why.code, why.text);
		else if (!is_verdict_final(p, a.entry))
			judge_kernel(&a);
	}
}

static bool is_kernel_removed(const struct boot_candidate *k)
{
	auto_str char *path = str_fmt("lib/modules/%s/modules.builtin", k->release);
	return !root_exists(&k->root, path);
}

static void drop_report_entry(struct kernel_report *f, size_t at)
{
	struct kernel_report gone = { .items = mem_alloc(sizeof(*gone.items)), .count = 1 };
	gone.items[0] = f->items[at];
	memmove(&f->items[at], &f->items[at + 1], (--f->count - at) * sizeof(*f->items));
	kernel_report_done(&gone);
}

static int compile_candidates(struct prebuild *p, struct err *err)
{
	struct kernel_report *f = &p->kernel_report;
	unsigned begun = 0;
	for (size_t i = 0; i < f->count; i++) {
		auto_prebuild_kernel struct prebuild_kernel a = PREBUILD_KERNEL_NONE;
		if (f->items[i].verdict != KERNEL_NEEDS_BUILD)
			continue;
		if (begun++ >= p->scope->limit) {
			auto_str char *text = str_fmt("%s; not built in this run because of --limit %u",
						      f->items[i].evidence, p->scope->limit);
			kernel_report_set(&f->items[i], KERNEL_NEEDS_BUILD, 0, text);
			continue;
		}
		open_prebuild_kernel(p, i, &a);
		bool is_removed = is_kernel_removed(a.kernel);
		if (!is_removed) {
			progress_note(p->node->progress, "kernel %s: building a package", a.kernel->release);
			compile_for_kernel(&a);
			is_removed = a.entry->verdict != KERNEL_READY && is_kernel_removed(a.kernel);
		}
		if (is_removed) {
			progress_note(p->node->progress, "kernel %s was removed meanwhile", f->items[i].release);
			drop_report_entry(f, i--);
		}
		if (kernel_report_write(p->node->host, p->facts->host.boot_id, f, err) < 0)
			return -1;
	}
	return 0;
}

int prebuild_run(struct prebuild *p, struct err *err)
{
	const char *boot_id = p->facts->host.boot_id;
	const struct request *w = p->request;
	struct kernel_report *f = &p->kernel_report;
	struct err why;
	make_inputs(p);
	if (w->source && source_digest(w->source, w->source_sha256, p->source_digest, err) < 0)
		return -1;
	if (kernel_report_read(p->node->host, boot_id, &p->before, err) < 0 || list_report_candidates(p, err) < 0)
		return -1;
	if (collect_removed_kernels(p, &why) < 0)
		progress_note(p->node->progress,
			      "packages of removed kernels stay in the store until `kmodsmith store gc`: %s", why.text);
	for (size_t i = 0; i < f->count; i++)
		look_at_candidate(p, i);
	if (kernel_report_write(p->node->host, boot_id, f, err) < 0 || compile_candidates(p, err) < 0 ||
	    kernel_report_write(p->node->host, boot_id, f, err) < 0)
		return -1;
	for (size_t i = 0; i < f->count; i++)
		if (f->items[i].verdict != KERNEL_READY)
			return 0;
	return 1;
}
