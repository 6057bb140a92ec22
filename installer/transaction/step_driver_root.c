// SPDX-License-Identifier: Apache-2.0
// The driver's user space in place, beside the modules that it belongs to.
#include "transaction/apply_internal.h"

#include "daemons/daemon_rules.h"
#include "driver_root/generation_gc.h"
#include "driver_root/modules_dir.h"
#include "driver_root/root_record.h"

// Without its fabric manager a machine with NVSwitches has a driver that computes nothing: it would better stay as it
// is.
static int check_daemons(const struct apply *a, struct err *err)
{
	static const struct daemon_wish none;
	auto_root struct root payload = ROOT_NONE;
	auto_daemon_facts struct daemon_facts facts = { 0 };
	auto_daemons struct daemons daemons = { 0 };
	auto_str char *path = str_fmt(EXPORT_PAYLOADS "/%s", a->obtain->payload);
	if (root_sub(a->state, path, &payload, err) < 0 || daemon_facts_read(a->kern, &payload, &none, &facts, err) < 0)
		return -1;
	facts.switches = gpus_ours(&a->facts->gpus, GPU_SWITCH); // none is counted before the driver is loaded
	daemons_rules(&facts, &daemons);
	const struct belong belong = { .driver = a->plan->driver, .arch = a->facts->host.arch };
	return daemons_check(&daemons, &payload, &belong, err);
}

int step_payload(struct run *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	const struct carry *c = &a->obtain->carry;
	int brought = obtain_payload(a->obtain, a->plan->driver, err);
	if (brought < 0 || (a->is_kept && check_daemons(a, err) < 0))
		return -1;
	bool is_copied = brought > 0 && str_eq(c->is.digest, a->obtain->payload);
	auto_str char *how = is_copied ?
				     str_fmt(", %llu MiB of the image copied", (unsigned long long)c->is.bytes >> 20) :
				     str_dup("");
	watch_end(a->watch, "payload", "user space %s, sha256 %.12s...%s", a->plan->driver, a->obtain->payload, how);
	return 0;
}

static struct export_wish wish_of(const struct run *r, const char *driver, enum flavour flavour)
{
	return (struct export_wish){ .driver = driver,
				     .payload = r->a->obtain->payload,
				     .modules = *r->modules ? r->modules : NULL,
				     .release = r->a->facts->host.release,
				     .flavour = flavour };
}

static int make_modules(const struct run *r, struct package *p, const struct root *store, struct err *err)
{
	const struct apply *a = r->a;
	if (root_exists(store, r->modules))
		return 0;
	if (p->dir.fd < 0 && obtain_unpack(a->obtain, p, err) < 0)
		return -1;
	return modtree_make(p, a->facts->host.release, a->host, store, r->modules, err) < 0 ? -1 : 0;
}

// Without a package, what was exported with the same modules goes on to be.
static int keep_modules(struct run *r, struct err *err)
{
	const struct apply *a = r->a;
	auto_exported struct exported now = { 0 };
	if (exported_record(a->host, a->facts->host.boot_id, &now, err) < 0)
		return -1;
	auto_str char *path = now.modules ? str_fmt(EXPORT_MODULES "/%s", now.modules) : NULL;
	if (path && digest_is_hex(now.modules) && str_eq(now.driver, a->plan->driver) && root_exists(a->state, path))
		memcpy(r->modules, now.modules, sizeof(r->modules));
	return 0;
}

static int modules_of(struct run *r, struct package *p, struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	return modtree_key(p, r->a->facts->host.release, r->a->host, r->modules, err) < 0 ||
			       root_mkdirs(r->a->state, EXPORT_MODULES, 0755, err) < 0 ||
			       root_sub(r->a->state, EXPORT_MODULES, &store, err) < 0 ?
		       -1 :
		       make_modules(r, p, &store, err);
}

