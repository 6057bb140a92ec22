// SPDX-License-Identifier: Apache-2.0
#include "node/plan.h"

#include "node/owner.h"

static const char *const default_modules[] = { "nvidia", "nvidia-uvm", "nvidia-modeset" };

struct making {
	const struct facts *facts;
	const struct wish *wish;
	const struct at_hand *at_hand;
	const struct holders *holders;
	struct plan *plan;
};

void plan_done(struct plan *p)
{
	for (size_t i = 0; i < p->count; i++) {
		free(p->steps[i].subject);
		free(p->steps[i].why);
	}
	free(p->steps);
	free(p->driver);
	free(p->flavour_why);
	strv_done(&p->modules);
	*p = (struct plan){ 0 };
}

const char *step_kind_name(enum step_kind kind)
{
	static const char *const names[] = {
		[STEP_PAYLOAD] = "payload", [STEP_ADOPT] = "adopt",     [STEP_PREFLIGHT] = "preflight",
		[STEP_PACKAGE] = "package", [STEP_COMPILE] = "compile", [STEP_PROVE] = "prove",
		[STEP_HOLDERS] = "holders", [STEP_UNLOAD] = "unload",   [STEP_UNBIND] = "unbind",
		[STEP_LOAD] = "load",       [STEP_NODES] = "nodes",     [STEP_EXPORT] = "export",
		[STEP_VERIFY] = "verify",
	};
	return names[kind];
}

const char *plan_outcome_name(enum plan_outcome o)
{
	static const char *const names[] = { "no-gpu", "adopt", "change" };
	return names[o];
}

static void add(struct plan *p, enum step_kind kind, char *take_subject, char *take_why)
{
	p->steps = mem_grow(p->steps, p->count + 1, sizeof(*p->steps));
	p->steps[p->count++] = (struct step){ .kind = kind, .subject = take_subject, .why = take_why };
}

bool plan_has(const struct plan *p, enum step_kind kind)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->steps[i].kind == kind)
			return true;
	return false;
}

static void want_modules(const struct making *m)
{
	const struct strv *wish = m->wish->modules;
	if (wish && wish->count) {
		for (size_t i = 0; i < wish->count; i++)
			strv_add(&m->plan->modules, str_dup(wish->items[i]));
		return;
	}
	// A package that was built without one of the defaults was built so on purpose.
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++)
		if (!m->at_hand->package || strv_has(&m->at_hand->package->key.modules, default_modules[i]))
			strv_add(&m->plan->modules, str_dup(default_modules[i]));
}

static int no_package(const struct making *m)
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

static int choose_driver(const struct making *m, struct err *err)
{
	const char *version = plan_driver(m->facts, m->wish, m->at_hand);
	if (!version)
		return m->at_hand->package_why_not ?
			       err_set(err, no_package(m), "no package: %s", m->at_hand->package_why_not) :
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
	unsigned set = of_package && !m->wish->flavour ? of_package : of_package | a->source_flavours;
	if (!set && str_eq(m->facts->loaded.version, m->plan->driver))
		set = m->facts->loaded.flavour;
	return set ? set : FLAVOUR_OPEN | FLAVOUR_PROPRIETARY;
}

static int choose_flavour(const struct making *m, struct err *err)
{
	struct flavour_choice choice = { 0 };
	if (flavour_choose(&m->facts->gpus, m->plan->driver, m->wish->flavour, flavours_at_hand(m), &choice, err) < 0)
		return -1;
	m->plan->flavour = choice.flavour;
	m->plan->flavour_why = TAKE(choice.why);
	flavour_choice_done(&choice);
	return 0;
}

static const char *srcversion_in(const struct package *p, const char *module)
{
	for (size_t i = 0; p && i < p->count; i++)
		if (str_eq(p->files[i].module, module))
			return p->files[i].srcversion;
	return NULL;
}

