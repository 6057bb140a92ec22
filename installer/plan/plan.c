// SPDX-License-Identifier: Apache-2.0
// Chooses the target driver, compares it with what is loaded, and makes the steps in between.
#include "plan/plan.h"

#include "holders/unbind.h"
#include "host/module_set.h"
#include "journal/loaded_params.h"
#include "kmod/source/recipe.h"
#include "precompiled/repository/kind.h"

struct plan_context {
	const struct facts *facts;
	const struct request *request;
	const struct at_hand *at_hand;
	const struct holders *holders;
	struct plan *plan;
};

static int no_package_code(const struct plan_context *m)
{
	return m->at_hand->package_code ? m->at_hand->package_code : E_NO_PACKAGE;
}

static const char *choose_driver(const struct facts *facts, const struct request *request,
				 const struct at_hand *at_hand)
{
	if (request->driver)
		return request->driver;
	if (at_hand->package)
		return at_hand->package->key.driver;
	if (at_hand->source_version)
		return at_hand->source_version;
	// An unusable package named by the user is an error to report, not a reason to keep what is loaded.
	return request->is_named || request->digest ? NULL : facts->loaded.version;
}

static unsigned flavours_at_hand(const struct plan_context *m)
{
	const struct at_hand *a = m->at_hand;
	enum module_type of_package = MODULE_TYPE_AUTO;
	if (a->package)
		module_type_parse(a->package->key.flavour, &of_package);
	// An existing package beats a default that would have to be compiled first. A source of another version does
	// not count.
	unsigned of_source = str_eq(a->source_version, m->plan->driver) ? a->source_flavours : 0;
	unsigned set = of_package && !m->request->flavour ? of_package : of_package | of_source;
	if (!set && !m->request->flavour && str_eq(m->facts->loaded.version, m->plan->driver))
		set = m->facts->loaded.flavour;
	return set ? set : MODULE_TYPE_OPEN | MODULE_TYPE_PROPRIETARY;
}

static int choose_target_flavour(const struct plan_context *m, struct err *err)
{
	return gpu_support_choose(&m->facts->gpus, m->plan->driver, m->request->flavour, flavours_at_hand(m),
				  &m->plan->flavour, &m->plan->flavour_why, err);
}

const char *plan_driver(const struct facts *facts, const struct request *request, const struct at_hand *at_hand,
			enum module_type *ret_flavour)
{
	const char *driver = choose_driver(facts, request, at_hand);
	struct plan plan = { .driver = (char *)(uintptr_t)driver };
	const struct plan_context m = { .facts = facts, .request = request, .at_hand = at_hand, .plan = &plan };
	struct err ignored;
	*ret_flavour = driver && choose_target_flavour(&m, &ignored) == 0 ? plan.flavour : MODULE_TYPE_AUTO;
	free(plan.flavour_why);
	return driver;
}

static const char *package_srcversion(const struct package *p, const char *module)
{
	for (size_t i = 0; p && i < p->count; i++)
		if (str_eq(p->files[i].module, module))
			return p->files[i].srcversion;
	return NULL;
}

// Parameters that the kernel does not show come from the record of the load.
static char *why_params_differ(const struct plan_context *m)
{
	const struct journal *j = m->at_hand->journal;
	const struct driver_state *had = !j ? NULL :
					      loaded_params_record(j, m->facts->host.boot_id, m->plan->driver,
								   module_type_name(m->plan->flavour));
	auto_str char *lost = had ? loaded_params_removed(had, &m->plan->modules, m->at_hand->params) : NULL;
	auto_str char *lacks =
		had && m->at_hand->params ? loaded_params_missing(had, &m->facts->loaded, m->at_hand->params) : NULL;
	return lost  ? str_fmt("only parameters differ: %s is no longer requested", lost) :
	       lacks ? str_fmt("only parameters differ: %s was not given", lacks) :
		       NULL;
}

// An optional module that failed in this boot, with nothing changed since: not worth a reload of the core modules.
static bool is_optional_given_up(const struct plan_context *m, const char *module)
{
	const struct optional_modules *failed = m->at_hand->failed;
	const struct optional_failure *f = optional_modules_find(failed, module);
	const struct package *p = m->at_hand->package;
	if (!f || m->request->is_retry || !strv_has(&m->plan->optional, module) ||
	    !str_eq(failed->driver, m->plan->driver) || (p && !str_eq(failed->package, p->manifest.digest)))
		return false;
	auto_str char *params = m->at_hand->params ? module_params_text(m->at_hand->params, module) : str_dup("");
	return str_eq(f->params, params);
}

