// SPDX-License-Identifier: Apache-2.0
// Is the way clear: what would stop the driver, and who has to make room for it.
#include "transaction/apply_internal.h"

#include "journal/state_dir.h"
#include "plan/preflight.h"

#include <errno.h>

static int find_firmware(const struct apply *a, const struct firmware_need *need, char **ret_text, struct err *err)
{
	auto_firmware_search struct firmware_search search = { 0 };
	auto_str char *where = NULL;
	if (firmware_search(a->host, a->kern, a->facts->host.release, &search, err) < 0)
		return -1;
	if (need->names.count && a->export && export_brings(a->export, a->obtain->payload, &search, &need->names)) {
		*ret_text = str_dup("firmware comes with the user space");
		return 0;
	}
	int found = preflight_firmware(a->host, &search, need, &where, err);
	if (found >= 0)
		*ret_text = found ? str_fmt("firmware %s", where) : str_fmt("no firmware: %s", need->why);
	return found;
}

static int check_firmware(const struct run *r, char **ret_text, struct err *err)
{
	const struct apply *a = r->a;
	auto_firmware_need struct firmware_need need = { 0 };
	firmware_need_make(&a->facts->gpus, a->plan->driver, a->plan->flavour, a->wish->params, &need);
	return find_firmware(a, &need, ret_text, err);
}

int run_check_back(struct run *r, struct err *err)
{
	const struct driver *d = &r->back.driver;
	auto_firmware_need struct firmware_need need = { 0 };
	auto_str char *text = NULL;
	firmware_need_record(&r->a->facts->gpus, d, &need);
	return find_firmware(r->a, &need, &text, err) < 0 ? err_wrap(err, "driver %s", d->version) : 0;
}

static bool is_kept(const struct run *r)
{
	const struct obtain *o = r->a->obtain;
	return plan_has(r->a->plan, STEP_PACKAGE) && obtain_package(o) == &o->kept;
}

// The store makes its own room for what is fetched or compiled; what it has already is only unpacked.
static uint64_t room_wanted(const struct run *r)
{
	return is_kept(r) ? package_bytes(&r->a->obtain->kept) : 0;
}

// What the store has can be unpacked in memory; a fetch and a compile need the store itself.
static int check_room(const struct run *r, struct err *err)
{
	const struct memstate *m = &r->a->obtain->memory;
	struct err why;
	if (state_dir_space(r->a->state, room_wanted(r), err) == 0)
		return 0;
	if (!m->is_allowed || !is_kept(r) || !memstate_is_due(err))
		return -1;
	why = *err;
	return memstate_room(m, room_wanted(r), err) < 0 ? err_wrap(err, "%s, and in memory", why.text) : 0;
}

// In a container the machine is found by the root of process 1; who may not look there takes the container for it.
static bool is_machine_hidden(const struct root *kern)
{
	struct err err;
	auto_str char *link = NULL;
	return root_readlink(kern, "proc/1/root", &link, &err) < 0 && err.code == EACCES;
}

// As far as the steps of this plan go.
static unsigned uses_of(const struct plan *plan, const struct root *kern)
{
	bool is_swap = plan_has(plan, STEP_UNLOAD) || plan_has(plan, STEP_UNBIND);
	bool is_root_compile = plan_has(plan, STEP_COMPILE) && geteuid() == 0;
	return RIGHTS_DRIVER | (is_swap || is_machine_hidden(kern) ? RIGHTS_HOLDERS : 0) |
	       (is_root_compile ? RIGHTS_COMPILE : 0) | (plan_has(plan, STEP_EXPORT) ? RIGHTS_MOUNTS : 0);
}

int step_preflight(struct run *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	auto_str char *firmware = NULL;
	if (preflight_rights(a->kern, uses_of(a->plan, a->kern), err) < 0 || check_firmware(r, &firmware, err) < 0 ||
	    check_room(r, err) < 0)
		return -1;
	watch_end(a->watch, "preflight", "%s", firmware);
	return 0;
}

static struct owner_work work_of(const struct run *r)
{
	const struct apply *a = r->a;
	return (struct owner_work){ .host = a->host,
				    .kern = a->kern,
				    .sys = a->sys,
				    .release = a->facts->host.release,
				    .timeout_ms = a->unload_timeout_ms,
				    .watch = a->watch };
}

// What cannot go back is no reason to leave the node without its old NVIDIA driver as well.
static void give_back(struct run *r)
{
	struct owner_work w = work_of(r);
	auto_str char *problem = NULL;
	owner_restore(&w, &r->released, &problem);
	if (problem)
		watch_note(r->a->watch, "not everything has its driver back: %s", problem);
	released_done(&r->released);
}

int step_unbind(struct run *r, const struct step *step, struct err *err)
{
	struct owner_work w = work_of(r);
	if (owner_release(&w, &r->a->facts->gpus, &r->released, err) < 0) {
		if (err->code == E_WEDGED) // then nothing else is undone, but the other GPUs can go back
			give_back(r);
		return -1;
	}
	auto_str char *modules = strv_join(&r->released.modules, ", ");
	watch_end(r->a->watch, "unbind", "%s%s%s", step->subject, *modules ? "; unloaded " : "", modules);
	return 0;
}

// Where no driver of ours was loaded and one comes back all the same, it keeps the GPUs.
int undo_unbind(struct run *r, struct err *err)
{
	(void)err;
	if (!r->back.driver.version || r->a->facts->loaded.version)
		give_back(r);
	return 0;
}

void settle_left(const struct run *r)
{
	struct owner_work w = work_of(r);
	owner_settle_left(&w, &r->a->facts->gpus);
}

void settle_unbind(struct run *r)
{
	struct err err;
	struct owner_work w = work_of(r);
	if (owner_settle(&w, &r->released, &err) < 0)
		watch_note(r->a->watch, "driver_override stays: %s", err.text);
}
