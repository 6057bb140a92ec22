// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/prebuild_internal.h"

#include "base/process/idle.h"

#include <time.h>

enum { RETRY_FIRST_S = 15 * 60, RETRY_MOST_S = 24 * 60 * 60, DOUBLINGS_MAX = 7 };

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
	struct headers_offer offer = { .bring = acquire_headers, .ctx = &a->acquire };
	struct compile_request request = { .release = a->kernel->release,
					   .banner = a->banner,
					   .source = &p->source,
					   .headers = p->request->headers,
					   .offer = &offer,
					   .builder = acquire_builder,
					   .builder_ctx = &a->acquire,
					   .modules = p->request->modules,
					   .flavour = p->request->flavour,
					   .gpus = &p->facts->gpus,
					   .host = &a->kernel->root,
					   .kern = p->kern,
					   .state = p->state,
					   .patches = p->request->patches,
					   .jobs = p->request->jobs,
					   .timeout_s = p->request->timeout_s,
					   .is_rt_allowed = p->request->is_rt_allowed,
					   .is_cache_off = p->request->is_cache_off,
					   .output = acquire_output,
					   .output_ctx = &a->acquire };
	int made = compile_gate_run(gate, &request, p->progress, &package, &report, err);
	if (made != 0)
		return made;
	if (prebuild_prove(a, &package, err) == 0)
		return 0;
	prebuild_quarantine(a, &package, err);
	return -1;
}

static enum flavour prebuild_flavour(const struct prebuild *p)
{
	struct gpu_support_choice choice = { 0 };
	struct err ignored; // the compile has the words for it
	if (gpu_support_choose(&p->facts->gpus, p->source.version, p->request->flavour, p->source.flavours, &choice,
			       &ignored) < 0)
		return p->request->flavour;
	enum flavour flavour = choice.flavour;
	gpu_support_choice_done(&choice);
	return flavour;
}

// What another node made is proven here. One that does not fit is as good as none.
static int make_candidate_package(struct prebuild_kernel *a, struct err *err)
{
	const struct prebuild *p = a->p;
	const struct prebuild_order order = { .acquire = &a->acquire,
					      .source = &p->source,
					      .flavour = prebuild_flavour(p),
					      .release = a->kernel->release,
					      .build_id = a->build_id,
					      .arch = p->facts->host.arch };
	prebuild_open_acquire(a);
	int made = compile_for_candidate(a, p->request->share ? p->request->share(p->request->share_ctx, &order) : NULL,
					 err);
	if (made <= 0)
		return made;
	if (prebuild_acquire(a, err) > 0)
		return 0;
	progress_note(p->progress, "%s; this node compiles for itself", err->text);
	prebuild_open_acquire(a);
	return compile_for_candidate(a, NULL, err);
}

void prebuild_compile(struct prebuild_kernel *a)
{
	struct err why;
	if (!a->p->request->is_retry && a->entry->tries && boottime_s() < a->entry->not_before_s)
		return;
	auto_str char *text = str_fmt("driver %s is compiled for it now", a->p->source.version);
	kernel_report_set(a->entry, KERNEL_BUILDING, 0, text);
	// What can be said at once is said at once, on a machine that is never idle, too; from here on nobody waits.
	if (kernel_report_write(a->p->host, a->p->facts->host.boot_id, &a->p->kernel_report, &why) < 0 ||
	    idle_enter(&why) < 0)
		progress_note(a->p->progress, "%s", why.text);
	if (make_candidate_package(a, &why) < 0) {
		progress_fail(a->p->progress);
		record_compile_failure(a, &why);
	}
}