// A parameter that the loaded modules got from here, and that nobody wishes any more. The kernel does not tell which
// values are defaults; the journal of this boot tells what was given.
static char *lost_parameter(const struct making *m)
{
	const struct journal *j = m->at_hand->journal;
	const struct driver *had = j ? &j->last_good : NULL;
	if (!j || !str_eq(j->last_good_boot, m->facts->host.boot_id) || !str_eq(had->version, m->plan->driver) ||
	    !str_eq(had->flavour, flavour_name(m->plan->flavour)))
		return NULL;
	for (size_t i = 0; i < m->plan->modules.count; i++) {
		auto_str char *module = module_canonical(m->plan->modules.items[i]);
		auto_strv struct strv names = { 0 };
		params_names(driver_params(had, module), &names);
		for (size_t n = 0; n < names.count; n++)
			if (!m->wish->params || !params_has(m->wish->params, module, names.items[n]))
				return str_fmt("%s %s", module, names.items[n]);
	}
	return NULL;
}

// Why the modules in the kernel are not the wished ones; NULL = they are (missing ones are reported through
// ret_missing).
static char *differs(const struct making *m, struct strv *ret_missing)
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
		if (!now)
			strv_add(ret_missing, str_dup(name));
		else if (wished && now->srcversion && !str_eq(wished, now->srcversion))
			return str_fmt("%s has srcversion %s, the package's has %s", name, now->srcversion, wished);
	}
	if (m->wish->params && params_differ(m->wish->params, l, &params) > 0)
		return str_fmt("only parameters differ: %s", params.items[0]);
	auto_str char *lost = lost_parameter(m);
	return lost ? str_fmt("only parameters differ: %s is no longer wished", lost) : NULL;
}