// Why the modules in the kernel are not the requested ones; NULL = they are, except for those in ret_missing.
static char *why_modules_differ(const struct plan_context *m, struct strv *ret_missing)
{
	const struct modules *l = &m->facts->loaded;
	auto_strv struct strv params = { 0 };
	if (!str_eq(l->version, m->plan->driver))
		return str_fmt("driver %s is loaded, %s was requested", l->version ? l->version : "(unknown)",
			       m->plan->driver);
	if (l->flavour != m->plan->flavour)
		return str_fmt("the %s modules are loaded, %s was requested", module_type_name(l->flavour),
			       module_type_name(m->plan->flavour));
	for (size_t i = 0; i < m->plan->modules.count; i++) {
		const char *name = m->plan->modules.items[i],
			   *requested = package_srcversion(m->at_hand->package, name);
		const struct loaded_module *now = modules_find(l, name);
		if (!now && !is_optional_given_up(m, name))
			strv_add(ret_missing, str_dup(name));
		else if (now && requested && now->srcversion && !str_eq(requested, now->srcversion))
			return str_fmt("%s has srcversion %s, the package's has %s", name, now->srcversion, requested);
	}
	if (m->at_hand->params && module_params_differing(m->at_hand->params, l, &params) > 0)
		return str_fmt("only parameters differ: %s", params.items[0]);
	return why_params_differ(m);
}

void plan_target(const struct plan *p, const struct module_params *params, const char *digest, const char *build_id,
		 struct driver_state *ret)
{
	struct driver_state d = { .version = str_dup(p->driver),
				  .flavour = str_dup(module_type_name(p->flavour)),
				  .digest = str_dup(digest),
				  .kernel = str_dup(build_id) };
	for (size_t i = 0; i < p->modules.count; i++) {
		auto_str char *name = module_canonical(p->modules.items[i]);
		auto_str char *text = params ? module_params_text(params, name) : str_dup("");
		strv_add(&d.modules, str_dup(p->modules.items[i]));
		driver_state_set_params(&d, name, text);
		if (params)
			module_params_options(params, name, &d.options);
	}
	driver_state_done(ret);
	*ret = d;
}

char *plan_why_not(const struct driver_state *target, const struct request *request, const struct facts *facts,
		   const struct journal *journal)
{
	if (!journal || request->is_retry)
		return NULL;
	const struct driver_state *good = &journal->last_good; // could be loaded instead
	bool has_better = good->version && str_eq(good->kernel, target->kernel) && !driver_state_same(good, target);
	if (!facts->loaded.version && !has_better)
		return NULL;
	auto_str char *why = journal_why_not(journal, facts->host.boot_id, target);
	return why ? str_fmt("driver %s (%s) is not tried again: %s", target->version, target->flavour, why) : NULL;
}

void plan_done(struct plan *p)
{
	for (size_t i = 0; i < p->count; i++) {
		free(p->steps[i].subject);
		free(p->steps[i].why);
	}
	free(p->steps);
	free(p->driver);
	free(p->flavour_why);
	free(p->compatible);
	strv_done(&p->modules);
	strv_done(&p->optional);
	*p = (struct plan){ 0 };
}

const char *plan_step_name(enum step_kind kind)
{
	static const char *const names[] = {
#define STEP(kind_, name_, undo_, flags_) #name_,
#include "plan/steps.def"
#undef STEP
	};
	return names[kind];
}

bool plan_step_is(enum step_kind kind, enum step_flag flag)
{
	static const unsigned flags[] = {
#define STEP(kind_, name_, undo_, flags_) flags_,
#include "plan/steps.def"
#undef STEP
	};
	return flags[kind] & flag;
}

const char *plan_outcome_name(enum plan_outcome o)
{
	static const char *const names[] = { "no-gpu", "adopt", "change" };
	return names[o];
}

