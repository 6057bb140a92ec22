// SPDX-License-Identifier: Apache-2.0
// What the kernel is to have in the end, and whether it has that already.
#include "journal/loaded_params.h"
#include "plan/plan_internal.h"

void goal_modules(const struct making *m)
{
	const struct strv *wish = m->wish->modules;
	if (wish && wish->count) {
		for (size_t i = 0; i < wish->count; i++)
			strv_add(&m->plan->modules, str_dup(wish->items[i]));
		return;
	}
	// A package that was built without one of the defaults was built so on purpose.
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++) {
		if (m->at_hand->package && !strv_has(&m->at_hand->package->key.modules, default_modules[i]))
			continue;
		strv_add(&m->plan->modules, str_dup(default_modules[i]));
		if (optional_is(default_modules[i]))
			strv_add(&m->plan->optional, str_dup(default_modules[i]));
	}
}

int goal_no_package(const struct making *m)
{
	return m->at_hand->package_code ? m->at_hand->package_code : E_NO_PACKAGE;
}

const char *plan_driver(const struct facts *facts, const struct wish *wish, const struct at_hand *at_hand)
{
	if (wish->driver)
		return wish->driver;
	if (at_hand->package)
		return at_hand->package->key.driver;
	if (at_hand->source_version)
		return at_hand->source_version;
	// What was named by hand and cannot be used is a mistake to tell, no reason to be content with what is there.
	return at_hand->is_named ? NULL : facts->loaded.version;
}

int goal_driver(const struct making *m, struct err *err)
{
	const char *version = plan_driver(m->facts, m->wish, m->at_hand);
	if (!version)
		return m->at_hand->package_why_not ?
			       err_set(err, goal_no_package(m), "no package: %s", m->at_hand->package_why_not) :
			       err_set(err, E_USAGE,
				       "nothing says what to install: give --driver, --package, --bundle or --source");
	m->plan->driver = str_dup(version);
	return 0;
}

static unsigned flavours_at_hand(const struct making *m)
{
	const struct at_hand *a = m->at_hand;
	enum flavour of_package = FLAVOUR_AUTO;
	if (a->package)
		flavour_parse(a->package->key.flavour, &of_package);
	// A package that is there beats a default that would have to be compiled first.
	// A source of another version is of no use, whatever it has.
	unsigned of_source = str_eq(a->source_version, m->plan->driver) ? a->source_flavours : 0;
	unsigned set = of_package && !m->wish->flavour ? of_package : of_package | of_source;
	if (!set && str_eq(m->facts->loaded.version, m->plan->driver))
		set = m->facts->loaded.flavour;
	return set ? set : FLAVOUR_OPEN | FLAVOUR_PROPRIETARY;
}

int goal_flavour(const struct making *m, struct err *err)
{
	struct flavour_choice choice = { 0 };
	if (flavour_choose(&m->facts->gpus, m->plan->driver, m->wish->flavour, flavours_at_hand(m), &choice, err) < 0)
		return -1;
	m->plan->flavour = choice.flavour;
	m->plan->flavour_why = TAKE(choice.why);
	flavour_choice_done(&choice);
	return 0;
}

enum flavour plan_flavour(const struct facts *facts, const struct wish *wish, const struct at_hand *at_hand)
{
	const char *driver = plan_driver(facts, wish, at_hand);
	struct plan plan = { .driver = (char *)(uintptr_t)driver };
	const struct making m = { .facts = facts, .wish = wish, .at_hand = at_hand, .plan = &plan };
	struct err ignored;
	if (!driver || goal_flavour(&m, &ignored) < 0)
		return FLAVOUR_AUTO;
	free(plan.flavour_why);
	return plan.flavour;
}

static const char *srcversion_in(const struct package *p, const char *module)
{
	for (size_t i = 0; p && i < p->count; i++)
		if (str_eq(p->files[i].module, module))
			return p->files[i].srcversion;
	return NULL;
}

