// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/prebuild_internal.h"

#include "base/process/idle.h"

#include <time.h>

enum { RETRY_FIRST_S = 15 * 60, RETRY_MOST_S = 24 * 60 * 60, DOUBLINGS_MAX = 7 };

static int64_t now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec;
}

static void failed(struct ahead *a, const struct err *why)
{
	struct forecast_kernel *e = a->entry;
	if (!err_info(why->code)->retryable) {
		forecast_say(e, FORECAST_IMPOSSIBLE, why->code, why->text);
		return;
	}
	int64_t pause = (int64_t)RETRY_FIRST_S << (e->tries < DOUBLINGS_MAX ? e->tries : DOUBLINGS_MAX);
	e->tries++;
	e->not_before_s = now_s() + (pause < RETRY_MOST_S ? pause : RETRY_MOST_S);
	forecast_say(e, FORECAST_NEEDS_BUILD, why->code, why->text);
}

// 1 = another node has made it.
static int compile(struct ahead *a, const struct compile_gate *gate, struct err *err)
{
	const struct prebuild *p = a->p;
	auto_package struct package package = PACKAGE_NONE;
	auto_compile_report struct compile_report report = { 0 };
	struct headers_offer offer = { .bring = obtain_headers, .ctx = &a->obtain };
	struct compile_wish wish = { .release = a->kernel->release,
				     .banner = a->banner,
				     .source = &p->source,
				     .headers = p->wish->headers,
				     .offer = &offer,
				     .builder = obtain_builder,
				     .builder_ctx = &a->obtain,
				     .modules = p->wish->modules,
				     .flavour = p->wish->flavour,
				     .gpus = &p->facts->gpus,
				     .host = &a->kernel->root,
				     .kern = p->kern,
				     .state = p->state,
				     .patches = p->wish->patches,
				     .jobs = p->wish->jobs,
				     .timeout_s = p->wish->timeout_s,
				     .is_rt_allowed = p->wish->is_rt_allowed,
				     .is_cache_off = p->wish->is_cache_off,
				     .output = obtain_output,
				     .output_ctx = &a->obtain };
	int made = gate_compile(gate, &wish, p->watch, &package, &report, err);
	if (made != 0)
		return made;
	if (ahead_prove(a, &package, err) == 0)
		return 0;
	ahead_put_aside(a, &package, err);
	return -1;
}

static enum flavour flavour_of(const struct prebuild *p)
{
	struct flavour_choice choice = { 0 };
	struct err ignored; // the compile has the words for it
	if (flavour_choose(&p->facts->gpus, p->source.version, p->wish->flavour, p->source.flavours, &choice,
			   &ignored) < 0)
		return p->wish->flavour;
	enum flavour flavour = choice.flavour;
	flavour_choice_done(&choice);
	return flavour;
}

// What another node made is proven here. One that does not fit is as good as none.
static int make(struct ahead *a, struct err *err)
{
	const struct prebuild *p = a->p;
	const struct prebuild_order order = { .obtain = &a->obtain,
					      .source = &p->source,
					      .flavour = flavour_of(p),
					      .release = a->kernel->release,
					      .build_id = a->build_id,
					      .arch = p->facts->host.arch };
	ahead_open_obtain(a);
	int made = compile(a, p->wish->share ? p->wish->share(p->wish->share_ctx, &order) : NULL, err);
	if (made <= 0)
		return made;
	if (ahead_obtain(a, err) > 0)
		return 0;
	watch_note(p->watch, "%s; this node compiles for itself", err->text);
	ahead_open_obtain(a);
	return compile(a, NULL, err);
}

void ahead_compile(struct ahead *a)
{
	struct err why;
	if (!a->p->wish->is_retry && a->entry->tries && now_s() < a->entry->not_before_s)
		return;
	auto_str char *text = str_fmt("driver %s is compiled for it now", a->p->source.version);
	forecast_say(a->entry, FORECAST_BUILDING, 0, text);
	// What can be said at once is said at once, on a machine that is never idle, too; from here on nobody waits.
	if (forecast_write(a->p->host, a->p->facts->host.boot_id, &a->p->forecast, &why) < 0 || idle_enter(&why) < 0)
		watch_note(a->p->watch, "%s", why.text);
	if (make(a, &why) < 0) {
		watch_fail(a->p->watch);
		failed(a, &why);
	}
}
