// SPDX-License-Identifier: Apache-2.0
#include "transaction/session.h"

#include "acquire/signing.h"
#include "acquire/source_url.h"
#include "base/process/log.h"
#include "driver_root/modules_dir.h"
#include "driver_root/root_record.h"
#include "host/modules.h"
#include "journal/node_lock.h"
#include "next_kernel/boot_candidates.h"
#include "transaction/transaction_internal.h"

#include <stdio.h>

// A host driver that stays needs no package.
static bool is_host_used(const struct session *s)
{
	return s->facts.existing_driver.is_foreign && s->request->host_driver == HOST_USE;
}

// A driver that is already loaded, in the requested flavour, needs no repository (P1).
static bool is_requested_driver_loaded(const struct session *s)
{
	return s->request->driver && str_eq(s->request->driver, s->facts.loaded.version) &&
	       (!s->request->flavour || s->request->flavour == s->facts.loaded.flavour);
}

// A file's beginning tells its version, a URL's name may. What does not, or cannot be read, is refused once needed.
static char *source_driver(const struct session *s)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_source struct source source = { .root = ROOT_NONE };
	struct err ignored;
	if (s->caller->fetch_source)
		return source_url_driver(s->request->source);
	return scratch_make(&s->state, "peek", &work, &ignored) == 0 &&
			       source_peek(s->request->source, &work.root, &source, &ignored) > 0 ?
		       TAKE(source.version) :
		       NULL;
}

static int compare_source(struct session *s, struct err *err)
{
	const struct request *request = s->request;
	bool is_due = s->request->driver && request->source && (request->is_source_spare || request->is_source_bound);
	auto_str char *version = is_due ? source_driver(s) : NULL;
	if (!version || str_eq(version, s->request->driver))
		return 0;
	auto_str char *shown = s->caller->fetch_source ? http_url_shown(request->source) : str_dup(request->source);
	if (request->is_source_bound && request->is_driver_typed) {
		plan_refuse_source(s->request->driver, version, s->facts.host.arch, err);
		return err_wrap(err, "--source '%s'", shown);
	}
	s->is_source_other = true;
	log_warn("source '%s' is of driver %s and does not count: %s was requested", shown, version,
		 s->request->driver);
	return 0;
}

// A package of another driver than the one named with it. One of the same driver, or that is not to be had, is not
// looked at further.
static int refuse_other_package(struct session *s, struct err *err)
{
	struct acquire *o = &s->acquire;
	struct err ignored;
	if (!s->request->is_package_bound || !s->request->is_named || !s->request->driver)
		return 0;
	o->want.driver = NULL;
	int r = acquire_find(o, false, &ignored);
	o->want.driver = s->request->driver;
	if (r <= 0 || str_eq(acquire_found(o)->key.driver, s->request->driver)) {
		acquire_forget(o);
		return 0;
	}
	err_set(err, E_USAGE, "driver %s was requested, but --package '%s' is of driver %s", s->request->driver,
		o->fetch.from->items[0], acquire_found(o)->key.driver);
	return err_next(err, "leave out --driver (DRIVER_VERSION), or name a package of it");
}