// The package of this run; when the kernel has its modules already, the one that the store keeps, or that a source has.
static int find_modules(struct run *r, struct err *err)
{
	struct obtain *o = r->a->obtain;
	auto_package struct package brought = PACKAGE_NONE;
	if (r->package.count)
		return modules_of(r, &r->package, err);
	if (o->kept.count)
		return modules_of(r, &o->kept, err);
	if (!obtain_package(o))
		return keep_modules(r, err);
	return obtain_take(o, &brought, err) < 0 ? -1 : modules_of(r, &brought, err);
}

int run_prepare_export(struct run *r, struct err *err)
{
	struct export *e = r->a->export;
	if (!plan_has(r->a->plan, STEP_EXPORT) || e->made)
		return 0;
	if (find_modules(r, err) < 0)
		return -1;
	struct export_wish wish = wish_of(r, r->a->plan->driver, r->a->plan->flavour);
	return export_prepare(e, &wish, err);
}

int run_show_firmware(struct run *r, struct err *err)
{
	struct export_wish wish = wish_of(r, r->a->plan->driver, r->a->plan->flavour);
	return r->a->export && r->a->export->made ? export_firmware(r->a->export, &wish, err) : 0;
}

int step_export(struct run *r, const struct step *step, struct err *err)
{
	(void)step;
	struct export *e = r->a->export;
	if (run_prepare_export(r, err) < 0)
		return -1;
	struct export_wish wish = wish_of(r, r->a->plan->driver, r->a->plan->flavour);
	if (export_switch(e, &wish, err) < 0)
		return -1;
	watch_end(r->a->watch, "export", "/%s, generation %u", e->dir, e->number);
	return 0;
}

static int obtain_back(const struct apply *a, const char *version, struct err *err)
{
	auto_str char *why = NULL;
	a->obtain->is_back = true;
	int found = obtain_payload_look(a->obtain, version, true, &why, err);
	if (found > 0 && obtain_payload(a->obtain, version, err) < 0)
		found = -1;
	a->obtain->is_back = false;
	if (found == 0)
		watch_note(a->watch, "no user space of driver %s is exported: %s", version, why);
	return found;
}

static enum flavour flavour_of_back(const struct run *r)
{
	enum flavour flavour = FLAVOUR_AUTO;
	if (r->back.driver.flavour)
		flavour_parse(r->back.driver.flavour, &flavour);
	return flavour;
}

static int prepare_back(struct run *r, struct err *err)
{
	const struct apply *a = r->a;
	const char *version = r->back.driver.version;
	int found = obtain_back(a, version, err);
	if (found <= 0)
		return found;
	if (r->back.package.count && modules_of(r, &r->back.package, err) < 0)
		return -1;
	struct export_wish wish = wish_of(r, version, flavour_of_back(r));
	return export_prepare(a->export, &wish, err) < 0 || export_firmware(a->export, &wish, err) < 0 ? -1 : 0;
}

void run_prepare_back(struct run *r)
{
	struct err why;
	if (r->a->export && prepare_back(r, &why) < 0)
		watch_note(r->a->watch, "the user space of driver %s is not exported: %s", r->back.driver.version,
			   why.text);
}

void run_export_back(struct run *r)
{
	struct err why;
	struct export *e = r->a->export;
	struct export_wish wish = wish_of(r, r->back.driver.version, flavour_of_back(r));
	if (!e || !e->made)
		return;
	if (export_switch(e, &wish, &why) < 0)
		watch_note(r->a->watch, "the user space of driver %s is not exported: %s", r->back.driver.version,
			   why.text);
	else
		watch_end(r->a->watch, "export", "/%s, generation %u", e->dir, e->number);
}

void run_unexport(struct run *r)
{
	struct err why;
	if (r->a->export && export_back(r->a->export, &why) < 0)
		watch_note(r->a->watch, "what was exported before is not in place again: %s", why.text);
}

void run_collect(struct run *r)
{
	struct err why;
	int done = 1;
	if (r->a->export)
		done = export_settle(r->a->export, &why) < 0 ? -1 : collect_unused(r->a->export, &why);
	if (done < 0)
		watch_note(r->a->watch, "what was exported before is not cleared away: %s", why.text);
	else if (!done)
		watch_note(r->a->watch, "an earlier export is still in use; a later start removes it");
}