// What the kernel does not tell of parameters, by the record of the load.
static char *parameter_differs(const struct making *m)
{
	const struct journal *j = m->at_hand->journal;
	const struct driver *had =
		!j ? NULL : given_record(j, m->facts->host.boot_id, m->plan->driver, flavour_name(m->plan->flavour));
	auto_str char *lost = had ? given_lost(had, &m->plan->modules, m->wish->params) : NULL;
	auto_str char *lacks = had && m->wish->params ? given_lacks(had, &m->facts->loaded, m->wish->params) : NULL;
	return lost  ? str_fmt("only parameters differ: %s is no longer wished", lost) :
	       lacks ? str_fmt("only parameters differ: %s was not given", lacks) :
		       NULL;
}

// An optional module that failed in this boot, and of which nothing has changed: the core is not disturbed for it.
static bool is_given_up(const struct making *m, const char *module)
{
	const struct optional *failed = m->at_hand->failed;
	const struct optional_failure *f = optional_find(failed, module);
	const struct package *p = m->at_hand->package;
	if (!f || m->wish->is_retry || !strv_has(&m->plan->optional, module) ||
	    !str_eq(failed->driver, m->plan->driver) || (p && !str_eq(failed->package, p->manifest.digest)))
		return false;
	auto_str char *params = m->wish->params ? params_text(m->wish->params, module) : str_dup("");
	return str_eq(f->params, params);
}

char *goal_differs(const struct making *m, struct strv *ret_missing)
{
	const struct loaded *l = &m->facts->loaded;
	auto_strv struct strv params = { 0 };
	if (!str_eq(l->version, m->plan->driver))
		return str_fmt("driver %s is loaded, %s is wished", l->version ? l->version : "(unknown)",
			       m->plan->driver);
	if (l->flavour != m->plan->flavour)
		return str_fmt("the %s modules are loaded, %s is wished", flavour_name(l->flavour),
			       flavour_name(m->plan->flavour));
	for (size_t i = 0; i < m->plan->modules.count; i++) {
		const char *name = m->plan->modules.items[i], *wished = srcversion_in(m->at_hand->package, name);
		const struct loaded_module *now = loaded_find(l, name);
		if (!now && !is_given_up(m, name))
			strv_add(ret_missing, str_dup(name));
		else if (now && wished && now->srcversion && !str_eq(wished, now->srcversion))
			return str_fmt("%s has srcversion %s, the package's has %s", name, now->srcversion, wished);
	}
	if (m->wish->params && params_differ(m->wish->params, l, &params) > 0)
		return str_fmt("only parameters differ: %s", params.items[0]);
	return parameter_differs(m);
}

void plan_target(const struct plan *p, const struct wish *wish, const char *digest, const char *build_id,
		 struct driver *ret)
{
	struct driver d = { .version = str_dup(p->driver),
			    .flavour = str_dup(flavour_name(p->flavour)),
			    .digest = str_dup(digest),
			    .kernel = str_dup(build_id) };
	for (size_t i = 0; i < p->modules.count; i++) {
		auto_str char *name = module_canonical(p->modules.items[i]);
		auto_str char *text = wish->params ? params_text(wish->params, name) : str_dup("");
		strv_add(&d.modules, str_dup(p->modules.items[i]));
		driver_set_params(&d, name, text);
		if (wish->params)
			params_options(wish->params, name, &d.options);
	}
	driver_done(ret);
	*ret = d;
}

// The last good driver could come instead, as far as the journal tells.
static bool is_better_known(const struct journal *j, const struct driver *target)
{
	return j->last_good.version && str_eq(j->last_good.kernel, target->kernel) &&
	       !driver_same(&j->last_good, target);
}

char *plan_why_not(const struct driver *target, const struct wish *wish, const struct facts *facts,
		   const struct journal *journal)
{
	if (!journal || wish->is_retry || (!facts->loaded.version && !is_better_known(journal, target)))
		return NULL;
	auto_str char *why = journal_why_not(journal, facts->host.boot_id, target);
	return why ? str_fmt("driver %s (%s) is not tried again: %s", target->version, target->flavour, why) : NULL;
}
