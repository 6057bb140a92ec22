// SPDX-License-Identifier: Apache-2.0
// Checks for obstacles, and unbinds other drivers.
#include "transaction/transaction_internal.h"

#include "journal/state_dir.h"
#include "plan/preflight.h"

#include <errno.h>

static int find_firmware(const struct apply *a, const struct preflight_need *need, char **ret_text, struct err *err)
{
	auto_firmware_path struct firmware_path search = { 0 };
	auto_str char *where = NULL;
	if (firmware_path(a->host, a->kern, a->facts->host.release, &search, err) < 0)
		return -1;
	if (need->names.count && a->export &&
	    driver_root_has_firmware(a->export, a->acquire->payload, &search, &need->names)) {
		*ret_text = str_dup("firmware comes with the user space");
		return 0;
	}
	int found = preflight_firmware(a->host, &search, need, &where, err);
	if (found >= 0)
		*ret_text = found ? str_fmt("firmware %s", where) : str_fmt("no firmware: %s", need->why);
	return found;
}

static int check_target_firmware(const struct transaction *r, char **ret_text, struct err *err)
{
	const struct apply *a = r->a;
	auto_preflight_need struct preflight_need need = { 0 };
	preflight_need_make(&a->facts->gpus, a->plan->driver, a->plan->flavour, a->request->params, &need);
	return find_firmware(a, &need, ret_text, err);
}

int step_check_rollback(struct transaction *r, struct err *err)
{
	const struct driver_state *d = &r->rollback.driver;
	auto_preflight_need struct preflight_need need = { 0 };
	auto_str char *text = NULL;
	preflight_need_record(&r->a->facts->gpus, d, &need);
	return find_firmware(r->a, &need, &text, err) < 0 ? err_wrap(err, "driver %s", d->version) : 0;
}

static bool is_package_stored(const struct transaction *r)
{
	const struct acquire *o = r->a->acquire;
	return plan_has(r->a->plan, STEP_PACKAGE) && acquire_found(o) == &o->kept;
}

// The store makes room for what is fetched or compiled; a stored package only needs room to be unpacked.
static uint64_t room_wanted(const struct transaction *r)
{
	return is_package_stored(r) ? state_dir_package_bytes(&r->a->acquire->kept) : 0;
}

// What the store has can be unpacked in memory; a fetch and a compile need the store itself.
static int check_room(const struct transaction *r, struct err *err)
{
	const struct state_dir *m = &r->a->acquire->memory;
	struct err why;
	if (state_dir_space(r->a->state, room_wanted(r), err) == 0)
		return 0;
	if (!m->is_allowed || !is_package_stored(r) || !state_dir_is_disk_error(err))
		return -1;
	why = *err;
	return state_dir_memory_room(m, room_wanted(r), err) < 0 ? err_wrap(err, "%s, and in memory", why.text) : 0;
}

// In a container the machine is found by the root of process 1; without the right to read it, the container looks like
// the machine.
static bool is_machine_hidden(const struct root *kern)
{
	struct err err;
	auto_str char *link = NULL;
	return root_readlink(kern, "proc/1/root", &link, &err) < 0 && err.code == EACCES;
}

// The rights that the steps of this plan need.
static unsigned plan_rights(const struct plan *plan, const struct root *kern)
{
	bool is_swap = plan_has(plan, STEP_UNLOAD) || plan_has(plan, STEP_UNBIND);
	bool is_root_compile = plan_has(plan, STEP_COMPILE) && geteuid() == 0;
	return CAPABILITY_DRIVER | (is_swap || is_machine_hidden(kern) ? CAPABILITY_HOLDERS : 0) |
	       (is_root_compile ? CAPABILITY_COMPILE : 0) | (plan_has(plan, STEP_EXPORT) ? CAPABILITY_MOUNTS : 0);
}

int step_preflight(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	auto_str char *firmware = NULL;
	if (preflight_rights(a->kern, plan_rights(a->plan, a->kern), err) < 0 ||
	    check_target_firmware(r, &firmware, err) < 0 || check_room(r, err) < 0)
		return -1;
	progress_end(a->progress, "preflight", "%s", firmware);
	return 0;
}

static struct unbind_work unbind_work(const struct transaction *r)
{
	const struct apply *a = r->a;
	return (struct unbind_work){ .host = a->host,
				     .kern = a->kern,
				     .sys = a->sys,
				     .release = a->facts->host.release,
				     .timeout_ms = a->unload_timeout_ms,
				     .progress = a->progress };
}

// A GPU that cannot be rebound is no reason to leave the node without its old NVIDIA driver, too.
static void restore_old_drivers(struct transaction *r)
{
	struct unbind_work w = unbind_work(r);
	auto_str char *problem = NULL;
	unbind_restore(&w, &r->released, &problem);
	if (problem)
		progress_note(r->a->progress, "could not rebind every GPU to its previous driver: %s", problem);
	unbind_done(&r->released);
}

int step_unbind(struct transaction *r, const struct step *step, struct err *err)
{
	struct unbind_work w = unbind_work(r);
	if (unbind_release(&w, &r->a->facts->gpus, &r->released, err) < 0) {
		if (err->code == E_WEDGED) // then nothing else is undone, but the other GPUs can go back
			restore_old_drivers(r);
		return -1;
	}
	auto_str char *modules = strv_join(&r->released.modules, ", ");
	progress_end(r->a->progress, "unbind", "%s%s%s", step->subject, *modules ? "; unloaded " : "", modules);
	return 0;
}

// If the restored driver was not loaded before this run, it keeps the GPUs.
int step_undo_unbind(struct transaction *r, struct err *err)
{
	(void)err;
	if (!r->rollback.driver.version || r->a->facts->loaded.version)
		restore_old_drivers(r);
	return 0;
}

void step_commit_unbind_left(const struct transaction *r)
{
	struct unbind_work w = unbind_work(r);
	unbind_finish_interrupted(&w, &r->a->facts->gpus);
}

void step_commit_unbind(struct transaction *r)
{
	struct err err;
	struct unbind_work w = unbind_work(r);
	if (unbind_finish(&w, &r->released, &err) < 0)
		progress_note(r->a->progress, "could not reset driver_override: %s", err.text);
}
