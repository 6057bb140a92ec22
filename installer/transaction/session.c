// SPDX-License-Identifier: Apache-2.0
#include "transaction/session_internal.h"

#include "base/process/log.h"
#include "host/modules.h"
#include "journal/node_lock.h"
#include "next_kernel/installed.h"

// What stays as it is needs no package.
static bool is_host_used(const struct session *s)
{
	return s->facts.existing_driver.is_foreign && s->request->host_driver == HOST_USE;
}

static int read_existing_driver(struct session *s, struct err *err)
{
	const struct store *store = acquire_has_store(&s->acquire) ? &s->acquire.store : NULL;
	return existing_driver_read(s->request->host, &s->facts.host, &s->facts.loaded, store, &s->params.blacklist,
				    &s->facts.existing_driver, err);
}

// What is loaded already needs nobody (P1).
static bool is_requested_driver_loaded(const struct session *s)
{
	return s->driver && str_eq(s->driver, s->facts.loaded.version);
}

// And it is the requested flavour, too: a package of another kernel is not looked for.
static bool is_request_loaded(const struct session *s)
{
	return is_requested_driver_loaded(s) &&
	       (!s->request->flavour || s->request->flavour == s->facts.loaded.flavour);
}

// A layout or a bundle on this machine is at hand; of any other source the time is worth telling.
static bool has_remote_source(const struct strv *from)
{
	for (size_t i = 0; from && i < from->count; i++)
		if (!str_starts(from->items[i], "oci:") && !str_starts(from->items[i], "oci-archive:"))
			return true;
	return false;
}

static int find_requested_package(struct session *s, struct err *err)
{
	struct acquire *o = &s->acquire;
	bool is_local = is_requested_driver_loaded(s), is_told = !is_local && has_remote_source(o->fetch.from);
	if (is_told)
		progress_enter(&s->progress, "find");
	if (acquire_find(o, is_local, err) < 0)
		return -1;
	const struct package *p = acquire_found(o);
	auto_str char *tag = p ? package_tag(&p->key) : str_dup("no package that fits");
	auto_str char *from = strv_join(o->fetch.from, ", ");
	log_debug("wanted: driver %s, %s, kernel %s, build id %.12s; asked: %s%s%s; found: %s%s%s",
		  o->want.driver ? o->want.driver : "any", o->want.flavour ? o->want.flavour : "any flavour",
		  o->want.release, o->want.build_id, o->is_named ? "" : "the store", *from && !is_local ? ", " : "",
		  is_local ? "" : from, tag, p ? " in " : ": ",
		  p          ? p->place :
		  o->why_not ? o->why_not :
			       "");
	if (is_told)
		progress_facts(&s->progress, json_pack("{s:o, s:o}", "package", json_text(p ? tag : NULL), "place",
						       json_text(p ? p->place : NULL)));
	if (is_told)
		progress_end(&s->progress, "find", "%s%s%s", tag, p ? " in " : "", p ? p->place : "");
	return p || is_request_loaded(s) ? 0 : acquire_find_compatible(o, err);
}

// What failed on this kernel while another one does well with it: parameters and hardware are not the package's.
static void refuse_failed_packages(struct session *s)
{
	for (size_t i = 0; i < s->journal.failure_count && !s->request->is_retry; i++) {
		const struct journal_failure *f = &s->journal.failures[i];
		if (f->driver.digest && str_eq(f->driver.kernel, s->facts.host.build_id) &&
		    !str_eq(f->code, "E_PARAM") && !str_eq(f->code, "E_NO_DEVICE"))
			strv_add(&s->acquire.refused, str_dup(f->driver.digest));
	}
}

static int find_package(struct session *s, struct err *err)
{
	const struct session_request *request = s->request;
	struct acquire *o = &s->acquire;
	char digest[DIGEST_HEX + 1];
	if (installed_kernels(request->host, s->facts.host.release, &o->kernels, err) < 0)
		return -1;
	o->is_named = request->is_named;
	o->gpus = &s->facts.gpus;
	o->progress = &s->progress;
	o->host = request->host;
	o->kern = request->kern;
	state_dir_init(&o->memory, o->host, o->kern, o->progress, !s->facts.loaded.version);
	o->banner = s->facts.host.banner;
	refuse_failed_packages(s);
	o->want = (struct package_want){ .driver = s->driver,
					 .digest = request->digest,
					 .flavour = request->flavour ? module_type_name(request->flavour) : NULL,
					 .release = s->facts.host.release,
					 .build_id = s->facts.host.build_id,
					 .arch = s->facts.host.arch,
					 .modules = request->modules };
	if (request->source && !request->is_named &&
	    source_digest(request->source, request->source_sha256, digest, err) < 0)
		return -1;
	o->want.source = request->source && !request->is_named ? digest : NULL;
	if (request->open_repositories(request->ctx, &s->state, &o->fetch, err) < 0)
		return -1;
	if (acquire_open_store(o, err) < 0 || read_existing_driver(s, err) < 0)
		return -1;
	int r = is_host_used(s) ? 0 : find_requested_package(s, err);
	o->want.source = NULL; // it was of this function
	return r;
}

