// SPDX-License-Identifier: Apache-2.0
// The driver's user space in place, beside the modules that it belongs to.
#include "transaction/transaction_internal.h"

#include "daemons/daemon_rules.h"
#include "driver_root/driver_root.h"
#include "driver_root/modules_dir.h"
#include "driver_root/root_record.h"

// Without its fabric manager, a driver on a machine with NVSwitches cannot compute: better to change nothing.
static int check_daemons(const struct apply *a, struct err *err)
{
	static const struct daemon_request none;
	auto_root struct root payload = ROOT_NONE;
	auto_daemon_facts struct daemon_facts facts = { 0 };
	auto_daemons struct daemons daemons = { 0 };
	auto_str char *path = str_fmt(DRIVER_ROOT_PAYLOADS "/%s", a->acquire->payload);
	if (root_sub(a->state, path, &payload, err) < 0 || daemon_facts_read(a->kern, &payload, &none, &facts, err) < 0)
		return -1;
	facts.switches = gpus_count_ours(&a->facts->gpus, GPU_SWITCH); // none is counted before the driver is loaded
	daemons_rules(&facts, &daemons);
	const struct version_check belong = { .driver = a->plan->driver, .arch = a->facts->host.arch };
	return daemons_check(&daemons, &payload, &belong, err);
}

int step_payload(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	const struct image_payload *c = &a->acquire->carry;
	int brought = acquire_payload(a->acquire, a->plan->driver, err);
	if (brought < 0 || (a->is_kept && check_daemons(a, err) < 0))
		return -1;
	bool is_copied = brought > 0 && str_eq(c->is.digest, a->acquire->payload);
	auto_str char *how = is_copied ?
				     str_fmt(", %llu MiB of the image copied", (unsigned long long)c->is.bytes >> 20) :
				     str_dup("");
	progress_end(a->progress, "payload", "user space %s, sha256 %.12s...%s", a->plan->driver, a->acquire->payload,
		     how);
	return 0;
}

static struct driver_root_request export_request_of(const struct transaction *r, const char *driver,
						    enum module_type flavour)
{
	return (struct driver_root_request){ .driver = driver,
					     .payload = r->a->acquire->payload,
					     .modules = *r->modules ? r->modules : NULL,
					     .release = r->a->facts->host.release,
					     .flavour = flavour };
}

static int make_module_tree(const struct transaction *r, struct package *p, const struct root *store, struct err *err)
{
	const struct apply *a = r->a;
	if (root_exists(store, r->modules))
		return 0;
	if (p->dir.fd < 0 &&
	    state_dir_stage(&a->acquire->memory, &a->acquire->store.layout, a->acquire->fetch.state, p, err) < 0)
		return -1;
	return modules_dir_make(p, a->facts->host.release, a->host, store, r->modules, err) < 0 ? -1 : 0;
}

// Without a package, keeps the modules that are exported now.
static int keep_exported_modules(struct transaction *r, struct err *err)
{
	const struct apply *a = r->a;
	auto_root_record struct root_record now = { 0 };
	if (root_record_read(a->host, a->facts->host.boot_id, &now, err) < 0)
		return -1;
	auto_str char *path = now.modules ? str_fmt(DRIVER_ROOT_MODULES "/%s", now.modules) : NULL;
	if (path && digest_is_hex(now.modules) && str_eq(now.driver, a->plan->driver) && root_exists(a->state, path))
		memcpy(r->modules, now.modules, sizeof(r->modules));
	return 0;
}

static int use_package_modules(struct transaction *r, struct package *p, struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	return modules_dir_key(p, r->a->facts->host.release, r->a->host, r->modules, err) < 0 ||
			       root_mkdirs(r->a->state, DRIVER_ROOT_MODULES, 0755, err) < 0 ||
			       root_sub(r->a->state, DRIVER_ROOT_MODULES, &store, err) < 0 ?
		       -1 :
		       make_module_tree(r, p, &store, err);
}

