// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_internal.h"

#include "holders/unbind.h"

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

static void add_step(struct plan *p, enum step_kind kind, char *take_subject, char *take_why)
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

static bool is_package_fitting(const struct plan_context *m)
{
	const struct package *p = m->at_hand->package;
	return p && str_eq(p->key.driver, m->plan->driver) && str_eq(p->key.flavour, flavour_name(m->plan->flavour));
}

// What this node remembers of the change that is planned.
static int check_journal_failures(const struct plan_context *m, struct err *err)
{
	const struct journal *j = m->at_hand->journal;
	const struct host *host = &m->facts->host;
	const struct package *p = m->at_hand->package;
	auto_driver_state struct driver_state target = { 0 };
	if (j && journal_check_wedged(j, host->boot_id, err) < 0)
		return -1;
	if (!is_package_fitting(m))
		return 0; // what is compiled first is known later
	plan_target(m->plan, m->request, p->manifest.digest, host->build_id, &target);
	auto_str char *why = plan_why_not(&target, m->request, m->facts, j);
	return why ? err_set(err, E_TARGET_FAILED, "%s", why) : 0;
}

static int add_acquire_steps(const struct plan_context *m, const struct strv *modules, struct err *err)
{
	const struct at_hand *a = m->at_hand;
	if (check_journal_failures(m, err) < 0)
		return -1;
	add_step(m->plan, STEP_PREFLIGHT, str_dup("rights, firmware, room"),
		 str_dup("what would fail later is told before anything is fetched, compiled or touched"));
	if (is_package_fitting(m)) {
		add_step(m->plan, STEP_PACKAGE, str_dup(a->package->place),
			 str_fmt("%smade for kernel %s%s%s", a->compatible ? "compatible: " : "",
				 a->package->key.release, a->compatible ? ", " : "",
				 a->compatible ? a->compatible : ""));
	} else if (m->request->is_compile_forbidden || !a->source_version) {
		return err_set(err, plan_no_package_code(m), "no package of driver %s (%s) for kernel %s%s%s, and %s",
			       m->plan->driver, flavour_name(m->plan->flavour), m->facts->host.release,
			       a->package_why_not ? ": " : "", a->package_why_not ? a->package_why_not : "",
			       a->source_version ? "compiling is forbidden" : "no --source to compile");
	} else if (!str_eq(a->source_version, m->plan->driver)) {
		return err_set(err, E_USAGE,
			       "driver %s is asked for, and the source is of driver %s: leave out --driver "
			       "(DRIVER_VERSION) or name a source of %s",
			       m->plan->driver, a->source_version, m->plan->driver);
	} else {
		const char *signing = host_signing_reason(&m->facts->host);
		if (signing)
			return err_set(err, E_SIGNING_REQUIRED, "%s, so modules compiled here could not be loaded",
				       signing);
		add_step(m->plan, STEP_COMPILE,
			 str_fmt("%s %s for %s", m->plan->driver, flavour_name(m->plan->flavour),
				 m->facts->host.release),
			 str_dup("no package is at hand"));
	}
	add_step(m->plan, STEP_PROVE, strv_join(modules, ", "),
		 str_dup("nothing is touched before the new modules are known to fit"));
	return 0;
}

// Somebody put a driver on this host, and it is not the requested one: without a word of the administrator it stays.
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

// The host's next boot would load what is installed there.
static int check_installed(const struct plan_context *m, struct err *err)
{
	const struct existing_driver *r = &m->facts->existing_driver;
	if (str_eq(r->version, m->plan->driver) && r->flavour == m->plan->flavour)
		return 0;
	auto_str char *why = str_fmt("%s %s is wished", m->plan->driver, flavour_name(m->plan->flavour));
	return check_host_driver(m, why, err);
}

static void add_load(const struct plan_context *m, const struct strv *modules, const char *why)
{
	char *owned = unbind_text(&m->facts->gpus);
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
		return err_set(err, E_IN_USE, "%s, but %zu holder(s) keep the driver: %s", why, holders, first);
	}
	if (m->request->holders != HOLDERS_REFUSE)
		add_step(m->plan, STEP_HOLDERS, str_fmt("%zu holder(s) now", holders),
			 str_fmt("--holders %s", holders_wait_name(m->request->holders)));
	add_step(m->plan, STEP_UNLOAD, strv_join(&order, ", "), str_dup(why));
	add_load(m, &m->plan->modules, "replaces what was unloaded");
	return 0;
}