// Where it belongs, whichever was added first.
static void add_step(struct plan *p, enum step_kind kind, char *take_subject, char *take_why)
{
	size_t at = p->count++;
	p->steps = mem_grow(p->steps, p->count, sizeof(*p->steps));
	for (; at > 0 && p->steps[at - 1].kind > kind; at--)
		p->steps[at] = p->steps[at - 1];
	p->steps[at] = (struct step){ .kind = kind, .subject = take_subject, .why = take_why };
}

bool plan_has(const struct plan *p, enum step_kind kind)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->steps[i].kind == kind)
			return true;
	return false;
}

// A module without which nothing computes, that the package lacks; NULL = none. Whoever names modules knows better.
static const char *core_lack(const struct plan_context *m)
{
	const struct package *p = m->at_hand->package;
	for (size_t i = 0; p && !m->request->modules.count && i < ARRAY_SIZE(default_modules); i++)
		if (!optional_modules_is(default_modules[i]) && !strv_has(&p->key.modules, default_modules[i]))
			return default_modules[i];
	return NULL;
}

static bool is_package_fitting(const struct plan_context *m)
{
	const struct package *p = m->at_hand->package;
	return p && str_eq(p->key.driver, m->plan->driver) &&
	       str_eq(p->key.flavour, module_type_name(m->plan->flavour));
}

// Refuses what the journal knows to fail.
static int check_journal_failures(const struct plan_context *m, struct err *err)
{
	const struct journal *j = m->at_hand->journal;
	const struct host *host = &m->facts->host;
	const struct package *p = m->at_hand->package;
	auto_driver_state struct driver_state target = { 0 };
	if (j && journal_check_wedged(j, host->boot_id, err) < 0)
		return -1;
	if (!is_package_fitting(m))
		return 0; // a compiled package is checked after the compile
	plan_target(m->plan, m->at_hand->params, p->manifest.digest, host->build_id, &target);
	auto_str char *why = plan_why_not(&target, m->request, m->facts, j);
	return why ? err_set(err, E_TARGET_FAILED, "%s", why) : 0;
}

// The module type is named only where somebody chose it: a package may bring another one.
static int refuse_without_package(const struct plan_context *m, struct err *err)
{
	const struct at_hand *a = m->at_hand;
	const char *driver = m->plan->driver, *arch = m->facts->host.arch;
	bool is_type_requested = m->request->flavour != MODULE_TYPE_AUTO;
	err_set(err, no_package_code(m), "no package of driver %s%s%s%s for kernel %s, and %s: %s", driver,
		is_type_requested ? " (" : "", is_type_requested ? module_type_name(m->request->flavour) : "",
		is_type_requested ? ")" : "", m->facts->host.release,
		a->source_version ? "compiling is forbidden" : "no --source to compile",
		a->package_why_not ? a->package_why_not : "the store has none, and no --from was given");
	if (err->code == E_USAGE)
		return err_next(err, "correct --from (KMODSMITH_FROM): " REPOSITORY_NAMES);
	if (err->code != E_NO_PACKAGE)
		return err_next(err, "%s", a->package_next ? a->package_next : "");
	if (a->source_version)
		return err_next(err, "leave out --no-compile (KMODSMITH_NO_COMPILE), or publish a package: `kmodsmith "
				     "build --help`");
	return err_next(err,
			"name where a package is: --from docker://HOST/NAME (KMODSMITH_FROM); or compile here: "
			"--source NVIDIA-Linux-%s-%s.run; to make it last: `from =` or `source =` in kmodsmith.conf",
			arch, driver);
}

int plan_refuse_source(const char *driver, const char *of_source, const char *arch, struct err *err)
{
	err_set(err, E_USAGE, "driver %s was requested, but the source is of driver %s", driver, of_source);
	return err_next(err,
			"leave out --driver (DRIVER_VERSION), or name a source of it: --source NVIDIA-Linux-%s-%s.run",
			arch, driver);
}

// Before anything is fetched or unloaded. What may fail is left to fail.
static int check_kernel_allows(const struct plan_context *m, const struct strv *modules, struct err *err)
{
	auto_strv struct strv needed = { 0 };
	for (size_t i = 0; i < modules->count; i++)
		if (!strv_has(&m->plan->optional, modules->items[i]))
			strv_add(&needed, str_dup(modules->items[i]));
	return m->at_hand->params ? module_params_check_allowed(m->at_hand->params, &needed, err) : 0;
}