char *session_source_path(const struct session *s)
{
	const struct session_request *request = s->request;
	return request->source                               ? str_dup(request->source) :
	       str_eq(s->acquire.carry.is.driver, s->driver) ? image_payload_source_path(&s->acquire.carry) :
							       NULL;
}

static int open_source(struct session *s, struct err *err)
{
	auto_str char *path = session_source_path(s);
	if (!path)
		return 0;
	if (scratch_make(&s->state, "source", &s->source_work, err) < 0)
		return -1;
	progress_enter(&s->progress, "source");
	if (source_open(path, s->request->source_sha256, &s->source_work.root, &s->source, err) < 0)
		return -1;
	progress_facts(&s->progress, json_pack("{s:s, s:s}", "driver", s->source.version, "sha256", s->source.digest));
	progress_end(&s->progress, "source", "%s, sha256 %.12s...", s->source.version, s->source.digest);
	return 0;
}

static bool is_source_needed(const struct session *s)
{
	return !is_host_used(s) && !acquire_found(&s->acquire) && facts_has_gpu(&s->facts) &&
	       !is_requested_driver_loaded(s);
}

// What an image carries is the request when nothing else says which driver is.
static int open_carried_payload(struct session *s, struct err *err)
{
	const struct session_request *request = s->request;
	struct image_payload *c = &s->acquire.carry;
	if (request->payload && image_payload_open(request->payload, c, err) < 0)
		return -1;
	if (!s->driver && !request->source && !request->is_named)
		s->driver = c->is.driver;
	if (request->payload && s->driver && !image_payload_matches(c, s->driver, s->facts.host.arch))
		progress_note(&s->progress, "the image carries driver %s for %s, requested is %s for %s", c->is.driver,
			      c->is.arch, s->driver, s->facts.host.arch);
	return 0;
}

// What is loaded may have changed until the lock was ours.
static int lock_node(struct session *s, struct err *err)
{
	const struct session_request *request = s->request;
	s->lock = node_lock_take(request->host, err);
	if (s->lock < 0)
		return -1;
	modules_done(&s->facts.loaded);
	return modules_read(request->host, request->kern, s->facts.host.release, &s->facts.loaded, err) < 0 ? -1 : 0;
}

// What is loaded may be changing now. In a boot whose kernel is stuck it will not stop to, and the plan says so.
static int wait_for_modules(struct session *s, bool is_change, struct err *err)
{
	const struct session_request *request = s->request;
	const struct loaded_module *restless = modules_pending(&s->facts.loaded);
	if (!restless || journal_is_wedged(&s->journal, s->facts.host.boot_id))
		return 0;
	if (!is_change) {
		progress_note(&s->progress, "module %s is %s: an install would wait for it", restless->name,
			      modules_state_name(restless->state));
		return 0;
	}
	modules_done(&s->facts.loaded);
	return modules_read_settled(request->host, request->kern, s->facts.host.release, request->unload_timeout_ms,
				    &s->progress, &s->facts.loaded, err);
}