static int add_module_steps(const struct plan_context *m, struct err *err)
{
	auto_strv struct strv missing = { 0 };
	if (!m->facts->loaded.count) {
		if (check_installed(m, err) < 0 || add_acquire_steps(m, &m->plan->modules, err) < 0)
			return -1;
		add_load(m, &m->plan->modules, "no driver is loaded");
		return 0;
	}
	auto_str char *why = plan_target_differs(m, &missing);
	if (why)
		return add_replace(m, why, err);
	if (missing.count) {
		if (add_acquire_steps(m, &missing, err) < 0)
			return -1;
		add_load(m, &missing, "the rest of the set is loaded already");
		return 0;
	}
	if (gpus_check_owner(&m->facts->gpus, false, err) < 0)
		return -1;
	m->plan->outcome = PLAN_ADOPT;
	add_step(m->plan, STEP_ADOPT, str_fmt("%s %s", m->plan->driver, flavour_name(m->plan->flavour)),
		 str_dup("the kernel has the wished modules: zero unloads, zero compiles"));
	return 0;
}

// Why user space is exported anew. What is compiled now is in no export yet.
static const char *export_why(const struct plan_context *m)
{
	if (!m->at_hand->payload)
		return NULL;
	return m->at_hand->export_why          ? m->at_hand->export_why :
	       plan_has(m->plan, STEP_COMPILE) ? "the modules are new" :
						 NULL;
}

static void add_payload_step(struct plan *p, const char *payload, const char *why)
{
	add_step(p, STEP_PAYLOAD, str_fmt("user space %s, %.12s", p->driver, payload), str_dup(why));
	struct step first = p->steps[p->count - 1];
	memmove(p->steps + 1, p->steps, (p->count - 1) * sizeof(first));
	p->steps[0] = first;
}

// Modules that containers need and that the host has not loaded are the host's matter, too, and worth a word.
static void add_missing_text(const struct plan_context *m, char **text)
{
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++)
		if (!modules_find(&m->facts->loaded, default_modules[i]))
			str_add(text, ", without %s", default_modules[i]);
}

// What the host has, whatever is requested.
static int plan_host_driver(const struct plan_context *m, struct err *err)
{
	const struct existing_driver *r = &m->facts->existing_driver;
	auto_str char *text = existing_driver_text(r);
	if (!r->is_loaded)
		return err_set(err, E_HOST_DRIVER,
			       "the host's own driver %s is to be used and is not loaded: load it there (modprobe "
			       "nvidia), or choose --host-driver replace",
			       text);
	add_missing_text(m, &text);
	m->plan->outcome = PLAN_ADOPT;
	m->plan->driver = str_dup(r->version ? r->version : "(unknown)");
	m->plan->flavour = r->flavour;
	m->plan->flavour_why = str_dup("that of the host's own driver");
	add_step(m->plan, STEP_ADOPT, str_fmt("the host's own driver %s", text),
		 str_dup("--host-driver use: it stays as it is, whatever is wished"));
	return 0;
}

static int plan_change(const struct plan_context *m, struct err *err)
{
	plan_target_modules(m);
	if (plan_target_driver(m, err) < 0 || plan_target_flavour(m, err) < 0)
		return -1;
	if (m->at_hand->compatible && is_package_fitting(m))
		m->plan->compatible = str_dup(m->at_hand->package->key.release);
	return add_module_steps(m, err);
}

static int make_steps(const struct plan_context *m, struct err *err)
{
	bool is_host_used = m->request->host_driver == HOST_USE && m->facts->existing_driver.is_foreign;
	if (!facts_has_gpu(m->facts)) {
		m->plan->outcome = PLAN_NO_GPU;
		return 0;
	}
	m->plan->outcome = PLAN_CHANGE;
	if (gpus_check_owner(&m->facts->gpus, !is_host_used, err) < 0 ||
	    (is_host_used ? plan_host_driver(m, err) : plan_change(m, err)) < 0)
		return -1;
	// A host that keeps its own driver has its own user space beside it.
	const char *why = is_host_used ? NULL : export_why(m);
	// Modules of one version beside libraries of another would serve nobody (R-E4).
	if (!is_host_used && m->at_hand->payload_why_not)
		return err_set(err, E_NO_PAYLOAD, "%s", m->at_hand->payload_why_not);
	if (why)
		add_payload_step(m->plan, m->at_hand->payload, why);
	add_step(m->plan, STEP_NODES, str_dup("/dev"), str_dup("containers need every node and its /dev/char link"));
	if (why)
		add_step(m->plan, STEP_EXPORT, str_fmt("user space %s", m->plan->driver),
			 str_dup("one switch, when the modules are in"));
	add_step(m->plan, STEP_VERIFY,
		 str_fmt("%zu GPUs, %zu switches", gpus_count_ours(&m->facts->gpus, GPU_DISPLAY),
			 gpus_count_ours(&m->facts->gpus, GPU_SWITCH)),
		 str_dup("ready means measured"));
	return 0;
}

int plan_make(const struct facts *facts, const struct request *request, const struct at_hand *at_hand,
	      const struct holders *holders, struct plan *ret, struct err *err)
{
	auto_plan struct plan plan = { 0 };
	struct plan_context m = {
		.facts = facts, .request = request, .at_hand = at_hand, .holders = holders, .plan = &plan
	};
	if (make_steps(&m, err) < 0)
		return -1;
	*ret = plan;
	plan = (struct plan){ 0 };
	return 0;
}