static int add_acquire_steps(const struct plan_context *m, const struct strv *modules, struct err *err)
{
	const struct at_hand *a = m->at_hand;
	const char *lack = core_lack(m);
	if (check_kernel_allows(m, modules, err) < 0 || check_journal_failures(m, err) < 0)
		return -1;
	if (lack && is_package_fitting(m) && str_eq(m->facts->loaded.version, m->plan->driver))
		return err_set(err, E_NO_PACKAGE, "the package of driver %s has no %s", a->package->key.driver, lack);
	add_step(m->plan, STEP_PREFLIGHT, str_dup("rights, firmware, room"),
		 str_dup("checked before anything is fetched, compiled or touched"));
	if (is_package_fitting(m)) {
		add_step(m->plan, STEP_PACKAGE, str_dup(a->package->place),
			 str_fmt("%smade for kernel %s%s%s", a->compatible ? "compatible: " : "",
				 a->package->key.release, a->compatible ? ", " : "",
				 a->compatible ? a->compatible : ""));
	} else if (m->request->is_compile_forbidden || m->request->digest || !a->source_version) {
		return refuse_without_package(m, err);
	} else if (!str_eq(a->source_version, m->plan->driver)) {
		return plan_refuse_source(m->plan->driver, a->source_version, m->facts->host.arch, err);
	} else {
		const char *signing = host_signing_reason(&m->facts->host);
		if (signing && !a->signer)
			return err_set(err, E_SIGNING_REQUIRED, "%s, so modules compiled here could not be loaded",
				       signing);
		auto_str char *newer = recipe_newer_kernel(m->plan->driver, m->facts->host.release);
		add_step(m->plan, STEP_COMPILE,
			 str_fmt("%s %s for %s", m->plan->driver, module_type_name(m->plan->flavour),
				 m->facts->host.release),
			 str_fmt("no package is available%s%s%s%s%s%s%s", a->inputs ? "; " : "",
				 a->inputs ? a->inputs : "", newer ? "; the kernel is " : "", newer ? newer : "",
				 newer ? "; it may fail" : "", a->signer ? "; signed by " : "",
				 a->signer ? a->signer : ""));
	}
	add_step(m->plan, STEP_PROVE, strv_join(modules, ", "),
		 str_dup("nothing is touched before the new modules are known to fit"));
	return 0;
}

// The host has a driver of its own that is not the requested one: it stays unless the administrator says otherwise.
static int check_host_driver(const struct plan_context *m, const char *why, struct err *err)
{
	const struct existing_driver *r = &m->facts->existing_driver;
	if (!r->is_foreign || r->is_stale || m->request->host_driver == HOST_REPLACE)
		return 0;
	auto_str char *text = existing_driver_text(r);
	return err_set(err, E_HOST_DRIVER,
		       "%s; the host's own driver %s is %s; --host-driver use keeps it as it is, replace takes it out, "
		       "fail (the default) changes nothing",
		       why, text, r->is_loaded ? "loaded" : "installed and will be loaded at the next boot");
}

static void add_load(const struct plan_context *m, const struct strv *modules, const char *why)
{
	auto_served_gpus struct gpus served = { 0 };
	gpu_support_served(&m->facts->gpus, m->plan->driver, m->plan->flavour, &served);
	char *owned = unbind_text(&served);
	if (owned)
		add_step(m->plan, STEP_UNBIND, owned, str_dup("a GPU has one driver at a time"));
	add_step(m->plan, STEP_LOAD, strv_join(modules, ", "), str_dup(why));
}