static int find_requested_package(struct session *s, struct err *err)
{
	struct acquire *o = &s->acquire;
	const struct strv *asked = o->fetch.from;
	bool is_local = is_requested_driver_loaded(s), is_told = false;
	// A package typed with the driver is compared with it, if that costs no network. A loaded driver stays all the
	// same: the package may have been replaced since, or be away.
	bool is_compared = is_local && s->request->is_driver_typed && asked && asked->count &&
			   !repository_is_remote(asked->items[0]);
	if (is_compared && refuse_other_package(s, err) < 0)
		return -1;
	// A search on this machine is quick; for a remote source the time is worth showing.
	for (size_t i = 0; !is_local && asked && i < asked->count; i++)
		is_told |= repository_is_remote(asked->items[i]);
	if (is_told)
		progress_enter(&s->progress, "find");
	if (acquire_find(o, is_local, err) < 0 || (!is_local && !acquire_found(o) && refuse_other_package(s, err) < 0))
		return -1;
	// The package of the loaded driver may lack a module: it is found without that demand.
	if (is_local && !acquire_found(o) && o->want.serves) {
		o->want.serves = NULL;
		int r = acquire_find(o, true, err);
		o->want.serves = acquire_has_core;
		if (r < 0)
			return -1;
	}
	const struct package *p = acquire_found(o);
	auto_str char *tag = p ? package_tag(&p->key) : str_dup("no package that fits");
	auto_str char *from = strv_join(asked, ", ");
	log_debug("wanted: driver %s, %s, kernel %s, build id %.12s; asked: %s%s%s; found: %s%s%s",
		  o->want.driver ? o->want.driver : "any", o->want.flavour ? o->want.flavour : "any flavour",
		  o->want.release, o->want.build_id, s->request->is_named ? "" : "the store",
		  *from && !is_local ? ", " : "", is_local ? "" : from, tag, p ? " in " : ": ",
		  p          ? p->place :
		  o->why_not ? o->why_not :
			       "");
	if (is_told) {
		progress_facts(&s->progress, json_pack("{s:o, s:o}", "package", json_text(p ? tag : NULL), "place",
						       json_text(p ? p->place : NULL)));
		progress_end(&s->progress, "find", "%s%s%s", tag, p ? " in " : "", p ? p->place : "");
	}
	// With the requested modules loaded a package of another kernel is not looked for.
	return p || is_requested_driver_loaded(s) ? 0 : acquire_find_compatible(o, err);
}

// From here on it is as if the version had been named. A driver that works is not replaced by an older one, whatever
// sources can be reached.
static int choose_of_branch(struct session *s, struct err *err)
{
	const char *branch = s->request->branch, *loaded = s->facts.loaded.version;
	auto_str char *place = NULL, *name = str_fmt("%s%s", *branch ? "branch " : "any branch", branch);
	bool has_source = s->request->source && !s->request->is_source_spare;
	if (has_source || s->request->is_named || s->request->digest)
		return err_set(err, E_USAGE,
			       "%s was requested, and --source, --package or --digest say which driver: leave one out",
			       name);
	struct err why;
	progress_enter(&s->progress, "choose");
	int r = acquire_newest(&s->acquire, branch, &s->newest, &place, &why);
	if (loaded && package_is_of_branch(loaded, branch) && (r == 0 || str_version_cmp(loaded, s->newest) >= 0)) {
		if (r == 0)
			progress_note(&s->progress, "%s", why.text);
		str_set(&s->newest, loaded);
		str_set(&place, "the kernel: it is loaded");
	} else if (r == 0) {
		err_set(err, why.code, "no package of %s for kernel %s: %s", name, s->node.release, why.text);
		return why.code != E_NO_PACKAGE ? -1 :
						  err_next(err,
							   "name where packages are: --from docker://HOST/NAME; or "
							   "compile one: --source NVIDIA-Linux-%s-VERSION.run",
							   s->facts.host.arch);
	}
	s->request->driver = s->newest;
	progress_facts(&s->progress, json_pack("{s:s, s:s}", "driver", s->request->driver, "place", place));
	progress_end(&s->progress, "choose", "driver %s: the newest of %s, in %s", s->request->driver, name, place);
	return 0;
}

