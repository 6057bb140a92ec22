// SPDX-License-Identifier: Apache-2.0
// The old modules out, the new ones in, and back again.
#include "transaction/apply_internal.h"

#include "kmod/load/load.h"
#include "kmod/load/provider.h"
#include "transaction/unload.h"

static struct drain drain_of(const struct apply *a)
{
	return (struct drain){ .host = a->host,
			       .kern = a->kern,
			       .sys = a->sys,
			       .release = a->facts->host.release,
			       .policy = a->wish->holders,
			       .timeout_ms = a->holders_timeout_ms,
			       .watch = a->watch };
}

int step_holders(struct run *r, const struct step *step, struct err *err)
{
	(void)step;
	struct drain drain = drain_of(r->a);
	auto_holders struct holders holders = { 0 };
	if (drain_wait(&drain, &holders, err) < 0) {
		drain_list(r->a->watch, &holders);
		return -1;
	}
	watch_end(r->a->watch, "holders", "nobody uses the driver");
	return 0;
}

int step_unload(struct run *r, const struct step *step, struct err *err)
{
	(void)step; // the graph may be another one by now
	struct drain drain = drain_of(r->a);
	auto_holders struct holders holders = { 0 };
	auto_strv struct strv gone = { 0 };
	if (unload_driver(&drain, r->a->unload_timeout_ms, &holders, &gone, err) < 0) {
		drain_list(r->a->watch, &holders);
		return -1;
	}
	auto_str char *names = gone.count ? strv_join(&gone, ", ") : str_dup("nothing was loaded");
	watch_end(r->a->watch, "unload", "%s", names);
	return 0;
}

// Whose the driver is shall be known even when the store is emptied. A node that works is not failed for a note.
static void note_loaded(const struct run *r, const struct strv *modules, const struct package *p)
{
	struct err why;
	const struct host *host = &r->a->facts->host;
	bool is_other = p->count && !str_eq(p->key.release, host->release);
	if (resident_note(r->a->host, r->a->kern, host->boot_id, modules, is_other ? p->key.release : NULL, &why) < 0)
		watch_note(r->a->watch, "it is not noted who loaded the driver: %s", why.text);
}

static int load_one(struct run *r, size_t index, struct err *err)
{
	const struct apply *a = r->a;
	const struct module *m = &r->set.items[index];
	const struct strv *needs = &r->needs[index];
	for (size_t i = 0; i < needs->count; i++)
		if (provider_load(a->host, a->kern, a->sys, a->facts->host.release, needs->items[i], a->load_timeout_ms,
				  err) < 0)
			return -1;
	auto_str char *params = params_known(m, driver_params(&r->target, m->name));
	int done = load_module(a->sys, a->kern, m, params, a->load_timeout_ms, err);
	if (done > 0)
		strv_add(&r->loaded, str_dup(m->name));
	return done;
}

int step_load(struct run *r, const struct step *step, struct err *err)
{
	const struct apply *a = r->a;
	if (run_show_firmware(r, err) < 0)
		return -1;
	for (size_t i = 0; i < r->set.count; i++) {
		auto_str char *name = module_set_name(&r->set, r->order[i]);
		if (load_one(r, r->order[i], err) < 0 && !run_spare(r, name, err))
			return -1;
	}
	note_loaded(r, &r->loaded, &r->package);
	settle_unbind(r);
	auto_str char *names = r->loaded.count ? strv_join(&r->loaded, ", ") : str_dup("nothing that was not there");
	watch_end(a->watch, "load", "%s", r->failed.count ? names : step->subject);
	return 0;
}

// Of a change that was cut off, nobody knows which of the modules it loaded: all go.
static int what_to_unload(const struct run *r, struct strv *ret, struct err *err)
{
	auto_loaded struct loaded now = { 0 };
	if (r->was_open)
		return loaded_read(r->a->host, r->a->kern, r->a->facts->host.release, &now, err) < 0 ?
			       -1 :
			       loaded_unload_order(&now, ret, err);
	for (size_t i = r->loaded.count; i-- > 0;)
		strv_add(ret, str_dup(r->loaded.items[i]));
	return 0;
}

int undo_load(struct run *r, struct err *err)
{
	auto_strv struct strv order = { 0 }, gone = { 0 };
	if (what_to_unload(r, &order, err) < 0)
		return -1;
	return unload_modules(&order, r->a->sys, r->a->kern, r->a->unload_timeout_ms, &gone, err);
}

static void keep_back(const struct run *r)
{
	struct err why;
	const struct package *p = r->back.shared ? &r->package : &r->back.package;
	note_loaded(r, &r->back.driver.modules, p);
	if (run_keep_reuse(r, p, &why) < 0)
		watch_note(r->a->watch, "the store does not remember what serves this kernel: %s", why.text);
}

int undo_unload(struct run *r, struct err *err)
{
	static const struct step nodes = { .kind = STEP_NODES };
	const struct driver *d = &r->back.driver;
	if (!d->version)
		return 0;
	int done = back_load(r->a, &r->back, err);
	if (done < 0)
		return -1;
	settle_unbind(r);
	if (done > 0) {
		keep_back(r);
		watch_end(r->a->watch, "back", "driver %s %s is loaded again", d->version, d->flavour);
	}
	run_remember(r, d->digest, store_set_target);
	return step_nodes(r, &nodes, err);
}
