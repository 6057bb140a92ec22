// SPDX-License-Identifier: Apache-2.0
#include "node/apply.h"

#include "kmod/load.h"
#include "kmod/prove.h"
#include "kmod/provider.h"
#include "node/modules.h"
#include "precompiled/find.h"
#include "precompiled/stage.h"

#include <signal.h>

// What a run knows beyond its plan.
struct run {
	const struct apply *a;
	struct package package;  // what is installed: in the node's store, and unpacked
	struct package previous; // what was loaded before, when the store has it: unpacked before it is unloaded
	struct module_set set;   // files of package
	size_t *order;           // of set, for loading
	struct strv needs;       // modules of the kernel's own tree that the set imports from
	struct strv loaded;      // names that this run loaded
	struct strv unloaded;    // names that this run unloaded, in that order
	struct status *status;
};

static void run_done(struct run *r)
{
	package_done(&r->package);
	package_done(&r->previous);
	module_set_done(&r->set);
	free(r->order);
	strv_done(&r->needs);
	strv_done(&r->loaded);
	strv_done(&r->unloaded);
}
#define auto_run __attribute__((cleanup(run_done)))

static int step_adopt(struct run *r, const struct step *step, struct err *err)
{
	(void)err;
	watch_end(r->a->watch, "adopt", "%s is loaded already", step->subject);
	return 0;
}

static int step_package(struct run *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	if (obtain_take(a->obtain, &r->package, err) < 0)
		return -1;
	auto_str char *tag = package_tag(&r->package.key);
	watch_end(a->watch, "package", "%s from %s", tag, r->package.place);
	return 0;
}

static int step_compile(struct run *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	auto_compile_report struct compile_report report = { 0 };
	struct compile_wish wish = *a->compile;
	struct headers_offer offer = { .bring = obtain_headers, .ctx = a->obtain };
	wish.offer = &offer;
	wish.flavour = a->plan->flavour;
	wish.output = obtain_output;
	wish.output_ctx = a->obtain;
	return compile_package(&wish, a->watch, &r->package, &report, err);
}

// Files of the package for the modules that a step names, in the package's order.
static void files_of(const struct package *p, const char *subject, struct strv *ret)
{
	auto_strv struct strv names = { 0 };
	strv_split(&names, subject, ", ");
	for (size_t i = 0; i < p->count; i++)
		if (strv_has(&names, p->files[i].module))
			strv_add(ret, str_dup(p->files[i].name));
}

// Exports of driver modules that stay loaded are those of the package's own files: differs() saw equal srcversions.
static int exports_of_loaded(const struct run *r, struct symvers *ret, struct err *err)
{
	auto_strv struct strv files = { 0 };
	auto_module_set struct module_set set = { 0 };
	for (size_t i = 0; i < r->package.count; i++)
		if (loaded_find(&r->a->facts->loaded, r->package.files[i].module))
			strv_add(&files, str_dup(r->package.files[i].name));
	if (module_set_read(&r->package.dir, &files, &set, err) < 0)
		return -1;
	for (size_t i = 0; i < set.count; i++)
		for (size_t s = 0; s < symvers_count(set.items[i].exports); s++)
			symvers_add(ret, symvers_at(set.items[i].exports, s));
	return 0;
}

static int step_prove(struct run *r, const struct step *step, struct err *err)
{
	const struct apply *a = r->a;
	auto_strv struct strv files = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_symvers struct symvers *loaded = symvers_new();
	auto_proof struct proof proof = { 0 };
	files_of(&r->package, step->subject, &files);
	if (module_set_read(&r->package.dir, &files, &r->set, err) < 0 || exports_of_loaded(r, loaded, err) < 0 ||
	    kernel_abi_read(&abi, a->host, a->kern, NULL, err) < 0)
		return -1;
	prove_modules(r->set.pointers, r->set.count, &abi, loaded, &proof);
	if (proof_error(&proof, err) < 0)
		return -1;
	r->needs = proof.needs;
	proof.needs = (struct strv){ 0 };
	r->order = mem_alloc(r->set.count * sizeof(*r->order));
	if (load_order(r->set.pointers, r->set.count, r->order, err) < 0 ||
	    store_set_target(&a->obtain->store, r->package.manifest.digest, err) < 0)
		return -1;
	watch_end(a->watch, "prove", "%s", proof.text);
	return 0;
}

static int unload_all(const struct strv *order, const struct sys *sys, int timeout_ms, struct strv *ret,
		      struct err *err)
{
	for (size_t i = 0; i < order->count; i++) {
		int r = unload_module(sys, order->items[i], timeout_ms, err);
		if (r < 0)
			return -1;
		if (r > 0)
			strv_add(ret, str_dup(order->items[i]));
	}
	return 0;
}