// The package of this run; if the kernel has its modules already, the one in the store or in a source.
static int find_modules(struct transaction *r, struct err *err)
{
	struct acquire *o = r->a->acquire;
	auto_package struct package brought = PACKAGE_NONE;
	if (r->package.count)
		return use_package_modules(r, &r->package, err);
	if (o->kept.count)
		return use_package_modules(r, &o->kept, err);
	if (!acquire_found(o))
		return keep_exported_modules(r, err);
	return acquire_take(o, &brought, err) < 0 ? -1 : use_package_modules(r, &brought, err);
}

int step_prepare_export(struct transaction *r, struct err *err)
{
	struct driver_root *e = r->a->export;
	if (!plan_has(r->a->plan, STEP_EXPORT) || e->made)
		return 0;
	if (find_modules(r, err) < 0)
		return -1;
	struct driver_root_request request = export_request_of(r, r->a->plan->driver, r->a->plan->flavour);
	return driver_root_prepare(e, &request, err);
}

int step_export_firmware(struct transaction *r, struct err *err)
{
	struct driver_root_request request = export_request_of(r, r->a->plan->driver, r->a->plan->flavour);
	return r->a->export && r->a->export->made ? driver_root_set_firmware_path(r->a->export, &request, err) : 0;
}

int step_export(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	struct driver_root *e = r->a->export;
	if (step_prepare_export(r, err) < 0)
		return -1;
	struct driver_root_request request = export_request_of(r, r->a->plan->driver, r->a->plan->flavour);
	if (driver_root_switch(e, &request, err) < 0)
		return -1;
	progress_end(r->a->progress, "export", "/%s, generation %u", e->dir, e->number);
	return 0;
}

static enum module_type rollback_flavour(const struct transaction *r)
{
	enum module_type flavour = MODULE_TYPE_AUTO;
	if (r->rollback.driver.flavour)
		module_type_parse(r->rollback.driver.flavour, &flavour);
	return flavour;
}

static int prepare_rollback_export(struct transaction *r, struct err *err)
{
	const struct apply *a = r->a;
	const char *version = r->rollback.driver.version;
	auto_str char *why = NULL;
	a->acquire->is_back = true;
	int found = acquire_find_payload(a->acquire, version, true, &why, err);
	if (found > 0 && acquire_payload(a->acquire, version, err) < 0)
		found = -1;
	a->acquire->is_back = false;
	if (found == 0)
		progress_note(a->progress, "no user space of driver %s is exported: %s", version, why);
	if (found <= 0)
		return found;
	if (r->rollback.package.count && use_package_modules(r, &r->rollback.package, err) < 0)
		return -1;
	struct driver_root_request request = export_request_of(r, version, rollback_flavour(r));
	return driver_root_prepare(a->export, &request, err) < 0 ||
			       driver_root_set_firmware_path(a->export, &request, err) < 0 ?
		       -1 :
		       0;
}

void step_prepare_rollback_export(struct transaction *r)
{
	struct err why;
	if (r->a->export && prepare_rollback_export(r, &why) < 0)
		progress_note(r->a->progress, "the user space of driver %s is not exported: %s",
			      r->rollback.driver.version, why.text);
}

void step_export_rollback(struct transaction *r)
{
	struct err why;
	struct driver_root *e = r->a->export;
	struct driver_root_request request = export_request_of(r, r->rollback.driver.version, rollback_flavour(r));
	if (!e || !e->made)
		return;
	if (driver_root_switch(e, &request, &why) < 0)
		progress_note(r->a->progress, "the user space of driver %s is not exported: %s",
			      r->rollback.driver.version, why.text);
	else
		progress_end(r->a->progress, "export", "/%s, generation %u", e->dir, e->number);
}

void step_undo_export(struct transaction *r)
{
	struct err why;
	if (r->a->export && driver_root_rollback(r->a->export, &why) < 0)
		progress_note(r->a->progress, "could not restore the previous export: %s", why.text);
}

void step_export_collect(struct transaction *r)
{
	struct err why;
	int done = 1;
	if (r->a->export)
		done = driver_root_finish(r->a->export, &why) < 0 ? -1 : driver_root_gc(r->a->export, &why);
	if (done < 0)
		progress_note(r->a->progress, "could not remove earlier exports: %s", why.text);
	else if (!done)
		progress_note(r->a->progress, "an earlier export is still in use; a later start removes it");
}
