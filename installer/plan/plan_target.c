// SPDX-License-Identifier: Apache-2.0
// What the kernel is to have in the end, and whether it has that already.
#include "journal/loaded_params.h"
#include "plan/plan_internal.h"

void plan_target_modules(const struct plan_context *m)
{
	const struct strv *request = m->request->modules;
	if (request && request->count) {
		for (size_t i = 0; i < request->count; i++)
			strv_add(&m->plan->modules, str_dup(request->items[i]));
		return;
	}
	// A package that was built without one of the defaults was built so on purpose.
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++) {
		if (m->at_hand->package && !strv_has(&m->at_hand->package->key.modules, default_modules[i]))
			continue;
		strv_add(&m->plan->modules, str_dup(default_modules[i]));
		if (optional_modules_is(default_modules[i]))
			strv_add(&m->plan->optional, str_dup(default_modules[i]));
	}
}

int plan_no_package_code(const struct plan_context *m)
{
	return m->at_hand->package_code ? m->at_hand->package_code : E_NO_PACKAGE;
}

const char *plan_driver(const struct facts *facts, const struct request *request, const struct at_hand *at_hand)
{
	if (request->driver)
		return request->driver;
	if (at_hand->package)
		return at_hand->package->key.driver;
	if (at_hand->source_version)
		return at_hand->source_version;
	// What was named by hand and cannot be used is a mistake to tell, no reason to be content with what is there.
	return at_hand->is_named ? NULL : facts->loaded.version;
}

int plan_target_driver(const struct plan_context *m, struct err *err)
{
	const char *version = plan_driver(m->facts, m->request, m->at_hand);
	if (!version)
		return m->at_hand->package_why_not ?
			       err_set(err, plan_no_package_code(m), "no package: %s", m->at_hand->package_why_not) :
			       err_set(err, E_USAGE,
				       "nothing says what to install: give --driver, --package, --bundle or --source");
	m->plan->driver = str_dup(version);
	return 0;
}

static unsigned flavours_at_hand(const struct plan_context *m)
{
	const struct at_hand *a = m->at_hand;
	enum flavour of_package = FLAVOUR_AUTO;
	if (a->package)
		flavour_parse(a->package->key.flavour, &of_package);
	// A package that is there beats a default that would have to be compiled first.
	// A source of another version is of no use, whatever it has.
	unsigned of_source = str_eq(a->source_version, m->plan->driver) ? a->source_flavours : 0;
	unsigned set = of_package && !m->request->flavour ? of_package : of_package | of_source;
	if (!set && str_eq(m->facts->loaded.version, m->plan->driver))
		set = m->facts->loaded.flavour;
	return set ? set : FLAVOUR_OPEN | FLAVOUR_PROPRIETARY;
}

int plan_target_flavour(const struct plan_context *m, struct err *err)
{
	struct gpu_support_choice choice = { 0 };
	if (gpu_support_choose(&m->facts->gpus, m->plan->driver, m->request->flavour, flavours_at_hand(m), &choice,
			       err) < 0)
		return -1;
	m->plan->flavour = choice.flavour;
	m->plan->flavour_why = TAKE(choice.why);
	gpu_support_choice_done(&choice);
	return 0;
}

enum flavour plan_flavour(const struct facts *facts, const struct request *request, const struct at_hand *at_hand)
{
	const char *driver = plan_driver(facts, request, at_hand);
	struct plan plan = { .driver = (char *)(uintptr_t)driver };
	const struct plan_context m = { .facts = facts, .request = request, .at_hand = at_hand, .plan = &plan };
	struct err ignored;
	if (!driver || plan_target_flavour(&m, &ignored) < 0)
		return FLAVOUR_AUTO;
	free(plan.flavour_why);
	return plan.flavour;
}

static const char *package_srcversion(const struct package *p, const char *module)
{
	for (size_t i = 0; p && i < p->count; i++)
		if (str_eq(p->files[i].module, module))
			return p->files[i].srcversion;
	return NULL;
}