// What would have to come back is unpacked and whole before anything goes.
static void prepare_previous(struct run *r)
{
	const struct facts *f = r->a->facts;
	struct package_want want = { .driver = f->loaded.version,
				     .flavour = flavour_name(f->loaded.flavour),
				     .release = f->host.release,
				     .build_id = f->host.build_id };
	struct err why = { 0 };
	if (!f->loaded.version || find_package(&r->a->obtain->store.layout, &want, &r->previous, NULL, &why) <= 0)
		return;
	if (stage_package(&r->a->obtain->store.layout, r->a->state, &r->previous, &why) < 0) {
		watch_note(r->a->watch, "the driver that is loaded now could not be brought back: %s", why.text);
		package_done(&r->previous);
	}
}

static int step_unload(struct run *r, const struct step *step, struct err *err)
{
	auto_strv struct strv order = { 0 };
	prepare_previous(r);
	strv_split(&order, step->subject, ", ");
	if (unload_all(&order, r->a->sys, r->a->unload_timeout_ms, &r->unloaded, err) < 0)
		return -1;
	watch_end(r->a->watch, "unload", "%s", step->subject);
	return 0;
}

static int load_set(const struct run *r, const struct module_set *set, const size_t *order, struct strv *ret,
		    struct err *err)
{
	const struct apply *a = r->a;
	for (size_t i = 0; i < set->count; i++) {
		const struct module *m = &set->items[order[i]];
		auto_str char *params = a->wish->params ? params_text(a->wish->params, m->name) : NULL;
		int done = load_module(a->sys, m, params, a->kern, err);
		if (done < 0)
			return -1;
		if (done > 0)
			strv_add(ret, str_dup(m->name));
	}
	return 0;
}

static int step_load(struct run *r, const struct step *step, struct err *err)
{
	const struct apply *a = r->a;
	for (size_t i = 0; i < r->needs.count; i++)
		if (provider_load(a->host, a->kern, a->sys, a->facts->host.release, r->needs.items[i], err) < 0)
			return -1;
	if (load_set(r, &r->set, r->order, &r->loaded, err) < 0)
		return -1;
	watch_end(r->a->watch, "load", "%s", step->subject);
	return 0;
}

static int step_nodes(struct run *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	auto_devices struct devices d = { 0 };
	if (devices_want(a->kern, a->imex_channels, &d, err) < 0 ||
	    devices_apply(a->dev_root, a->sys, false, &d, err) < 0)
		return -1;
	watch_end(a->watch, "nodes", "%zu nodes, %zu changes", d.count, d.changes);
	return 0;
}

static int step_verify(struct run *r, const struct step *step, struct err *err)
{
	const struct apply *a = r->a;
	auto_facts struct facts now = { 0 };
	if (facts_read(a->host, a->kern, &now, err) < 0 ||
	    status_read(&now, a->kern, a->dev_root, a->sys, r->status, err) < 0 || status_error(r->status, err) < 0)
		return -1;
	if (r->package.count && store_set_last_good(&a->obtain->store, r->package.manifest.digest, err) < 0)
		return -1;
	watch_end(a->watch, "verify", "%s, every post-condition holds", step->subject);
	return 0;
}

// The store keeps what is in use and what last made the node ready. A node that works is not failed for a note.
static void remember(const struct run *r, const char *what,
		     int (*set)(const struct store *s, const char *hex, struct err *err))
{
	struct err why;
	if (r->package.count && set(&r->a->obtain->store, r->package.manifest.digest, &why) < 0)
		watch_note(r->a->watch, "the store does not remember the %s package: %s", what, why.text);
}

// Undo never stops half-way: it does what it can and tells what it could not.
static void undo_load(struct run *r, char **problem)
{
	struct err err;
	while (r->loaded.count) {
		char *name = r->loaded.items[--r->loaded.count];
		if (unload_module(r->a->sys, name, r->a->unload_timeout_ms, &err) < 0)
			str_add(problem, "%s%s", *problem ? "; " : "", err.text);
		free(name);
		r->loaded.items[r->loaded.count] = NULL;
	}
}