static int find_package(struct session *s, struct err *err)
{
	const struct request *request = s->request;
	const struct host *host = &s->facts.host;
	struct acquire *o = &s->acquire;
	char digest[DIGEST_HEX + 1];
	if (boot_installed_kernels(s->node.host, host->release, &o->kernels, err) < 0)
		return -1;
	o->gpus = &s->facts.gpus;
	o->banner = host->banner;
	state_dir_init(&o->memory, &s->node, !s->facts.loaded.version);
	// A failure by its parameters or the hardware says nothing about the package.
	for (size_t i = 0; i < s->journal.failure_count && !request->is_retry; i++) {
		const struct journal_failure *f = &s->journal.failures[i];
		if (f->driver.digest && str_eq(f->driver.kernel, host->build_id) && !str_eq(f->code, "E_PARAM") &&
		    !str_eq(f->code, "E_NO_DEVICE"))
			strv_add(&o->refused, str_dup(f->driver.digest));
	}
	if (compare_source(s, err) < 0)
		return -1;
	bool has_source = request->source && !request->is_named && !request->is_source_spare && !s->is_source_other;
	if (has_source && s->caller->fetch_source) // a package of it may do
		memcpy(digest, request->source_sha256, sizeof(digest));
	else if (has_source && source_digest(request->source, request->source_sha256, digest, err) < 0)
		return -1;
	acquire_set_want(o, host->release, host->build_id, host->arch, host_signing_reason(host));
	o->want.serves = acquire_has_core;
	o->want.ctx = &request->modules;
	o->want.source = has_source ? digest : NULL;
	if (s->caller->open_repositories(s->caller->ctx, &s->state, &o->fetch, err) < 0 ||
	    acquire_open_store(o, err) < 0)
		return -1;
	if (existing_driver_read(s->node.host, host, &s->facts.loaded, acquire_has_store(o) ? &o->store : NULL,
				 &s->params.blacklist, &s->facts.existing_driver, err) < 0)
		return -1;
	if (request->branch && !is_host_used(s)) {
		if (choose_of_branch(s, err) < 0)
			return -1;
		o->want.driver = s->request->driver;
		o->want.branch = request->branch; // the other flavour will do, where this one is not trusted
		if (compare_source(s, err) < 0)
			return -1;
	}
	int r = is_host_used(s) ? 0 : find_requested_package(s, err);
	o->want.source = NULL; // it pointed into this function
	return r;
}

// The sources that came with the user space of the requested driver: in the image, or in what this node keeps. The
// latter nobody named: where its modules could not be loaded, it is as if it were not there.
static char *payload_source(struct session *s)
{
	const struct request *request = s->request;
	char *path = NULL;
	struct err why;
	if (str_eq(s->acquire.carry.is.driver, s->request->driver))
		return image_payload_source_path(&s->acquire.carry);
	bool is_loadable = request->module_key.key || !host_signing_reason(&s->facts.host);
	if (s->request->driver && is_loadable && !request->is_named && !request->digest &&
	    !request->is_compile_forbidden && acquire_payload_source(&s->acquire, s->request->driver, &path, &why) < 0)
		progress_note(&s->progress, "no sources of the stored payload: %s", why.text);
	return path;
}

static int open_source(struct session *s, struct err *err)
{
	const struct request *request = s->request;
	bool is_named = request->source && !s->is_source_other, is_fetched = is_named && s->caller->fetch_source;
	if (is_fetched) {
		progress_enter(&s->progress, "source");
		if (s->caller->fetch_source(s->caller->ctx, &s->state, &s->source_path, err) < 0)
			return -1;
	} else {
		s->source_path = is_named ? str_dup(request->source) : payload_source(s);
	}
	const char *path = s->source_path;
	if (!path)
		return 0;
	// Before anything is unpacked: a key that is away, or that the kernel does not know, ends it in a moment.
	if (signing_check(&s->facts.host, s->node.kern, &request->module_key, &s->signer, err) < 0 ||
	    scratch_make(&s->state, "source", &s->source_work, err) < 0)
		return -1;
	if (!is_fetched)
		progress_enter(&s->progress, "source");
	if (source_open(path, is_named ? request->source_sha256 : NULL, &s->source_work.root, &s->source, err) < 0)
		return -1;
	progress_facts(&s->progress, json_pack("{s:s, s:s}", "driver", s->source.version, "sha256", s->source.digest));
	progress_end(&s->progress, "source", "%s%s, sha256 %.12s...", s->source.version,
		     is_named ? "" : " of the stored payload", s->source.digest);
	return 0;
}

