// SPDX-License-Identifier: Apache-2.0
// What user space is to be exported, and whether it is already.
#include "cmd/common/job.h"

#include "driver_root/modules_dir.h"
#include "driver_root/root_record.h"
#include "driver_root/withdraw.h"

// An export that is there stays in step with the driver, also when nobody names it. *ret_is_demanded: a node without a
// payload is an error.
static int choose_dir(const struct job *j, const struct root_record *now, char **ret, bool *ret_is_demanded)
{
	const struct job_values *v = j->values;
	*ret_is_demanded = v->export || now->dir;
	if (v->export && str_eq(v->export, "none"))
		return 0;
	*ret = v->export            ? str_dup(v->export) :
	       now->dir             ? str_fmt("/%s", now->dir) :
	       v->is_export_default ? str_dup(DRIVER_ROOT_DEFAULT) :
				      NULL;
	return *ret != NULL;
}

// What is exported elsewhere, or is exported although nothing should be; a start that was killed may have left one.
static char *former_export_dir(const struct root_record *now, const char *dir)
{
	if (now->former && !str_eq(now->former, dir))
		return str_dup(now->former);
	return now->dir && !str_eq(now->dir, dir) ? str_dup(now->dir) : NULL;
}

// The store may have lost what serves well.
static int is_export_current(const struct job *j, const char *driver, struct err *err)
{
	const struct machine *m = &j->machine;
	auto_root_record struct root_record now = { 0 };
	int r = root_record_measure(&m->host, &m->kern, &m->sys, j->facts.host.boot_id, &now, err);
	return r <= 0 ? r : str_eq(now.dir, j->export.dir) && str_eq(now.driver, driver) && !now.problem;
}

// 1 = obtain.payload is to be exported; 0 = nothing is to be done.
static int find_payload(struct job *j, const char *driver, bool is_demanded, struct err *err)
{
	auto_str char *why = NULL;
	bool is_loaded = str_eq(driver, j->facts.loaded.version);
	bool is_local = !j->acquire.is_named || (is_loaded && j->driver);
	int r = acquire_find_payload(&j->acquire, driver, is_local, &why, err);
	if (r != 0)
		return r;
	r = is_export_current(j, driver, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (is_demanded || !is_loaded) {
		free(TAKE(why));
		r = acquire_find_payload(&j->acquire, driver, false, &why, err);
	}
	if (r > 0)
		return 1;
	if (r < 0 && is_demanded)
		return -1;
	if (is_demanded)
		j->at_hand.payload_why_not = j->export_why =
			str_fmt("driver %s, for /%s: %s", driver, j->export.dir, why);
	else
		progress_note(&j->progress, "no user space is exported: %s", r < 0 ? err->text : why);
	return 0;
}

static struct driver_root job_export_values(struct job *j)
{
	return (struct driver_root){ .host = &j->machine.host,
				     .kern = &j->machine.kern,
				     .state = &j->state,
				     .sys = &j->machine.sys,
				     .progress = &j->progress,
				     .boot = j->facts.host.boot_id };
}

int job_export_open(struct job *j, bool *ret_is_demanded, struct err *err)
{
	auto_str char *dir = NULL;
	auto_root_record struct root_record now = { 0 };
	if (j->export.dir)
		return 0;
	driver_root_done(&j->export);
	j->export = job_export_values(j);
	if (root_record_read(&j->machine.host, j->facts.host.boot_id, &now, err) < 0)
		return -1;
	if (choose_dir(j, &now, &dir, ret_is_demanded) > 0 && driver_root_open(&j->export, dir, err) < 0)
		return -1;
	j->export.former = former_export_dir(&now, j->export.dir);
	return 0;
}

int job_export_withdraw(struct job *j, struct err *err)
{
	if (!j->export.former)
		return 0;
	auto_driver_root struct driver_root old = job_export_values(j);
	auto_str char *dir = str_fmt("/%s", j->export.former);
	progress_enter(&j->progress, "withdraw");
	if (driver_root_open(&old, dir, err) < 0 ||
	    withdraw_driver_root(&old, j->facts.host.release, j->facts.loaded.version, !j->export.dir, err) < 0)
		return -1;
	progress_end(&j->progress, "withdraw", "%s is no longer exported", dir);
	free(TAKE(j->export.former));
	return 0;
}

int job_export(struct job *j, struct err *err)
{
	const struct package *p = acquire_found(&j->acquire);
	const char *driver = plan_driver(&j->facts, &j->request, &j->at_hand);
	bool is_demanded = false;
	if (job_export_open(j, &is_demanded, err) < 0)
		return -1;
	if (!j->export.dir || !driver)
		return 0;
	int r = find_payload(j, driver, is_demanded, err);
	if (r <= 0)
		return r;
	if (p && modules_dir_key(p, j->facts.host.release, &j->machine.host, j->export_modules, err) < 0)
		return -1;
	j->driver_root_request =
		(struct driver_root_request){ .driver = driver,
					      .payload = j->acquire.payload,
					      .modules = p ? j->export_modules : NULL,
					      .release = j->facts.host.release,
					      .flavour = plan_flavour(&j->facts, &j->request, &j->at_hand) };
	j->at_hand.payload = j->acquire.payload;
	if (driver_root_check(&j->export, &j->driver_root_request, &j->export_why, err) < 0)
		return -1;
	j->at_hand.export_why = j->export_why;
	return 0;
}
