// SPDX-License-Identifier: Apache-2.0
// What user space is to be exported, and whether it is already.
#include "transaction/session_internal.h"

#include "driver_root/driver_root.h"
#include "driver_root/modules_dir.h"
#include "driver_root/root_record.h"

// An export that is there stays in step with the driver, also when nobody names it. *ret_is_demanded: a node without a
// payload is an error.
static int choose_dir(const struct session *s, const struct root_record *now, char **ret, bool *ret_is_demanded)
{
	const struct session_request *request = s->request;
	*ret_is_demanded = request->driver_root || now->dir;
	if (request->driver_root && str_eq(request->driver_root, "none"))
		return 0;
	*ret = request->driver_root         ? str_dup(request->driver_root) :
	       now->dir                     ? str_fmt("/%s", now->dir) :
	       request->driver_root_default ? str_dup(request->driver_root_default) :
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
static int is_export_current(const struct session *s, const char *driver, struct err *err)
{
	const struct session_request *request = s->request;
	auto_root_record struct root_record now = { 0 };
	int r = root_record_measure(request->host, request->kern, request->sys, s->facts.host.boot_id, &now, err);
	return r <= 0 ? r : str_eq(now.dir, s->driver_root.dir) && str_eq(now.driver, driver) && !now.problem;
}

// 1 = acquire.payload is to be exported; 0 = nothing is to be done.
static int find_payload(struct session *s, const char *driver, bool is_demanded, struct err *err)
{
	auto_str char *why = NULL;
	bool is_loaded = str_eq(driver, s->facts.loaded.version);
	bool is_local = !s->acquire.is_named || (is_loaded && s->driver);
	int r = acquire_find_payload(&s->acquire, driver, is_local, &why, err);
	if (r != 0)
		return r;
	r = is_export_current(s, driver, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (is_demanded || !is_loaded) {
		free(TAKE(why));
		r = acquire_find_payload(&s->acquire, driver, false, &why, err);
	}
	if (r > 0)
		return 1;
	if (r < 0 && is_demanded)
		return -1;
	if (is_demanded)
		s->at_hand.payload_why_not = s->driver_root_why =
			str_fmt("driver %s, for /%s: %s", driver, s->driver_root.dir, why);
	else
		progress_note(&s->progress, "no user space is exported: %s", r < 0 ? err->text : why);
	return 0;
}

static struct driver_root driver_root_values(struct session *s)
{
	return (struct driver_root){ .host = s->request->host,
				     .kern = s->request->kern,
				     .state = &s->state,
				     .sys = s->request->sys,
				     .progress = &s->progress,
				     .boot = s->facts.host.boot_id };
}

int session_driver_root_open(struct session *s, bool *ret_is_demanded, struct err *err)
{
	auto_str char *dir = NULL;
	auto_root_record struct root_record now = { 0 };
	if (s->driver_root.dir)
		return 0;
	driver_root_done(&s->driver_root);
	s->driver_root = driver_root_values(s);
	if (root_record_read(s->request->host, s->facts.host.boot_id, &now, err) < 0)
		return -1;
	if (choose_dir(s, &now, &dir, ret_is_demanded) > 0 && driver_root_open(&s->driver_root, dir, err) < 0)
		return -1;
	s->driver_root.former = former_export_dir(&now, s->driver_root.dir);
	return 0;
}

int session_driver_root_withdraw(struct session *s, struct err *err)
{
	if (!s->driver_root.former)
		return 0;
	auto_driver_root struct driver_root old = driver_root_values(s);
	auto_str char *dir = str_fmt("/%s", s->driver_root.former);
	progress_enter(&s->progress, "withdraw");
	if (driver_root_open(&old, dir, err) < 0 ||
	    driver_root_withdraw(&old, s->facts.host.release, s->facts.loaded.version, !s->driver_root.dir, err) < 0)
		return -1;
	progress_end(&s->progress, "withdraw", "%s is no longer exported", dir);
	free(TAKE(s->driver_root.former));
	return 0;
}

int session_driver_root_find(struct session *s, struct err *err)
{
	const struct package *p = acquire_found(&s->acquire);
	const char *driver = plan_driver(&s->facts, &s->plan_request, &s->at_hand);
	bool is_demanded = false;
	if (session_driver_root_open(s, &is_demanded, err) < 0)
		return -1;
	if (!s->driver_root.dir || !driver)
		return 0;
	int r = find_payload(s, driver, is_demanded, err);
	if (r <= 0)
		return r;
	if (p && modules_dir_key(p, s->facts.host.release, s->request->host, s->modules_dir, err) < 0)
		return -1;
	s->driver_root_request =
		(struct driver_root_request){ .driver = driver,
					      .payload = s->acquire.payload,
					      .modules = p ? s->modules_dir : NULL,
					      .release = s->facts.host.release,
					      .flavour = plan_flavour(&s->facts, &s->plan_request, &s->at_hand) };
	s->at_hand.payload = s->acquire.payload;
	if (driver_root_check(&s->driver_root, &s->driver_root_request, &s->driver_root_why, err) < 0)
		return -1;
	s->at_hand.export_why = s->driver_root_why;
	return 0;
}