// The image's driver is requested when nothing else names one.
static int open_carried_payload(struct session *s, struct err *err)
{
	const struct request *request = s->request;
	struct image_payload *c = &s->acquire.carry;
	if (request->payload && image_payload_open(request->payload, c, err) < 0)
		return -1;
	if (!s->request->driver && !request->branch && !request->source && !request->is_named)
		s->request->driver = c->is.driver;
	if (request->payload && s->request->driver && !image_payload_matches(c, s->request->driver, s->facts.host.arch))
		progress_note(&s->progress, "the image carries driver %s for %s, requested is %s for %s", c->is.driver,
			      c->is.arch, s->request->driver, s->facts.host.arch);
	return 0;
}

// Modules may be loading or unloading right now. With a stuck kernel that never ends, and the plan says so.
static int wait_for_modules(struct session *s, bool is_change, struct err *err)
{
	const struct request *request = s->request;
	const struct loaded_module *restless = modules_pending(&s->facts.loaded);
	if (!restless || journal_is_wedged(&s->journal, s->node.boot))
		return 0;
	if (!is_change) {
		progress_note(&s->progress, "module %s is %s: an install would wait for it", restless->name,
			      modules_state_name(restless->state));
		return 0;
	}
	modules_done(&s->facts.loaded);
	return modules_read_settled(s->node.host, s->node.kern, s->node.release, request->unload_timeout_ms,
				    &s->progress, &s->facts.loaded, err);
}

static int collect_facts(struct session *s, bool is_change, struct err *err)
{
	const struct request *request = s->request;
	progress_enter(&s->progress, "detect");
	if (facts_read(s->node.host, s->node.kern, &s->facts, err) < 0)
		return -1;
	if (request->is_from_vfio)
		gpus_reclaim(&s->facts.gpus);
	s->node.boot = s->facts.host.boot_id;
	s->node.release = s->facts.host.release;
	bool has_gpu = facts_has_gpu(&s->facts);
	if (is_change && has_gpu) {
		s->lock = node_lock_take(s->node.host, NODE_LOCK_CHANGE, err);
		if (s->lock < 0)
			return -1;
		modules_done(&s->facts.loaded); // they may have changed before we got the lock
		if (modules_read(s->node.host, s->node.kern, s->node.release, &s->facts.loaded, err) < 0)
			return -1;
	}
	size_t gpus = gpus_count_ours(&s->facts.gpus, GPU_DISPLAY);
	size_t switches = gpus_count_ours(&s->facts.gpus, GPU_SWITCH);
	progress_facts(&s->progress,
		       json_pack("{s:o, s:i, s:i, s:o}", "kernel", json_text(s->node.release), "gpus", (int)gpus,
				 "switches", (int)switches, "driver", json_text(s->facts.loaded.version)));
	auto_str char *counted = gpus_text(&s->facts.gpus);
	progress_end(&s->progress, "detect", "kernel %s, %s, driver %s", s->node.release, counted,
		     s->facts.loaded.version ? s->facts.loaded.version : "not loaded");
	if (!has_gpu)
		return 0;
	if (s->caller->check_inputs(s->caller->ctx, err) < 0 || open_carried_payload(s, err) < 0 ||
	    s->caller->open_state(s->caller->ctx, &s->state, err) < 0)
		return -1;
	if (is_change)
		journal_mend(&s->state);
	if (journal_find(s->node.host, &s->state, &s->journal, err) < 0 ||
	    optional_modules_read(s->node.host, s->node.boot, &s->failed, err) < 0 ||
	    wait_for_modules(s, is_change, err) < 0 ||
	    module_params_read(s->node.host, s->node.kern, s->node.kern, &request->params, &s->facts.gpus, &s->params,
			       err) < 0)
		return -1;
	for (size_t i = 0; i < s->params.skipped.count; i++)
		log_warn("%s", s->params.skipped.items[i]);
	if (find_package(s, err) < 0)
		return -1;
	bool is_source_needed = !is_host_used(s) && !acquire_found(&s->acquire) && !is_requested_driver_loaded(s);
	return is_source_needed ? open_source(s, err) : 0;
}