static int add_replace(const struct plan_context *m, const char *why, struct err *err)
{
	auto_strv struct strv order = { 0 };
	if (check_host_driver(m, why, err) < 0 || add_acquire_steps(m, &m->plan->modules, err) < 0 ||
	    modules_unload_order(&m->facts->loaded, &order, err) < 0)
		return -1;
	size_t holders = m->holders ? holders_blocking(m->holders) : 0;
	if (holders && m->request->holders == HOLDERS_REFUSE) {
		auto_str char *first = holders_first(m->holders);
		return err_set(err, E_IN_USE, "%s, but %zu holder(s) use the driver: %s", why, holders, first);
	}
	if (m->holders && m->holders->console) { // it does not go away while somebody waits
		err_set(err, E_IN_USE, "%s, but the kernel's console uses nvidia_drm: %s", why, m->holders->console);
		return holders_next(m->holders, err);
	}
	if (m->request->holders != HOLDERS_REFUSE)
		add_step(m->plan, STEP_HOLDERS, str_fmt("%zu holder(s) now", holders),
			 str_fmt("--holders %s", holders_wait_name(m->request->holders)));
	add_step(m->plan, STEP_UNLOAD, strv_join(&order, ", "), str_dup(why));
	add_load(m, &m->plan->modules, "replaces what was unloaded");
	return 0;
}

// Only of the GPUs that the driver serves: another driver may have the rest.
static int check_owner(const struct plan_context *m, bool is_released, struct err *err)
{
	auto_served_gpus struct gpus served = { 0 };
	gpu_support_served(&m->facts->gpus, m->plan->driver, m->plan->flavour, &served);
	return gpus_check_owner(&served, is_released, err);
}

static int add_module_steps(const struct plan_context *m, struct err *err)
{
	auto_strv struct strv missing = { 0 };
	if (!m->facts->loaded.count) {
		// The host's next boot would load what is installed there.
		const struct existing_driver *next = &m->facts->existing_driver;
		bool is_same = str_eq(next->version, m->plan->driver) && next->flavour == m->plan->flavour;
		auto_str char *other =
			str_fmt("%s %s was requested", m->plan->driver, module_type_name(m->plan->flavour));
		if ((!is_same && check_host_driver(m, other, err) < 0) ||
		    add_acquire_steps(m, &m->plan->modules, err) < 0)
			return -1;
		add_load(m, &m->plan->modules, "no driver is loaded");
		return 0;
	}
	auto_str char *why = why_modules_differ(m, &missing);
	if (why)
		return add_replace(m, why, err);
	if (missing.count) {
		if (add_acquire_steps(m, &missing, err) < 0)
			return -1;
		add_load(m, &missing, "the rest of the set is loaded already");
		return 0;
	}
	if (check_owner(m, false, err) < 0)
		return -1;
	const char *lack = core_lack(m);
	bool is_lacking = lack && !modules_find(&m->facts->loaded, lack);
	m->plan->outcome = PLAN_ADOPT;
	add_step(m->plan, STEP_ADOPT, str_fmt("%s %s", m->plan->driver, module_type_name(m->plan->flavour)),
		 str_fmt("the requested modules are loaded: zero unloads, zero compiles%s%s%s",
			 is_lacking ? "; nothing computes without " : "", is_lacking ? lack : "",
			 is_lacking ? ", which its package lacks" : ""));
	return 0;
}

// Keeps the host's own driver, regardless of the request.
static int plan_host_driver(const struct plan_context *m, struct err *err)
{
	const struct existing_driver *r = &m->facts->existing_driver;
	auto_str char *text = existing_driver_text(r);
	m->plan->driver = str_dup(r->version ? r->version : "(unknown)");
	m->plan->flavour = r->flavour;
	m->plan->flavour_why = str_dup("that of the host's own driver");
	if (check_owner(m, false, err) < 0)
		return -1;
	if (!r->is_loaded)
		return err_set(err, E_HOST_DRIVER,
			       "the host's own driver %s is to be used and is not loaded: load it there (modprobe "
			       "nvidia), or choose --host-driver replace",
			       text);
	// Modules that containers need and the host has not loaded are left to the host, but reported.
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++)
		if (!modules_find(&m->facts->loaded, default_modules[i]))
			str_add(&text, ", without %s", default_modules[i]);
	m->plan->outcome = PLAN_ADOPT;
	add_step(m->plan, STEP_ADOPT, str_fmt("the host's own driver %s", text),
		 str_dup("--host-driver use: it stays as it is, whatever was requested"));
	return 0;
}

