// SPDX-License-Identifier: Apache-2.0
// The old modules out, the new ones in, and back again.
#include "node/run.h"

#include "kmod/load.h"
#include "kmod/provider.h"
#include "node/unload.h"
#include "precompiled/find.h"
#include "precompiled/stage.h"

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
	(void)step;
	struct drain drain = drain_of(r->a);
	auto_holders struct holders holders = { 0 };
	prepare_previous(r);
	if (unload_driver(&drain, r->a->unload_timeout_ms, &holders, &r->unloaded, err) < 0) {
		drain_list(r->a->watch, &holders);
		return -1;
	}
	auto_str char *names = r->unloaded.count ? strv_join(&r->unloaded, ", ") : str_dup("nothing was loaded");
	watch_end(r->a->watch, "unload", "%s", names);
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

int step_load(struct run *r, const struct step *step, struct err *err)
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

// Undo never stops half-way: it does what it can and tells what it could not.
void undo_load(struct run *r, char **problem)
{
	struct err err;
	while (r->loaded.count && !r->is_wedged) {
		char *name = r->loaded.items[--r->loaded.count];
		if (unload_module(r->a->sys, r->a->kern, name, r->a->unload_timeout_ms, &err) < 0) {
			str_add(problem, "%s%s", *problem ? "; " : "", err.text);
			r->is_wedged = err.code == E_WEDGED;
		}
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

void undo_unload(struct run *r, char **problem)
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