// 1 = acquire.payload has to be exported, 0 = nothing to do.
static int find_payload(struct session *s, const char *driver, bool is_demanded, struct err *err)
{
	auto_root_record struct root_record now = { 0 };
	auto_str char *why = NULL;
	bool is_loaded = str_eq(driver, s->facts.loaded.version);
	bool is_local = !s->request->is_named || (is_loaded && s->request->driver);
	int r = acquire_find_payload(&s->acquire, driver, is_local, &why, err);
	if (r != 0)
		return r;
	// The store may no longer have what is exported and works.
	r = root_record_measure(&s->node, s->node.boot, &now, err);
	if (r < 0 || (r > 0 && str_eq(now.dir, s->driver_root.dir) && str_eq(now.driver, driver) && !now.problem))
		return r < 0 ? -1 : 0;
	if (is_demanded || !is_loaded) {
		free(TAKE(why));
		r = acquire_find_payload(&s->acquire, driver, false, &why, err);
	}
	if (r > 0)
		return 1;
	if (r < 0 && is_demanded)
		return -1;
	if (is_demanded)
		s->at_hand.payload_why_not = s->driver_root_why =
			str_fmt("driver %s, for /%s: %s", driver, s->driver_root.dir, why);
	else
		progress_note(&s->progress, "no user space is exported: %s", r < 0 ? err->text : why);
	return 0;
}

// Opens the export directory, once. An existing export follows the driver even if no option names it.
// *ret_is_demanded: a missing payload is an error.
static int open_driver_root(struct session *s, bool *ret_is_demanded, struct err *err)
{
	const struct request *request = s->request;
	struct driver_root *d = &s->driver_root;
	auto_root_record struct root_record now = { 0 };
	if (d->dir)
		return 0;
	driver_root_done(d);
	d->node = &s->node;
	if (root_record_read(s->node.host, s->node.boot, &now, err) < 0)
		return -1;
	*ret_is_demanded = request->driver_root || now.dir;
	auto_str char *dir = str_eq(request->driver_root, "none") ? NULL :
			     request->driver_root                 ? str_dup(request->driver_root) :
			     now.dir                              ? str_fmt("/%s", now.dir) :
			     request->driver_root_default         ? str_dup(request->driver_root_default) :
								    NULL;
	if (dir && driver_root_open(d, dir, err) < 0)
		return -1;
	// An export elsewhere, or an unwanted one; a killed start may have left one.
	const char *former = now.former && !str_eq(now.former, d->dir) ? now.former : now.dir;
	d->former = former && !str_eq(former, d->dir) ? str_dup(former) : NULL;
	return 0;
}

// Finds the user space that has to be exported, and whether it already is.
static int find_driver_root(struct session *s, struct err *err)
{
	const struct package *p = acquire_found(&s->acquire);
	enum module_type flavour;
	const char *driver = plan_driver(&s->facts, s->request, &s->at_hand, &flavour);
	bool is_demanded = false;
	if (s->request->is_payload_elsewhere)
		return 0;
	if (open_driver_root(s, &is_demanded, err) < 0)
		return -1;
	if (!s->driver_root.dir || !driver)
		return 0;
	int r = find_payload(s, driver, is_demanded, err);
	if (r <= 0)
		return r;
	if (p && modules_dir_key(p, s->node.release, s->node.host, s->modules_dir, err) < 0)
		return -1;
	s->driver_root_request = (struct driver_root_request){ .driver = driver,
							       .payload = s->acquire.payload,
							       .modules = p ? s->modules_dir : NULL,
							       .release = s->node.release,
							       .flavour = flavour };
	s->at_hand.payload = s->acquire.payload;
	if (driver_root_check(&s->driver_root, &s->driver_root_request, &s->driver_root_why, err) < 0)
		return -1;
	s->at_hand.export_why = s->driver_root_why;
	return 0;
}