static int reload_previous(struct run *r, struct err *err)
{
	auto_strv struct strv files = { 0 }, loaded = { 0 };
	auto_module_set struct module_set set = { 0 };
	for (size_t i = 0; i < r->previous.count; i++) {
		auto_str char *name = module_canonical(r->previous.files[i].module);
		if (strv_has(&r->unloaded, name))
			strv_add(&files, str_dup(r->previous.files[i].name));
	}
	if (module_set_read(&r->previous.dir, &files, &set, err) < 0)
		return -1;
	size_t *order = mem_alloc(set.count * sizeof(*order));
	int done = load_order(set.pointers, set.count, order, err);
	if (done == 0)
		done = load_set(r, &set, order, &loaded, err);
	free(order);
	return done;
}

static void undo_unload(struct run *r, char **problem)
{
	struct err err;
	if (!r->unloaded.count)
		return;
	if (!r->previous.count)
		str_add(problem, "%sthe modules that were loaded before are in no package of this node",
			*problem ? "; " : "");
	else if (reload_previous(r, &err) < 0)
		str_add(problem, "%s%s", *problem ? "; " : "", err.text);
	else
		watch_note(r->a->watch, "the previous driver %s is loaded again", r->previous.key.driver);
}

static const struct {
	int (*run)(struct run *r, const struct step *step, struct err *err);
	void (*undo)(struct run *r, char **problem);
} actions[] = {
	[STEP_ADOPT] = { step_adopt, NULL },          [STEP_PACKAGE] = { step_package, NULL },
	[STEP_COMPILE] = { step_compile, NULL },      [STEP_PROVE] = { step_prove, NULL },
	[STEP_UNLOAD] = { step_unload, undo_unload }, [STEP_LOAD] = { step_load, undo_load },
	[STEP_NODES] = { step_nodes, NULL },          [STEP_VERIFY] = { step_verify, NULL },
};

static int undo(struct run *r, size_t failed, struct err *err)
{
	auto_str char *problem = NULL;
	// A driver that loads but is not right yet beats none: it goes only when there is one to come back to.
	if (r->a->plan->steps[failed].kind > STEP_LOAD && !r->previous.count)
		return -1;
	for (size_t i = failed + 1; i-- > 0;)
		if (actions[r->a->plan->steps[i].kind].undo)
			actions[r->a->plan->steps[i].kind].undo(r, &problem);
	if (!problem)
		return -1;
	auto_str char *text = str_dup(err->text);
	// First what state the node is in: the cause quotes the kernel and may be long.
	return err_set(err, err->code, "could not be undone, %s; cause: %s", problem, text);
}

// From the first change in the kernel on, a request to stop waits until the node is in a state that may be left; and a
// reader of our log that goes away must not end us between an unload and the load after it.
static void hold_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static int run_steps(struct run *r, struct err *err)
{
	const struct plan *plan = r->a->plan;
	for (size_t i = 0; i < plan->count; i++) {
		enum step_kind kind = plan->steps[i].kind;
		if (kind == STEP_UNLOAD || kind == STEP_LOAD)
			hold_signals();
		if (kind == STEP_LOAD)
			remember(r, "wished", store_set_target);
		if (actions[kind].run(r, &plan->steps[i], err) < 0) {
			err_wrap(err, "%s", step_kind_name(kind));
			return undo(r, i, err);
		}
	}
	return 0;
}

int apply_plan(const struct apply *apply, struct status *ret, struct err *err)
{
	auto_run struct run r = { .a = apply, .package = PACKAGE_NONE, .previous = PACKAGE_NONE, .status = ret };
	sigset_t before;
	sigprocmask(SIG_BLOCK, NULL, &before);
	watch_begin(apply->watch);
	int done = run_steps(&r, err);
	if (done == 0)
		remember(&r, "last good", store_set_last_good);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return done;
}

int apply_unload(const struct root *host, const struct root *kern, const struct sys *sys, int timeout_ms,
		 struct holders *ret_holders, struct strv *ret_unloaded, struct err *err)
{
	auto_facts struct facts f = { 0 };
	auto_strv struct strv order = { 0 };
	if (facts_read(host, kern, &f, err) < 0)
		return -1;
	if (!f.loaded.count)
		return 0;
	if (holders_find(kern, &f.loaded, ret_holders, err) < 0 || loaded_unload_order(&f.loaded, &order, err) < 0)
		return -1;
	if (holders_block(ret_holders)) {
		auto_str char *first = ret_holders->count ? holder_text(&ret_holders->items[0]) :
							    str_fmt("module %s", ret_holders->modules.items[0]);
		return err_set(err, E_IN_USE, "%zu holder(s), first: %s",
			       ret_holders->count + ret_holders->modules.count, first);
	}
	return unload_all(&order, sys, timeout_ms, ret_unloaded, err) < 0 ? -1 : 1;
}