static int collect_facts(struct session *s, bool is_change, struct err *err)
{
	const struct session_request *request = s->request;
	progress_enter(&s->progress, "detect");
	if (facts_read(s->request->host, s->request->kern, &s->facts, err) < 0 ||
	    (is_change && facts_has_gpu(&s->facts) && lock_node(s, err) < 0))
		return -1;
	progress_facts(&s->progress, json_pack("{s:o, s:i, s:i, s:o}", "kernel", json_text(s->facts.host.release),
					       "gpus", (int)gpus_count_ours(&s->facts.gpus, GPU_DISPLAY), "switches",
					       (int)gpus_count_ours(&s->facts.gpus, GPU_SWITCH), "driver",
					       json_text(s->facts.loaded.version)));
	progress_end(&s->progress, "detect", "kernel %s, %zu GPUs, %zu switches, driver %s", s->facts.host.release,
		     gpus_count_ours(&s->facts.gpus, GPU_DISPLAY), gpus_count_ours(&s->facts.gpus, GPU_SWITCH),
		     s->facts.loaded.version ? s->facts.loaded.version : "not loaded");
	if (!facts_has_gpu(&s->facts))
		return 0;
	if (request->check_inputs(request->ctx, err) < 0 || open_carried_payload(s, err) < 0 ||
	    request->open_state(request->ctx, &s->state, err) < 0 ||
	    journal_find(s->request->host, &s->state, &s->journal, err) < 0 ||
	    optional_modules_read(s->request->host, s->facts.host.boot_id, &s->failed, err) < 0 ||
	    wait_for_modules(s, is_change, err) < 0 ||
	    module_params_read(s->request->host, s->request->kern, s->request->kern, request->params, &s->facts.gpus,
			       &s->params, err) < 0 ||
	    find_package(s, err) < 0)
		return -1;
	return is_source_needed(s) ? open_source(s, err) : 0;
}

static bool has_unload(const struct plan *p)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->steps[i].kind == STEP_UNLOAD)
			return true;
	return false;
}

// Who holds the driver only matters when it would have to go, and looking at thousands of processes is not free.
static int make_plan(struct session *s, struct err *err)
{
	if (plan_make(&s->facts, &s->plan_request, &s->at_hand, NULL, &s->plan, err) < 0)
		return -1;
	if (!has_unload(&s->plan))
		return 0;
	plan_done(&s->plan);
	if (holders_find(s->request->kern, &s->facts.loaded, &s->holders, err) < 0 ||
	    holders_wait_omit_daemons(s->request->host, s->request->kern, &s->holders, err) < 0)
		return -1;
	if (plan_make(&s->facts, &s->plan_request, &s->at_hand, &s->holders, &s->plan, err) == 0)
		return 0;
	if (err->code == E_IN_USE)
		holders_wait_note(&s->progress, &s->holders);
	return -1;
}

static int make_session_plan(struct session *s, struct err *err)
{
	const struct session_request *request = s->request;
	s->plan_request = (struct request){ .driver = s->driver,
					    .flavour = request->flavour,
					    .modules = request->modules,
					    .params = &s->params,
					    .is_compile_forbidden = request->is_compile_forbidden || request->digest,
					    .holders = request->holders,
					    .is_retry = request->is_retry,
					    .host_driver = request->host_driver };
	s->at_hand = (struct at_hand){ .package = acquire_found(&s->acquire),
				       .compatible = s->acquire.compatible,
				       .is_named = s->acquire.is_named,
				       .package_why_not = s->acquire.why_not,
				       .package_code = s->acquire.code,
				       .journal = &s->journal,
				       .failed = &s->failed,
				       .source_version = s->source.version,
				       .source_flavours = s->source.flavours };
	if ((facts_has_gpu(&s->facts) && session_driver_root_find(s, err) < 0) || make_plan(s, err) < 0)
		return -1;
	if (s->plan.flavour_why)
		log_debug("flavour %s: %s", module_type_name(s->plan.flavour), s->plan.flavour_why);
	for (size_t i = 0; i < s->plan.count; i++)
		log_debug("step %zu: %s %s: %s", i + 1, plan_step_name(s->plan.steps[i].kind), s->plan.steps[i].subject,
			  s->plan.steps[i].why);
	return 0;
}

static void fill_apply(struct session *s, struct compile_request *compile, struct apply *ret)
{
	const struct session_request *request = s->request;
	*compile = (struct compile_request){
		.release = s->facts.host.release,
		.banner = s->facts.host.banner,
		.source = &s->source,
		.headers = request->headers,
		.modules = request->modules,
		.gpus = &s->facts.gpus,
		.host = s->request->host,
		.kern = s->request->kern,
		.state = &s->state,
		.patches = request->patches,
		.jobs = request->jobs,
		.timeout_s = request->compile_timeout_s,
		.is_rt_allowed = request->is_rt_allowed,
		.is_cache_off = request->is_cache_off,
	};
	*ret = (struct apply){
		.host = s->request->host,
		.kern = s->request->kern,
		.dev_root = request->dev_root,
		.sys = s->request->sys,
		.state = &s->state,
		.facts = &s->facts,
		.request = &s->plan_request,
		.plan = &s->plan,
		.acquire = &s->acquire,
		.export = s->driver_root.dir ? &s->driver_root : NULL,
		.compile = compile,
		.cdi = request->cdi,
		.imex_channels = request->imex_channels,
		.is_kept = request->has_daemons,
		.is_unproven_allowed = request->is_unproven_allowed,
		.compared = &s->compared,
		.load_timeout_ms = request->load_timeout_ms,
		.unload_timeout_ms = request->unload_timeout_ms,
		.holders_timeout_ms = request->holders_timeout_ms,
		.progress = &s->progress,
	};
}