// Holders only matter if the driver has to be unloaded, and scanning thousands of processes is not free.
static int make_plan(struct session *s, struct err *err)
{
	if (plan_make(&s->facts, s->request, &s->at_hand, NULL, &s->plan, err) < 0)
		return -1;
	if (!plan_has(&s->plan, STEP_UNLOAD) || s->request->is_stage)
		return 0;
	plan_done(&s->plan);
	if (holders_find(s->node.kern, &s->facts.loaded, &s->holders, err) < 0 ||
	    holders_wait_omit_daemons(s->node.host, s->node.kern, &s->holders, err) < 0)
		return -1;
	if (plan_make(&s->facts, s->request, &s->at_hand, &s->holders, &s->plan, err) == 0)
		return 0;
	if (err->code == E_IN_USE)
		holders_wait_note(&s->progress, &s->holders);
	return -1;
}

struct compile_request session_compile(const struct session *s)
{
	return (struct compile_request){
		.asked = s->request,
		.release = s->node.release,
		.banner = s->facts.host.banner,
		.source = &s->source,
		.gpus = &s->facts.gpus,
		.node = &s->node,
	};
}

// For the plan: where a compile would have its headers and the driver's core from.
static char *inputs_text(struct session *s)
{
	const struct host *host = &s->facts.host;
	auto_tree struct tree tree = { .root = ROOT_NONE };
	auto_str char *from = NULL, *asked = NULL, *why = NULL;
	struct err absent;
	if (!s->source.version || acquire_found(&s->acquire))
		return NULL;
	if (compile_target_headers(s->node.host, &s->state, &s->request->headers, NULL, host->release, host->banner,
				   &tree, &from, &absent) == 0) {
		struct compile_request compile = session_compile(s);
		compile.cores = acquire_core_offer(&s->acquire);
		auto_str char *core = compile_core_plan(&compile, &tree);
		return str_fmt("headers are there (%s)%s%s", from, core ? "; " : "", core ? core : "");
	}
	acquire_headers_offer(&s->acquire); // with what the package manager has to know
	asked = package_manager_plan(&s->acquire.package_manager, host->release, &why);
	const struct strv *sources = s->acquire.fetch.from;
	return str_fmt("no headers are there; asked for them: %s%s%s", sources && sources->count ? "--from, " : "",
		       asked ? asked : "nobody else: ", asked ? "" : why);
}

static int make_session_plan(struct session *s, struct err *err)
{
	s->inputs = inputs_text(s);
	s->at_hand = (struct at_hand){ .package = acquire_found(&s->acquire),
				       .compatible = s->acquire.compatible,
				       .params = &s->params,
				       .package_why_not = s->acquire.why_not,
				       .package_code = s->acquire.code,
				       .package_next = s->acquire.next,
				       .journal = &s->journal,
				       .failed = &s->failed,
				       .source_version = s->source.version,
				       .source_flavours = s->source.flavours,
				       .inputs = s->inputs,
				       .signer = s->signer };
	if ((facts_has_gpu(&s->facts) && find_driver_root(s, err) < 0) || make_plan(s, err) < 0)
		return -1;
	if (plan_has(&s->plan, STEP_COMPILE) && s->acquire.why_not) // else the error says it
		progress_note(&s->progress, "no package is used: %s", s->acquire.why_not);
	if (s->plan.flavour_why)
		log_debug("flavour %s: %s", module_type_name(s->plan.flavour), s->plan.flavour_why);
	for (size_t i = 0; i < s->plan.count; i++)
		log_debug("step %zu: %s %s: %s", i + 1, plan_step_name(s->plan.steps[i].kind), s->plan.steps[i].subject,
			  s->plan.steps[i].why);
	return 0;
}