static bool is_fitting(const struct making *m)
{
	const struct package *p = m->at_hand->package;
	return p && str_eq(p->key.driver, m->plan->driver) && str_eq(p->key.flavour, flavour_name(m->plan->flavour));
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

// What this node remembers of the change that is planned.
static int ask_journal(const struct making *m, struct err *err)
{
	const struct journal *j = m->at_hand->journal;
	const struct host *host = &m->facts->host;
	const struct package *p = m->at_hand->package;
	auto_driver struct driver target = { 0 };
	if (j && journal_is_wedged(j, host->boot_id))
		return err_set(err, E_WEDGED, "since %s: %s", j->since, j->text);
	if (!is_fitting(m))
		return 0; // what is compiled first is known later
	plan_target(m->plan, m->wish, p->manifest.digest, host->build_id, &target);
	auto_str char *why = plan_why_not(&target, m->wish, m->facts, j);
	return why ? err_set(err, E_TARGET_FAILED, "%s", why) : 0;
}

static int add_obtain(const struct making *m, const struct strv *modules, struct err *err)
{
	const struct at_hand *a = m->at_hand;
	if (ask_journal(m, err) < 0)
		return -1;
	add(m->plan, STEP_PREFLIGHT, str_dup("rights, firmware, room"),
	    str_dup("what would fail later is told before anything is fetched, compiled or touched"));
	if (is_fitting(m)) {
		add(m->plan, STEP_PACKAGE, str_dup(a->package->place),
		    str_fmt("made for kernel %s", a->package->key.release));
	} else if (m->wish->is_compile_forbidden || !a->source_version) {
		return err_set(err, no_package(m), "no package of driver %s (%s) for kernel %s%s%s, and %s",
			       m->plan->driver, flavour_name(m->plan->flavour), m->facts->host.release,
			       a->package_why_not ? ": " : "", a->package_why_not ? a->package_why_not : "",
			       a->source_version ? "compiling is forbidden" : "no --source to compile");
	} else {
		const char *signing = host_signing_reason(&m->facts->host);
		if (signing && !a->has_signing)
			return err_set(err, E_SIGNING_REQUIRED, "%s, so modules compiled here could not be loaded",
				       signing);
		add(m->plan, STEP_COMPILE,
		    str_fmt("%s %s for %s", m->plan->driver, flavour_name(m->plan->flavour), m->facts->host.release),
		    str_dup("no package is at hand"));
	}
	add(m->plan, STEP_PROVE, strv_join(modules, ", "),
	    str_dup("nothing is touched before the new modules are known to fit"));
	return 0;
}

// Somebody put a driver on this host, and it is not the wished one: without a word of the administrator it stays.
static int check_host_driver(const struct making *m, const char *why, struct err *err)
{
	const struct resident *r = &m->facts->resident;
	if (!r->is_foreign || r->is_stale || m->wish->host_driver == HOST_REPLACE)
		return 0;
	auto_str char *text = resident_text(r);
	return err_set(err, E_HOST_DRIVER,
		       "%s; the host's own driver %s is %s; --host-driver use keeps it as it is, replace takes it out, "
		       "fail (the default) changes nothing",
		       why, text, r->is_loaded ? "loaded" : "installed and will be loaded at the next boot");
}

// The host's next boot would load what is installed there.
static int check_installed(const struct making *m, struct err *err)
{
	const struct resident *r = &m->facts->resident;
	if (str_eq(r->version, m->plan->driver) && r->flavour == m->plan->flavour)
		return 0;
	auto_str char *why = str_fmt("%s %s is wished", m->plan->driver, flavour_name(m->plan->flavour));
	return check_host_driver(m, why, err);
}

static void add_load(const struct making *m, const struct strv *modules, const char *why)
{
	char *owned = owner_text(&m->facts->gpus);
	if (owned)
		add(m->plan, STEP_UNBIND, owned, str_dup("a GPU has one driver at a time"));
	add(m->plan, STEP_LOAD, strv_join(modules, ", "), str_dup(why));
}

static int add_replace(const struct making *m, const char *why, struct err *err)
{
	auto_strv struct strv order = { 0 };
	if (check_host_driver(m, why, err) < 0 || add_obtain(m, &m->plan->modules, err) < 0 ||
	    loaded_unload_order(&m->facts->loaded, &order, err) < 0)
		return -1;
	size_t holders = m->holders ? holders_blocking(m->holders) : 0;
	if (holders && m->wish->holders == DRAIN_REFUSE) {
		auto_str char *first = holders_first(m->holders);
		return err_set(err, E_IN_USE, "%s, but %zu holder(s) keep the driver: %s", why, holders, first);
	}
	if (m->wish->holders != DRAIN_REFUSE)
		add(m->plan, STEP_HOLDERS, str_fmt("%zu holder(s) now", holders),
		    str_fmt("--holders %s", drain_name(m->wish->holders)));
	add(m->plan, STEP_UNLOAD, strv_join(&order, ", "), str_dup(why));
	add_load(m, &m->plan->modules, "replaces what was unloaded");
	return 0;
}

static int add_modules(const struct making *m, struct err *err)
{
	auto_strv struct strv missing = { 0 };
	if (!m->facts->loaded.count) {
		if (check_installed(m, err) < 0 || add_obtain(m, &m->plan->modules, err) < 0)
			return -1;
		add_load(m, &m->plan->modules, "no driver is loaded");
		return 0;
	}
	auto_str char *why = differs(m, &missing);
	if (why)
		return add_replace(m, why, err);
	if (missing.count) {
		if (add_obtain(m, &missing, err) < 0)
			return -1;
		add_load(m, &missing, "the rest of the set is loaded already");
		return 0;
	}
	if (gpus_check_owner(&m->facts->gpus, false, err) < 0)
		return -1;
	m->plan->outcome = PLAN_ADOPT;
	add(m->plan, STEP_ADOPT, str_fmt("%s %s", m->plan->driver, flavour_name(m->plan->flavour)),
	    str_dup("the kernel has the wished modules: zero unloads, zero compiles"));
	return 0;
}

// Why user space is exported anew. What is compiled now is in no export yet.
static const char *export_why(const struct making *m)
{
	if (!m->at_hand->payload)
		return NULL;
	return m->at_hand->export_why          ? m->at_hand->export_why :
	       plan_has(m->plan, STEP_COMPILE) ? "the modules are new" :
						 NULL;
}

static void add_payload(struct plan *p, const char *payload, const char *why)
{
	add(p, STEP_PAYLOAD, str_fmt("user space %s, %.12s", p->driver, payload), str_dup(why));
	struct step first = p->steps[p->count - 1];
	memmove(p->steps + 1, p->steps, (p->count - 1) * sizeof(first));
	p->steps[0] = first;
}

// Modules that containers need and that the host has not loaded are the host's matter, too, and worth a word.
static void tell_missing(const struct making *m, char **text)
{
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++)
		if (!loaded_find(&m->facts->loaded, default_modules[i]))
			str_add(text, ", without %s", default_modules[i]);
}