static int recover_driver(struct session *s, const struct apply *apply, struct err *err)
{
	auto_status struct status status = { 0 };
	if (s->state.fd < 0 || apply->failure->code == E_MODULE_BUSY) // busy: another process loads or unloads
		return 0;
	s->acquire.fetch.state = &s->state;
	if (!s->acquire.fetch.now_trusted && !s->request->is_unverified) { // it ended before anybody asked
		trust_now(s->request->host, s->request->trust_dir, &s->trust);
		s->acquire.fetch.now_trusted = &s->trust;
	}
	modules_done(&s->facts.loaded);
	if (modules_read(s->request->host, s->request->kern, s->facts.host.release, &s->facts.loaded, err) < 0 ||
	    acquire_open_store(&s->acquire, err) < 0)
		return 0;
	return apply_last_good(apply, &status, err);
}

static void recover_session(struct session *s, const char *outcome, struct err *err)
{
	struct compile_request compile;
	struct apply apply;
	struct err why;
	bool ignored;
	if (s->state.fd >= 0 && session_driver_root_open(s, &ignored, &why) < 0)
		progress_note(&s->progress, "no user space is exported: %s", why.text);
	fill_apply(s, &compile, &apply);
	apply.failure = err;
	int r = recover_driver(s, &apply, &why);
	if (r > 0)
		progress_note(&s->progress, "fell back to the last good driver; the requested one is not loaded");
	else if (r < 0)
		err_wrap(err, "and the last good driver could not be brought back (%s)", why.text);
	else if (outcome)
		transaction_publish_failure(&apply, outcome, err);
}

int session_open(const struct session_request *request, bool is_change, struct session *ret, struct err *err)
{
	*ret = SESSION_NONE;
	ret->request = request;
	ret->driver = request->driver;
	ret->acquire.reuse = request->reuse;
	ret->progress = request->progress;
	if (collect_facts(ret, is_change, err) == 0 && make_session_plan(ret, err) == 0)
		return 0;
	progress_fail(&ret->progress);
	if (ret->lock >= 0)
		recover_session(ret, "refused", err);
	return -1;
}

void session_done(struct session *s)
{
	plan_done(&s->plan);
	driver_root_done(&s->driver_root);
	free(s->driver_root_why);
	holders_done(&s->holders);
	journal_done(&s->journal);
	source_done(&s->source);
	acquire_done(&s->acquire);
	trust_now_done(&s->trust);
	module_params_done(&s->params);
	optional_modules_done(&s->failed);
	facts_done(&s->facts);
	progress_done(&s->progress);
	scratch_done(&s->source_work);
	root_done(&s->state);
	close_fdp(&s->lock);
}

int session_stage(struct session *s, const struct compile_gate *gate, struct err *err)
{
	struct compile_request compile;
	struct apply apply;
	fill_apply(s, &compile, &apply);
	apply.gate = gate;
	return apply_stage(&apply, err);
}

int session_apply(struct session *s, const struct compile_gate *gate, struct status *ret, struct err *err)
{
	struct compile_request compile;
	struct apply apply;
	fill_apply(s, &compile, &apply);
	apply.gate = gate;
	if (s->at_hand.payload && !s->at_hand.export_why &&
	    driver_root_confirm(&s->driver_root, &s->driver_root_request, err) < 0)
		return -1;
	// Where nothing is to be exported that goes first, so that what is measured is what stays.
	if (!s->driver_root.dir && session_driver_root_withdraw(s, err) < 0)
		return -1;
	if (apply_plan(&apply, ret, err) == 0)
		return session_driver_root_withdraw(s, err);
	recover_session(s, NULL, err);
	return -1;
}