// What the kernel does not tell of parameters, by the record of the load.
static char *why_params_differ(const struct plan_context *m)
{
	const struct journal *j = m->at_hand->journal;
	const struct driver_state *had =
		!j ? NULL :
		     loaded_params_record(j, m->facts->host.boot_id, m->plan->driver, flavour_name(m->plan->flavour));
	auto_str char *lost = had ? loaded_params_removed(had, &m->plan->modules, m->request->params) : NULL;
	auto_str char *lacks =
		had && m->request->params ? loaded_params_missing(had, &m->facts->loaded, m->request->params) : NULL;
	return lost  ? str_fmt("only parameters differ: %s is no longer wished", lost) :
	       lacks ? str_fmt("only parameters differ: %s was not given", lacks) :
		       NULL;
}

// An optional module that failed in this boot, and of which nothing has changed: the core is not disturbed for it.
static bool is_optional_given_up(const struct plan_context *m, const char *module)
{
	const struct optional_modules *failed = m->at_hand->failed;
	const struct optional_failure *f = optional_modules_find(failed, module);
	const struct package *p = m->at_hand->package;
	if (!f || m->request->is_retry || !strv_has(&m->plan->optional, module) ||
	    !str_eq(failed->driver, m->plan->driver) || (p && !str_eq(failed->package, p->manifest.digest)))
		return false;
	auto_str char *params = m->request->params ? module_params_text(m->request->params, module) : str_dup("");
	return str_eq(f->params, params);
}

char *plan_target_differs(const struct plan_context *m, struct strv *ret_missing)
{
	const struct modules *l = &m->facts->loaded;
	auto_strv struct strv params = { 0 };
	if (!str_eq(l->version, m->plan->driver))
		return str_fmt("driver %s is loaded, %s is wished", l->version ? l->version : "(unknown)",
			       m->plan->driver);
	if (l->flavour != m->plan->flavour)
		return str_fmt("the %s modules are loaded, %s is wished", flavour_name(l->flavour),
			       flavour_name(m->plan->flavour));
	for (size_t i = 0; i < m->plan->modules.count; i++) {
		const char *name = m->plan->modules.items[i],
			   *requested = package_srcversion(m->at_hand->package, name);
		const struct loaded_module *now = modules_find(l, name);
		if (!now && !is_optional_given_up(m, name))
			strv_add(ret_missing, str_dup(name));
		else if (now && requested && now->srcversion && !str_eq(requested, now->srcversion))
			return str_fmt("%s has srcversion %s, the package's has %s", name, now->srcversion, requested);
	}
	if (m->request->params && module_params_differing(m->request->params, l, &params) > 0)
		return str_fmt("only parameters differ: %s", params.items[0]);
	return why_params_differ(m);
}

void plan_target(const struct plan *p, const struct request *request, const char *digest, const char *build_id,
		 struct driver_state *ret)
{
	struct driver_state d = { .version = str_dup(p->driver),
				  .flavour = str_dup(flavour_name(p->flavour)),
				  .digest = str_dup(digest),
				  .kernel = str_dup(build_id) };
	for (size_t i = 0; i < p->modules.count; i++) {
		auto_str char *name = module_canonical(p->modules.items[i]);
		auto_str char *text = request->params ? module_params_text(request->params, name) : str_dup("");
		strv_add(&d.modules, str_dup(p->modules.items[i]));
		driver_state_set_params(&d, name, text);
		if (request->params)
			module_params_options(request->params, name, &d.options);
	}
	driver_state_done(ret);
	*ret = d;
}

// The last good driver could come instead, as far as the journal tells.
static bool has_better_known_driver(const struct journal *j, const struct driver_state *target)
{
	return j->last_good.version && str_eq(j->last_good.kernel, target->kernel) &&
	       !driver_state_same(&j->last_good, target);
}

char *plan_why_not(const struct driver_state *target, const struct request *request, const struct facts *facts,
		   const struct journal *journal)
{
	if (!journal || request->is_retry || (!facts->loaded.version && !has_better_known_driver(journal, target)))
		return NULL;
	auto_str char *why = journal_why_not(journal, facts->host.boot_id, target);
	return why ? str_fmt("driver %s (%s) is not tried again: %s", target->version, target->flavour, why) : NULL;
}