// What the host has, whatever is wished.
static int use_host(const struct making *m, struct err *err)
{
	const struct resident *r = &m->facts->resident;
	auto_str char *text = resident_text(r);
	if (!r->is_loaded)
		return err_set(err, E_HOST_DRIVER,
			       "the host's own driver %s is to be used and is not loaded: load it there (modprobe "
			       "nvidia), or choose --host-driver replace",
			       text);
	tell_missing(m, &text);
	m->plan->outcome = PLAN_ADOPT;
	m->plan->driver = str_dup(r->version ? r->version : "(unknown)");
	m->plan->flavour = r->flavour;
	m->plan->flavour_why = str_dup("that of the host's own driver");
	add(m->plan, STEP_ADOPT, str_fmt("the host's own driver %s", text),
	    str_dup("--host-driver use: it stays as it is, whatever is wished"));
	return 0;
}

static int choose_and_add(const struct making *m, struct err *err)
{
	want_modules(m);
	return choose_driver(m, err) < 0 || choose_flavour(m, err) < 0 ? -1 : add_modules(m, err);
}

static int make(const struct making *m, struct err *err)
{
	bool is_host_used = m->wish->host_driver == HOST_USE && m->facts->resident.is_foreign;
	if (!facts_has_gpu(m->facts)) {
		m->plan->outcome = PLAN_NO_GPU;
		return 0;
	}
	m->plan->outcome = PLAN_CHANGE;
	if (gpus_check_owner(&m->facts->gpus, !is_host_used, err) < 0 ||
	    (is_host_used ? use_host(m, err) : choose_and_add(m, err)) < 0)
		return -1;
	// A host that keeps its own driver has its own user space beside it.
	const char *why = is_host_used ? NULL : export_why(m);
	// Modules of one version beside libraries of another would serve nobody (R-E4).
	if (!is_host_used && m->at_hand->payload_why_not)
		return err_set(err, E_NO_PAYLOAD, "%s", m->at_hand->payload_why_not);
	if (why)
		add_payload(m->plan, m->at_hand->payload, why);
	add(m->plan, STEP_NODES, str_dup("/dev"), str_dup("containers need every node and its /dev/char link"));
	if (why)
		add(m->plan, STEP_EXPORT, str_fmt("user space %s", m->plan->driver),
		    str_dup("one switch, when the modules are in"));
	add(m->plan, STEP_VERIFY,
	    str_fmt("%zu GPUs, %zu switches", gpus_ours(&m->facts->gpus, GPU_DISPLAY),
		    gpus_ours(&m->facts->gpus, GPU_SWITCH)),
	    str_dup("ready means measured"));
	return 0;
}

int plan_make(const struct facts *facts, const struct wish *wish, const struct at_hand *at_hand,
	      const struct holders *holders, struct plan *ret, struct err *err)
{
	auto_plan struct plan plan = { 0 };
	struct making m = { .facts = facts, .wish = wish, .at_hand = at_hand, .holders = holders, .plan = &plan };
	if (make(&m, err) < 0)
		return -1;
	*ret = plan;
	plan = (struct plan){ 0 };
	return 0;
}
