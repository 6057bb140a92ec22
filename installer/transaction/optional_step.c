// SPDX-License-Identifier: Apache-2.0
// The modules of a run that the core does without.
#include "transaction/apply_internal.h"

bool optional_step_skip(struct transaction *r, const char *module, const struct err *why)
{
	if (why->code == E_WEDGED || !strv_has(&r->a->plan->optional, module)) // nothing more can be loaded
		return false;
	auto_str char *params = r->a->request->params ? module_params_text(r->a->request->params, module) : str_dup("");
	optional_modules_add(&r->failed, module, params, why);
	progress_note(r->a->progress, "%s is not loaded, and the driver works without it: %s: %s", module,
		      err_info(why->code)->name, why->text);
	return true;
}

// What this run did not try again is as it was.
static void keep_known_failures(struct transaction *r)
{
	struct err ignored;
	auto_optional_modules struct optional_modules known = { 0 };
	if (optional_modules_read(r->a->host, r->a->facts->host.boot_id, &known, &ignored) <= 0 ||
	    !str_eq(known.package, r->package.manifest.digest))
		return;
	for (size_t i = 0; i < known.count; i++) {
		auto_str char *name = module_canonical(known.items[i].module);
		if (!optional_modules_find(&r->failed, name) && !strv_has(&r->loaded, name))
			optional_modules_keep(&r->failed, &known.items[i]);
	}
}

void optional_step_drop(struct transaction *r)
{
	for (size_t i = 0; i < r->failed.count; i++)
		driver_state_drop(&r->journal.target, r->failed.items[i].module);
}

void optional_step_record(struct transaction *r)
{
	struct err why;
	const struct host *host = &r->a->facts->host;
	if (!r->is_touched)
		return;
	keep_known_failures(r);
	r->failed.driver = str_dup(r->target.version);
	r->failed.package = str_dup(r->package.manifest.digest);
	if (optional_modules_write(r->a->host, host->boot_id, &r->failed, &why) < 0)
		progress_note(r->a->progress, "it is not noted which modules are not loaded: %s", why.text);
}