static void recover_session(struct session *s, const char *outcome, struct err *err)
{
	struct fetch *fetch = &s->acquire.fetch;
	struct err why;
	auto_status struct status status = { 0 };
	bool ignored;
	int r = 0;
	if (s->caller->blame)
		s->caller->blame(err);
	if (s->state.fd >= 0 && open_driver_root(s, &ignored, &why) < 0)
		progress_note(&s->progress, "no user space is exported: %s", why.text);
	if (s->state.fd >= 0 && err->code != E_MODULE_BUSY) { // busy: another process loads or unloads
		fetch->state = &s->state;
		if (!fetch->now_trusted && !s->caller->is_unverified) { // it failed before the repositories were opened
			trust_now(s->node.host, s->caller->trust_dir, &s->trust);
			fetch->now_trusted = &s->trust;
		}
		modules_done(&s->facts.loaded);
		if (modules_read(s->node.host, s->node.kern, s->node.release, &s->facts.loaded, &why) >= 0 &&
		    acquire_open_store(&s->acquire, &why) >= 0)
			r = apply_last_good(s, err, &status, &why);
	}
	size_t len = strlen(err->text);
	if (r > 0)
		progress_note(&s->progress, "fell back to the last good driver; the requested one is not loaded");
	else if (r < 0) // after the cause, which is not to be cut off by a long list of places
		snprintf(err->text + len, sizeof(err->text) - len,
			 "; and the last good driver could not be brought back (%s)", why.text);
	else if (outcome && err->code != E_USAGE) // a slip of the fingers says nothing about the node, a file does
		transaction_publish_failure(s, outcome, err);
}

int session_open(const struct session_caller *caller, struct request *request, bool is_change, struct session *ret,
		 struct err *err)
{
	*ret = SESSION_NONE;
	ret->caller = caller;
	ret->request = request;
	ret->acquire.request = request;
	ret->progress = caller->progress;
	ret->node = *caller->node;
	ret->node.state = &ret->state;
	ret->node.progress = &ret->progress;
	ret->acquire.node = &ret->node;
	if (collect_facts(ret, is_change, err) == 0 && make_session_plan(ret, err) == 0)
		return 0;
	progress_fail(&ret->progress);
	if (ret->lock >= 0)
		recover_session(ret, "refused", err);
	return -1;
}

void session_done(struct session *s)
{
	gpu_holds_done(&s->holds);
	plan_done(&s->plan);
	free(s->newest);
	driver_root_done(&s->driver_root);
	free(s->driver_root_why);
	free(s->inputs);
	free(s->signer);
	holders_done(&s->holders);
	journal_done(&s->journal);
	free(s->source_path);
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

// Removes an export that is no longer requested, or has moved.
static int withdraw_driver_root(struct session *s, struct err *err)
{
	if (!s->driver_root.former)
		return 0;
	auto_driver_root struct driver_root old = { .node = &s->node };
	auto_str char *dir = str_fmt("/%s", s->driver_root.former);
	progress_enter(&s->progress, "withdraw");
	if (driver_root_open(&old, dir, err) < 0 ||
	    driver_root_withdraw(&old, s->node.release, s->facts.loaded.version, !s->driver_root.dir, err) < 0)
		return -1;
	progress_end(&s->progress, "withdraw", "%s is no longer exported", dir);
	free(TAKE(s->driver_root.former));
	return 0;
}

int session_apply(struct session *s, const struct compile_gate *gate, struct status *ret, struct err *err)
{
	if (s->at_hand.payload && !s->at_hand.export_why &&
	    driver_root_confirm(&s->driver_root, &s->driver_root_request, err) < 0)
		return -1;
	// If nothing is exported any more, the withdrawal comes first: what is measured then is what stays.
	if (!s->driver_root.dir && withdraw_driver_root(s, err) < 0)
		return -1;
	if (apply_plan(s, gate, ret, err) == 0)
		return withdraw_driver_root(s, err);
	recover_session(s, NULL, err);
	return -1;
}