static int plan_change(const struct plan_context *m, struct err *err)
{
	const struct at_hand *a = m->at_hand;
	const struct strv *named = &m->request->modules;
	struct plan *p = m->plan;
	for (size_t i = 0; i < named->count; i++)
		strv_add(&p->modules, str_dup(named->items[i]));
	const char *lack = core_lack(m);
	bool is_as_loaded = lack && str_eq(m->facts->loaded.version, choose_driver(m->facts, m->request, a));
	// A package that was built without an optional module was built so on purpose. Without another one it is not
	// loaded, and what is loaded stays as it is.
	for (size_t i = 0; !named->count && i < ARRAY_SIZE(default_modules); i++) {
		if (a->package && optional_modules_is(default_modules[i]) &&
		    !strv_has(&a->package->key.modules, default_modules[i]))
			continue;
		if (is_as_loaded && !modules_find(&m->facts->loaded, default_modules[i]))
			continue;
		strv_add(&p->modules, str_dup(default_modules[i]));
		if (optional_modules_is(default_modules[i]))
			strv_add(&p->optional, str_dup(default_modules[i]));
	}
	p->driver = str_dup(choose_driver(m->facts, m->request, a));
	if (!p->driver && a->package_why_not) {
		err_set(err, no_package_code(m), "no package: %s", a->package_why_not);
		return err_next(err, "%s", a->package_next ? a->package_next : "");
	}
	if (!p->driver) {
		err_set(err, E_USAGE, "nothing says what to install: give --driver, --package, --bundle or --source");
		return err_next(err,
				"`kmodsmith install VERSION --from docker://HOST/NAME`, or "
				"`kmodsmith install --source NVIDIA-Linux-%s-VERSION.run`",
				m->facts->host.arch);
	}
	if (choose_target_flavour(m, err) < 0 || check_owner(m, true, err) < 0)
		return -1;
	if (a->compatible && is_package_fitting(m))
		p->compatible = str_dup(a->package->key.release);
	return add_module_steps(m, err);
}

int plan_make(const struct facts *facts, const struct request *request, const struct at_hand *at_hand,
	      const struct holders *holders, struct plan *ret, struct err *err)
{
	auto_plan struct plan plan = { 0 };
	struct plan_context m = {
		.facts = facts, .request = request, .at_hand = at_hand, .holders = holders, .plan = &plan
	};
	bool is_host_used = request->host_driver == HOST_USE && facts->existing_driver.is_foreign;
	if (!facts_has_gpu(facts)) {
		*ret = (struct plan){ .outcome = PLAN_NO_GPU };
		return 0;
	}
	plan.outcome = PLAN_CHANGE;
	if ((is_host_used ? plan_host_driver(&m, err) : plan_change(&m, err)) < 0)
		return -1;
	// A host that keeps its own driver has its own user space, too. Otherwise modules of one version are useless
	// with libraries of another (R-E4). Modules that are compiled now are in no export yet.
	if (!is_host_used && at_hand->payload_why_not) {
		err_set(err, E_NO_PAYLOAD, "%s", at_hand->payload_why_not);
		return err_next(err,
				"`kmodsmith pack payload NVIDIA-Linux-%s-%s.run --driver %s` makes them for this node; "
				"`kmodsmith push` publishes them beside the package",
				facts->host.arch, plan.driver, plan.driver);
	}
	const char *why = is_host_used || !at_hand->payload ? NULL :
			  at_hand->export_why               ? at_hand->export_why :
			  plan_has(&plan, STEP_COMPILE)     ? "the modules are new" :
							      NULL;
	if (why) {
		add_step(&plan, STEP_PAYLOAD, str_fmt("user space %s, %.12s", plan.driver, at_hand->payload),
			 str_dup(why));
		add_step(&plan, STEP_EXPORT, str_fmt("user space %s", plan.driver),
			 str_dup("switched at once, after the modules are loaded"));
	}
	add_step(&plan, STEP_NODES, str_dup("/dev"), str_dup("containers need every node and its /dev/char link"));
	auto_served_gpus struct gpus served = { 0 };
	gpu_support_served(&facts->gpus, plan.driver, plan.flavour, &served);
	bool has_compute = !plan.modules.count || strv_has(&plan.modules, "nvidia-uvm");
	add_step(&plan, STEP_VERIFY, gpus_text(&served),
		 str_fmt("readiness is measured%s",
			 has_compute ? "" : "; CUDA will not work: nvidia-uvm is not among the requested modules"));
	*ret = plan;
	plan = (struct plan){ 0 };
	return 0;
}
