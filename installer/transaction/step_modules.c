// SPDX-License-Identifier: Apache-2.0
// Unloads the old modules, loads the new ones, and back again; then device nodes and the final measurement.
#include "transaction/transaction_internal.h"

#include "kmod/load/load.h"
#include "kmod/load/provider.h"
#include "transaction/unload.h"

static struct holders_wait drain_of(const struct apply *a)
{
	return (struct holders_wait){ .host = a->host,
				      .kern = a->kern,
				      .sys = a->sys,
				      .release = a->facts->host.release,
				      .policy = a->request->holders,
				      .timeout_ms = a->holders_timeout_ms,
				      .progress = a->progress };
}

int step_holders(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	struct holders_wait drain = drain_of(r->a);
	auto_holders struct holders holders = { 0 };
	if (holders_wait(&drain, &holders, err) < 0) {
		holders_wait_note(r->a->progress, &holders);
		return -1;
	}
	progress_end(r->a->progress, "holders", "the driver is not in use");
	return 0;
}

int step_unload(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step; // the graph may be another one by now
	struct holders_wait drain = drain_of(r->a);
	auto_holders struct holders holders = { 0 };
	auto_strv struct strv gone = { 0 };
	if (unload_driver(&drain, r->a->unload_timeout_ms, &holders, &gone, err) < 0) {
		holders_wait_note(r->a->progress, &holders);
		return -1;
	}
	auto_str char *names = gone.count ? strv_join(&gone, ", ") : str_dup("nothing was loaded");
	progress_end(r->a->progress, "unload", "%s", names);
	return 0;
}

// Records whose driver it is, even if the store is emptied later. A failed record must not fail a working node.
static void note_loaded(const struct transaction *r, const struct strv *modules, const struct package *p)
{
	struct err why;
	const struct host *host = &r->a->facts->host;
	bool is_other = p->count && !str_eq(p->key.release, host->release);
	if (existing_driver_note(r->a->host, r->a->kern, host->boot_id, modules, is_other ? p->key.release : NULL,
				 &why) < 0)
		progress_note(r->a->progress, "cannot record who loaded the driver: %s", why.text);
}

static int load_set_module(struct transaction *r, size_t index, struct err *err)
{
	const struct apply *a = r->a;
	const struct module *m = &r->set.items[index];
	const struct strv *needs = &r->needs[index];
	for (size_t i = 0; i < needs->count; i++)
		if (provider_load(a->host, a->kern, a->sys, a->facts->host.release, needs->items[i], a->load_timeout_ms,
				  err) < 0)
			return -1;
	auto_str char *params = module_params_known(m, driver_state_params(&r->target, m->name));
	int done = load_module(a->sys, a->kern, m, params, a->load_timeout_ms, err);
	if (done > 0)
		strv_add(&r->loaded, str_dup(m->name));
	return done;
}

int step_load(struct transaction *r, const struct step *step, struct err *err)
{
	const struct apply *a = r->a;
	if (step_export_firmware(r, err) < 0)
		return -1;
	for (size_t i = 0; i < r->set.count; i++) {
		auto_str char *name = module_set_name(&r->set, r->order[i]);
		if (load_set_module(r, r->order[i], err) < 0 && !transaction_skip_optional(r, name, err))
			return -1;
	}
	note_loaded(r, &r->loaded, &r->package);
	step_commit_unbind(r);
	auto_str char *names = r->loaded.count ? strv_join(&r->loaded, ", ") : str_dup("nothing new");
	progress_end(a->progress, "load", "%s", r->failed.count ? names : step->subject);
	return 0;
}

// After an interrupted change it is unknown which modules it loaded: all are unloaded.
static int undo_unload_order(const struct transaction *r, struct strv *ret, struct err *err)
{
	auto_modules struct modules now = { 0 };
	if (r->was_open)
		return modules_read(r->a->host, r->a->kern, r->a->facts->host.release, &now, err) < 0 ?
			       -1 :
			       modules_unload_order(&now, ret, err);
	for (size_t i = r->loaded.count; i-- > 0;)
		strv_add(ret, str_dup(r->loaded.items[i]));
	return 0;
}

int step_undo_load(struct transaction *r, struct err *err)
{
	auto_strv struct strv order = { 0 }, gone = { 0 };
	if (undo_unload_order(r, &order, err) < 0)
		return -1;
	return unload_modules(&order, r->a->sys, r->a->kern, r->a->unload_timeout_ms, &gone, err);
}

static void note_rolled_back(const struct transaction *r)
{
	struct err why;
	const struct package *p = r->rollback.shared ? &r->package : &r->rollback.package;
	note_loaded(r, &r->rollback.driver.modules, p);
	if (transaction_note_reuse(r, p, &why) < 0)
		progress_note(r->a->progress, "cannot record in the store which package serves this kernel: %s",
			      why.text);
}

int step_undo_unload(struct transaction *r, struct err *err)
{
	static const struct step nodes = { .kind = STEP_NODES };
	const struct driver_state *d = &r->rollback.driver;
	if (!d->version)
		return 0;
	int done = transaction_load_rollback(r->a, &r->rollback, err);
	if (done < 0)
		return -1;
	step_commit_unbind(r);
	if (done > 0) {
		note_rolled_back(r);
		progress_end(r->a->progress, "back", "driver %s %s is loaded again", d->version, d->flavour);
	}
	transaction_remember(r, d->digest, store_set_target);
	return step_nodes(r, &nodes, err);
}

int step_nodes(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	auto_devices struct devices d = { 0 };
	if (devices_want(a->kern, a->imex_channels, &d, err) < 0 ||
	    devices_apply(a->dev_root, a->sys, false, &d, err) < 0)
		return -1;
	progress_end(a->progress, "nodes", "%zu nodes, %zu changes", d.count, d.changes);
	return 0;
}

int step_verify(struct transaction *r, const struct step *step, struct err *err)
{
	if (transaction_verify(r, r->a->plan, err) < 0)
		return -1;
	progress_end(r->a->progress, "verify", "%s, every post-condition holds", step->subject);
	return 0;
}
