// SPDX-License-Identifier: Apache-2.0
// The steps of a plan in the order of their run, and how each is undone.
#include "transaction/transaction_internal.h"

#include "daemons/daemon_rules.h"
#include "driver_root/modules_dir.h"
#include "driver_root/root_record.h"
#include "journal/state_dir.h"
#include "kmod/load/kernel_trust.h"
#include "kmod/load/load.h"
#include "kmod/load/provider.h"
#include "kmod/module/proof.h"
#include "plan/preflight.h"
#include "transaction/unload.h"

#include <errno.h>

static int step_adopt(struct transaction *t, const struct step *step, struct err *err)
{
	(void)err;
	progress_end(t->session->node.progress, "adopt", "%s is loaded already", step->subject);
	return 0;
}

static int find_firmware(struct session *s, const struct preflight_need *need, char **ret_text, struct err *err)
{
	auto_firmware_path struct firmware_path search = { 0 };
	auto_str char *where = NULL;
	if (firmware_path(s->node.host, s->node.kern, s->node.release, &search, err) < 0)
		return -1;
	if (need->names.count && s->driver_root.dir &&
	    driver_root_has_firmware(&s->driver_root, s->acquire.payload, &search, &need->names)) {
		*ret_text = str_dup("firmware comes with the user space");
		return 0;
	}
	int found = preflight_firmware(s->node.host, &search, need, &where, err);
	if (found >= 0)
		*ret_text = found ? str_fmt("firmware %s", where) : str_fmt("no firmware: %s", need->why);
	return found;
}

// The store makes room for what is fetched or compiled; a stored package only needs room to be unpacked, in memory if
// it must be. A fetch and a compile need the store itself.
static int check_room(const struct transaction *t, struct err *err)
{
	const struct acquire *o = &t->session->acquire;
	bool is_stored = plan_has(&t->session->plan, STEP_PACKAGE) && acquire_found(o) == &o->kept;
	uint64_t bytes = is_stored ? state_dir_package_bytes(&o->kept) : 0;
	if (state_dir_space(t->session->node.state, bytes, err) == 0)
		return 0;
	if (!o->memory.is_allowed || !is_stored || !state_dir_is_disk_error(err))
		return -1;
	const struct err why = *err;
	return state_dir_memory_room(&o->memory, bytes, err) < 0 ? err_wrap(err, "%s, and in memory", why.text) : 0;
}

// The rights that the steps of this plan need. In a container the host is found by the root of process 1; without the
// right to read it, the container looks like the host.
static unsigned plan_rights(const struct plan *plan, const struct root *kern)
{
	struct err why;
	auto_str char *outside = NULL;
	bool is_hidden = root_readlink(kern, "proc/1/root", &outside, &why) < 0 && why.code == EACCES;
	bool is_swap = plan_has(plan, STEP_UNLOAD) || plan_has(plan, STEP_UNBIND);
	bool is_root_compile = plan_has(plan, STEP_COMPILE) && geteuid() == 0;
	return CAPABILITY_DRIVER | (is_swap || is_hidden ? CAPABILITY_HOLDERS : 0) |
	       (is_root_compile ? CAPABILITY_COMPILE : 0) | (plan_has(plan, STEP_EXPORT) ? CAPABILITY_MOUNTS : 0);
}

static int check_plan_firmware(struct session *s, char **ret_text, struct err *err)
{
	auto_preflight_need struct preflight_need need = { 0 };
	preflight_need_make(&s->facts.gpus, s->plan.driver, s->plan.flavour, &s->params, &need);
	return find_firmware(s, &need, ret_text, err);
}

static struct unbind_work unbind_work(const struct transaction *t)
{
	return (struct unbind_work){ .node = &t->session->node, .timeout_ms = t->session->request->unload_timeout_ms };
}

static struct driver_root_request export_request_of(const struct transaction *t, const char *driver,
						    enum module_type flavour)
{
	return (struct driver_root_request){ .driver = driver,
					     .payload = t->session->acquire.payload,
					     .modules = *t->modules ? t->modules : NULL,
					     .release = t->session->node.release,
					     .flavour = flavour };
}

static struct driver_root_request export_of_plan(const struct transaction *t)
{
	return export_request_of(t, t->session->plan.driver, t->session->plan.flavour);
}

// Checks the attributes below sys that unbind and load will write. Later a refusal would leave the node without a
// driver.
static int check_attributes(const struct transaction *t, struct err *err)
{
	struct session *s = t->session;
	struct unbind_work w = unbind_work(t);
	struct driver_root_request request = export_of_plan(t);
	auto_served_gpus struct gpus served = { 0 };
	gpu_support_served(&s->facts.gpus, s->plan.driver, s->plan.flavour, &served);
	if (plan_has(&s->plan, STEP_UNBIND) && unbind_check(&w, &served, err) < 0)
		return -1;
	return plan_has(&s->plan, STEP_EXPORT) ? driver_root_check_firmware_path(&s->driver_root, &request, err) : 0;
}

static int step_preflight(struct transaction *t, const struct step *step, struct err *err)
{
	(void)step;
	struct session *s = t->session;
	auto_str char *firmware = NULL;
	if (preflight_rights(s->node.kern, plan_rights(&s->plan, s->node.kern), err) < 0 ||
	    (!s->request->is_payload_elsewhere && check_plan_firmware(s, &firmware, err) < 0) ||
	    check_attributes(t, err) < 0 || check_room(t, err) < 0)
		return -1;
	progress_end(s->node.progress, "preflight", "%s",
		     firmware ? firmware : "firmware comes with an image that is not here");
	return 0;
}

// Whether a payload is still to be unpacked: it may have the firmware.
static bool is_payload_due(struct session *s)
{
	auto_str char *path = str_fmt(DRIVER_ROOT_PAYLOADS "/%s", s->acquire.payload);
	return plan_has(&s->plan, STEP_PAYLOAD) && !root_exists(s->node.state, path);
}

int step_check_rollback(struct transaction *t, struct err *err)
{
	const struct driver_state *d = &t->rollback.driver;
	auto_preflight_need struct preflight_need need = { 0 };
	auto_str char *text = NULL;
	preflight_need_record(&t->session->facts.gpus, d, &need);
	return find_firmware(t->session, &need, &text, err) < 0 ? err_wrap(err, "driver %s", d->version) : 0;
}

// Without its fabric manager, a driver on a machine with NVSwitches cannot compute: better to change nothing.
static int check_daemons(struct session *s, struct err *err)
{
	static const struct daemon_request none;
	auto_root struct root payload = ROOT_NONE;
	auto_daemon_facts struct daemon_facts facts = { 0 };
	auto_daemons struct daemons daemons = { 0 };
	auto_str char *path = str_fmt(DRIVER_ROOT_PAYLOADS "/%s", s->acquire.payload);
	if (root_sub(s->node.state, path, &payload, err) < 0 ||
	    daemon_facts_read(s->node.kern, &payload, &none, &facts, err) < 0)
		return -1;
	facts.switches = gpus_count_ours(&s->facts.gpus, GPU_SWITCH); // none is counted before the driver is loaded
	daemons_rules(&facts, &daemons);
	const struct version_check belong = { .driver = s->plan.driver, .arch = s->facts.host.arch };
	return daemons_check(&daemons, &payload, &belong, err);
}

static int step_payload(struct transaction *t, const struct step *step, struct err *err)
{
	(void)step;
	struct session *s = t->session;
	const struct image_payload *c = &s->acquire.carry;
	int brought = acquire_payload(&s->acquire, s->plan.driver, err);
	if (brought < 0 || (s->request->has_daemons && check_daemons(s, err) < 0))
		return -1;
	bool is_copied = brought > 0 && str_eq(c->is.digest, s->acquire.payload);
	auto_str char *how = is_copied ?
				     str_fmt(", %llu MiB of the image copied", (unsigned long long)c->is.bytes >> 20) :
				     str_dup("");
	progress_end(s->node.progress, "payload", "user space %s, sha256 %.12s...%s", s->plan.driver,
		     s->acquire.payload, how);
	return 0;
}

static int step_package(struct transaction *t, const struct step *step, struct err *err)
{
	(void)step;
	struct session *s = t->session;
	if (acquire_take(&s->acquire, &t->package, err) < 0)
		return -1;
	auto_str char *tag = package_tag(&t->package.key);
	progress_end(s->node.progress, "package", "%s from %s", tag, t->package.place);
	return 0;
}

static int step_compile(struct transaction *t, const struct step *step, struct err *err)
{
	struct session *s = t->session;
	auto_compile_report struct compile_report report = { 0 };
	struct compile_request request = session_compile(s);
	request.offer = acquire_headers_offer(&s->acquire);
	request.cores = acquire_core_offer(&s->acquire);
	request.builder = acquire_builder;
	request.builder_ctx = &s->acquire;
	request.flavour = s->plan.flavour;
	request.output = acquire_output;
	request.output_ctx = &s->acquire;
	request.gate = t->gate;
	int made = compile_package(&request, s->node.progress, &t->package, &report, err);
	return made > 0 ? step_package(t, step, err) : made;
}

// Whether the plan does without this module (optional_modules.h), whose failure is then noted.
static bool skip_optional(struct transaction *t, const char *module, const struct err *why)
{
	if (why->code == E_WEDGED || !strv_has(&t->session->plan.optional, module)) // nothing more can be loaded
		return false;
	auto_str char *params = module_params_text(&t->session->params, module);
	const char *code = err_info(why->code)->name;
	optional_modules_add(&t->failed, module, params, code, why->text);
	progress_note(t->session->node.progress, "%s is not loaded, and the driver works without it: %s: %s", module,
		      code, why->text);
	return true;
}

// Whether the host has what one module of the set needs from the kernel's own tree.
static int check_module_needs(const struct transaction *t, const struct proof_module *m, struct err *err)
{
	for (size_t i = 0; i < m->needs.count; i++)
		if (provider_check(t->session->node.host, t->session->node.kern, t->session->node.release,
				   m->needs.items[i], err) < 0)
			return -1;
	return 0;
}

// Proves the modules that the step names, without those that did not fit.
static int prove_package_files(struct transaction *t, const struct step *step, struct proof *proof, struct err *err)
{
	struct session *s = t->session;
	const struct package *p = &t->package;
	auto_strv struct strv names = { 0 }, files = { 0 }, loaded_files = { 0 };
	auto_module_set struct module_set loaded = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_kernel_trust struct kernel_trust trust = { 0 };
	auto_symvers struct symvers *exports = symvers_new();
	strv_split(&names, step->subject, ", ");
	for (size_t i = 0; i < p->count; i++) {
		const char *module = p->files[i].module, *file = p->files[i].name;
		if (strv_has(&names, module) && !optional_modules_find(&t->failed, module))
			strv_add(&files, str_dup(file));
		if (modules_find(&s->facts.loaded, module))
			strv_add(&loaded_files, str_dup(file));
	}
	// Driver modules that stay loaded export what the package's own files do: their srcversions are equal.
	if (module_set_read(&p->dir, &files, &t->set, err) < 0 ||
	    module_set_read(&p->dir, &loaded_files, &loaded, err) < 0 ||
	    kernel_abi_read(&abi, s->node.host, s->node.kern, s->node.state, NULL, err) < 0)
		return -1;
	kernel_trust_read(&s->node, s->node.release, &trust);
	abi.answers = &trust.answers;
	for (size_t i = 0; i < loaded.count; i++)
		symvers_add_all(exports, loaded.items[i].exports);
	proof_make(t->set.pointers, t->set.count, &abi, exports, proof);
	if (proof_error(proof, err) < 0)
		return -1;
	for (size_t i = 0; i < proof->count; i++) {
		auto_str char *name = module_set_name(&t->set, i);
		if (check_module_needs(t, &proof->modules[i], err) < 0)
			return err_wrap(err, "%s", name);
	}
	return 0;
}

static bool is_unfit(const struct transaction *t, const struct proof_module *m, struct err *ret_why)
{
	if (m->code)
		return err_set(ret_why, m->code, "%s", m->text) < 0;
	return check_module_needs(t, m, ret_why) < 0;
}

// R-P3: misfits are left out, if the driver works without all of them; else err names one that it needs.
static bool skip_unfit_optional(struct transaction *t, const struct proof *proof, struct err *err)
{
	bool is_any = false;
	struct err why;
	for (size_t i = 0; i < proof->count; i++) {
		auto_str char *name = module_set_name(&t->set, i);
		if (!is_unfit(t, &proof->modules[i], &why) || strv_has(&t->session->plan.optional, name))
			continue;
		*err = why;
		err_wrap(err, "%s", t->set.pointers[i]->name);
		return false;
	}
	for (size_t i = 0; i < proof->count; i++) {
		auto_str char *name = module_set_name(&t->set, i);
		if (is_unfit(t, &proof->modules[i], &why))
			is_any |= skip_optional(t, name, &why);
	}
	return is_any;
}

// A package with false labels must not be found again; one of another kernel may well be correct. And a core module
// that failed its proof must not be restored as the last good driver either. A fault in the host's own files proves
// nothing about what worked on this kernel.
static void note_unfit(const struct transaction *t, const struct proof *proof, const struct err *why)
{
	struct err err;
	const struct package *p = &t->package;
	bool is_of_this_kernel = str_eq(p->key.release, t->session->node.release);
	bool is_bad = (why->code == E_ABI && is_of_this_kernel) || why->code == E_ELF || why->code == E_ARCH;
	if (is_bad && store_quarantine(&t->session->acquire.store, p->layer.digest, NULL, &err) < 0)
		progress_note(t->session->node.progress, "cannot quarantine the package: %s", err.text);
	for (size_t i = 0; i < proof->count; i++) {
		auto_str char *name = module_set_name(&t->set, i);
		if (proof->modules[i].code && !optional_modules_is(name))
			memcpy(t->session->acquire.unfit, p->manifest.digest, sizeof(t->session->acquire.unfit));
	}
}

// A working driver is not replaced by one of which nothing is known. Without a driver, or after an interrupted run,
// trying is the best option.
static int check_proof_basis(const struct transaction *t, struct proof *proof, struct err *err)
{
	struct session *s = t->session;
	const struct host *host = &s->facts.host;
	proof_add_build(proof, host->release, t->package.key.build_id, host->build_id);
	s->compared = proof->basis;
	if (proof->basis != PROOF_BY_NOTHING)
		return 0;
	if (plan_has(&s->plan, STEP_UNLOAD) && !t->was_open && !s->request->is_unproven_allowed)
		return err_set(err, E_UNPROVEN, "%s", proof->text);
	progress_note(s->node.progress, "nothing tells before the load whether the modules fit this kernel");
	return 0;
}

// Records that this package of another kernel serves this one, or that none does.
static int note_reuse(const struct transaction *t, const struct package *p, struct err *err)
{
	const struct host *host = &t->session->facts.host;
	bool is_other = p->count && !str_eq(p->key.release, host->release);
	if (!acquire_has_store(&t->session->acquire))
		return 0;
	return store_set_reuse(&t->session->acquire.store, host->release, host->build_id,
			       is_other ? p->manifest.digest : NULL, err);
}

static int prove_package(struct transaction *t, const struct step *step, struct proof *proof, struct err *err)
{
	while (prove_package_files(t, step, proof, err) < 0) {
		if (!skip_unfit_optional(t, proof, err))
			return -1;
		proof_done(proof); // another module may need one that was left out: the next proof finds out
		module_set_done(&t->set);
	}
	return 0;
}

// A kernel that takes only signed modules will refuse what nobody signed: that is seen in a package on this machine.
static int foresee_proof(struct transaction *t, const struct step *step, struct err *err)
{
	auto_proof struct proof proof = { 0 };
	if (!plan_has(&t->session->plan, STEP_PACKAGE) || !host_signing_reason(&t->session->facts.host))
		return 0;
	int here = acquire_peek(&t->session->acquire, &t->package, err);
	return here <= 0 ? here : prove_package(t, step, &proof, err);
}

int step_foresee(struct transaction *t, const struct step *step, struct err *err)
{
	struct session *s = t->session;
	auto_str char *firmware = NULL;
	if (step->kind == STEP_PROVE)
		return foresee_proof(t, step, err);
	if (step->kind != STEP_PREFLIGHT)
		return 0;
	if (preflight_rights(s->node.kern, plan_rights(&s->plan, s->node.kern), err) < 0)
		return -1;
	if (check_plan_firmware(s, &firmware, err) < 0 && (err->code != E_FIRMWARE || !is_payload_due(s)))
		return -1;
	return (!is_payload_due(s) && check_attributes(t, err) < 0) || check_room(t, err) < 0 ? -1 : 0;
}

static int step_prove(struct transaction *t, const struct step *step, struct err *err)
{
	struct session *s = t->session;
	auto_proof struct proof proof = { 0 };
	if (prove_package(t, step, &proof, err) < 0) {
		note_unfit(t, &proof, err);
		return -1;
	}
	if (check_proof_basis(t, &proof, err) < 0)
		return -1;
	t->needs = mem_alloc(proof.count * sizeof(*t->needs));
	for (size_t i = 0; i < proof.count; i++) {
		t->needs[i] = proof.modules[i].needs;
		proof.modules[i].needs = (struct strv){ 0 };
	}
	t->order = mem_alloc(t->set.count * sizeof(*t->order));
	if (load_order(t->set.pointers, t->set.count, t->order, err) < 0)
		return -1;
	if (note_reuse(t, &t->package, err) < 0 ||
	    store_set_target(&s->acquire.store, t->package.manifest.digest, err) < 0) {
		// On a node without a driver an unwritable disk is not a reason to stop.
		if (!s->acquire.memory.is_allowed || !state_dir_is_disk_error(err))
			return -1;
		progress_note(s->node.progress, "cannot record in the store what is loaded: %s", err->text);
	}
	progress_end(s->node.progress, "prove", "%s", proof.text);
	return 0;
}

static struct holders_wait holders_wait_of(struct session *s)
{
	return (struct holders_wait){ .node = &s->node,
				      .policy = s->request->holders,
				      .timeout_ms = s->request->holders_timeout_ms };
}

static int step_holders(struct transaction *t, const struct step *step, struct err *err)
{
	(void)step;
	struct holders_wait drain = holders_wait_of(t->session);
	auto_holders struct holders holders = { 0 };
	if (holders_wait(&drain, &holders, err) < 0) {
		holders_wait_note(t->session->node.progress, &holders);
		return -1;
	}
	progress_end(t->session->node.progress, "holders", "the driver is not in use");
	return 0;
}

static int step_unload(struct transaction *t, const struct step *step, struct err *err)
{
	(void)step; // the graph may be another one by now
	struct holders_wait drain = holders_wait_of(t->session);
	auto_holders struct holders holders = { 0 };
	auto_strv struct strv gone = { 0 };
	if (unload_driver(&drain, t->session->request->unload_timeout_ms, &holders, &gone, err) < 0) {
		holders_wait_note(t->session->node.progress, &holders);
		return -1;
	}
	auto_str char *names = gone.count ? strv_join(&gone, ", ") : str_dup("nothing was loaded");
	progress_end(t->session->node.progress, "unload", "%s", names);
	return 0;
}

// A GPU that cannot be rebound must not leave the node without its old NVIDIA driver, too.
static void restore_old_drivers(struct transaction *t)
{
	struct unbind_work w = unbind_work(t);
	auto_str char *problem = NULL;
	unbind_restore(&w, &t->released, &problem);
	if (problem)
		progress_note(t->session->node.progress, "could not rebind every GPU to its previous driver: %s",
			      problem);
	unbind_done(&t->released);
}

static int step_unbind(struct transaction *t, const struct step *step, struct err *err)
{
	struct unbind_work w = unbind_work(t);
	auto_served_gpus struct gpus served = { 0 };
	gpu_support_served(&t->session->facts.gpus, t->session->plan.driver, t->session->plan.flavour, &served);
	if (unbind_release(&w, &served, &t->released, err) < 0) {
		if (err->code == E_WEDGED) // then nothing else is undone, but the other GPUs can go back
			restore_old_drivers(t);
		return -1;
	}
	auto_str char *modules = strv_join(&t->released.modules, ", ");
	progress_end(t->session->node.progress, "unbind", "%s%s%s", step->subject, *modules ? "; unloaded " : "",
		     modules);
	return 0;
}

// If the restored driver was not loaded before this run, it keeps the GPUs.
static int step_undo_unbind(struct transaction *t, struct err *err)
{
	(void)err;
	if (!t->rollback.driver.version || t->session->facts.loaded.version)
		restore_old_drivers(t);
	return 0;
}

void step_commit_unbind_left(const struct transaction *t)
{
	struct unbind_work w = unbind_work(t);
	unbind_finish_interrupted(&w, &t->session->facts.gpus);
}

// A driver of ours has the GPUs now.
static void commit_unbind(struct transaction *t)
{
	struct err err;
	struct unbind_work w = unbind_work(t);
	if (unbind_finish(&w, &t->released, &err) < 0)
		progress_note(t->session->node.progress, "could not reset driver_override: %s", err.text);
}

// Without a package, keeps the modules that are exported now.
static int keep_exported_modules(struct transaction *t, struct err *err)
{
	struct session *s = t->session;
	auto_root_record struct root_record now = { 0 };
	if (root_record_read(s->node.host, s->node.boot, &now, err) < 0)
		return -1;
	auto_str char *path = now.modules ? str_fmt(DRIVER_ROOT_MODULES "/%s", now.modules) : NULL;
	if (path && digest_is_hex(now.modules) && str_eq(now.driver, s->plan.driver) &&
	    root_exists(s->node.state, path))
		memcpy(t->modules, now.modules, sizeof(t->modules));
	return 0;
}

static int use_package_modules(struct transaction *t, struct package *p, struct err *err)
{
	struct session *s = t->session;
	const char *release = s->node.release;
	auto_root struct root store = ROOT_NONE;
	if (modules_dir_key(p, release, s->node.host, t->modules, err) < 0 ||
	    root_mkdirs(s->node.state, DRIVER_ROOT_MODULES, 0755, err) < 0 ||
	    root_sub(s->node.state, DRIVER_ROOT_MODULES, &store, err) < 0)
		return -1;
	if (root_exists(&store, t->modules))
		return 0;
	if (p->dir.fd < 0 &&
	    state_dir_stage(&s->acquire.memory, &s->acquire.store.layout, s->acquire.fetch.state, p, err) < 0)
		return -1;
	return modules_dir_make(p, release, s->node.host, &store, t->modules, err) < 0 ? -1 : 0;
}

int step_prepare_export(struct transaction *t, struct err *err)
{
	struct driver_root *e = &t->session->driver_root;
	struct acquire *o = &t->session->acquire;
	auto_package struct package taken = PACKAGE_NONE;
	if (!plan_has(&t->session->plan, STEP_EXPORT) || e->made)
		return 0;
	// The package of this run; if the kernel has its modules already, the one in the store or in a source.
	struct package *p = t->package.count ? &t->package :
			    o->kept.count    ? &o->kept :
			    acquire_found(o) ? &taken :
					       NULL;
	if (p == &taken && acquire_take(o, &taken, err) < 0)
		return -1;
	if ((p ? use_package_modules(t, p, err) : keep_exported_modules(t, err)) < 0)
		return -1;
	struct driver_root_request request = export_of_plan(t);
	return driver_root_prepare(e, &request, err);
}

// Records whose driver it is, even if the store is emptied later. A failed record must not fail a working node.
static void note_loaded(const struct transaction *t, const struct strv *modules, const struct package *p)
{
	struct err why;
	const struct host *host = &t->session->facts.host;
	bool is_other = p->count && !str_eq(p->key.release, host->release);
	if (existing_driver_note(t->session->node.host, t->session->node.kern, host->boot_id, modules,
				 is_other ? p->key.release : NULL, &why) < 0)
		progress_note(t->session->node.progress, "cannot record who loaded the driver: %s", why.text);
}

static int load_set_module(struct transaction *t, size_t index, struct err *err)
{
	struct session *s = t->session;
	const struct module *m = &t->set.items[index];
	const struct strv *needs = &t->needs[index];
	for (size_t i = 0; i < needs->count; i++)
		if (provider_load(s->node.host, s->node.kern, s->node.sys, s->node.release, needs->items[i],
				  s->request->load_timeout_ms, err) < 0)
			return -1;
	auto_str char *params = module_params_known(m, driver_state_params(&t->target, m->name));
	int done = load_module(s->node.sys, s->node.kern, m, params, s->request->load_timeout_ms, err);
	if (done > 0)
		strv_add(&t->loaded, str_dup(m->name));
	return done;
}

static int step_load(struct transaction *t, const struct step *step, struct err *err)
{
	struct session *s = t->session;
	struct driver_root_request request = export_of_plan(t);
	if (s->driver_root.dir && s->driver_root.made &&
	    driver_root_set_firmware_path(&s->driver_root, &request, err) < 0)
		return -1;
	for (size_t i = 0; i < t->set.count; i++) {
		auto_str char *name = module_set_name(&t->set, t->order[i]);
		if (load_set_module(t, t->order[i], err) < 0 && !skip_optional(t, name, err))
			return -1;
	}
	note_loaded(t, &t->loaded, &t->package);
	commit_unbind(t);
	auto_str char *names = t->loaded.count ? strv_join(&t->loaded, ", ") : str_dup("nothing new");
	progress_end(s->node.progress, "load", "%s", t->failed.count ? names : step->subject);
	return 0;
}

// Unloads what this or an interrupted run loaded; of the latter it is unknown which modules: all are unloaded.
static int step_undo_load(struct transaction *t, struct err *err)
{
	struct session *s = t->session;
	auto_modules struct modules now = { 0 };
	auto_strv struct strv order = { 0 }, gone = { 0 };
	if (t->was_open && (modules_read(s->node.host, s->node.kern, s->node.release, &now, err) < 0 ||
			    modules_unload_order(&now, &order, err) < 0))
		return -1;
	for (size_t i = t->was_open ? 0 : t->loaded.count; i-- > 0;)
		strv_add(&order, str_dup(t->loaded.items[i]));
	return unload_modules(&order, s->node.sys, s->node.kern, s->request->unload_timeout_ms, &gone, err);
}

static int step_nodes(struct transaction *t, const struct step *step, struct err *err)
{
	(void)step;
	struct session *s = t->session;
	auto_devices struct devices d = { 0 };
	if (devices_want(s->node.kern, s->request->imex_channels, &d, err) < 0 ||
	    devices_apply(s->node.dev_root, s->node.sys, false, &d, err) < 0)
		return -1;
	progress_end(s->node.progress, "nodes", "%zu node%s, %zu change%s", d.count, str_plural(d.count), d.changes,
		     str_plural(d.changes));
	return 0;
}

void transaction_remember(const struct transaction *t, const char *digest,
			  int (*set)(const struct store *s, const char *hex, struct err *err))
{
	struct err why;
	if (digest && acquire_has_store(&t->session->acquire) && set(&t->session->acquire.store, digest, &why) < 0)
		progress_note(t->session->node.progress, "cannot record package %.12s in the store: %s", digest,
			      why.text);
}

int step_undo_unload(struct transaction *t, struct err *err)
{
	static const struct step nodes = { .kind = STEP_NODES };
	const struct driver_state *d = &t->rollback.driver;
	struct err why;
	if (!d->version)
		return 0;
	int done = rollback_load(t->session, &t->rollback, err);
	if (done < 0)
		return -1;
	commit_unbind(t);
	if (done > 0) {
		const struct package *p = t->rollback.shared ? &t->package : &t->rollback.package;
		note_loaded(t, &d->modules, p);
		if (note_reuse(t, p, &why) < 0)
			progress_note(t->session->node.progress,
				      "cannot record in the store which package serves this kernel: %s", why.text);
		progress_end(t->session->node.progress, "back", "driver %s %s is loaded again", d->version, d->flavour);
	}
	transaction_remember(t, d->digest, store_set_target);
	return step_nodes(t, &nodes, err);
}

static int step_export(struct transaction *t, const struct step *step, struct err *err)
{
	(void)step;
	struct driver_root *e = &t->session->driver_root;
	if (step_prepare_export(t, err) < 0)
		return -1;
	struct driver_root_request request = export_of_plan(t);
	if (driver_root_switch(e, &request, err) < 0)
		return -1;
	progress_end(t->session->node.progress, "export", "/%s, generation %u", e->dir, e->number);
	return 0;
}

static struct driver_root_request export_of_rollback(const struct transaction *t)
{
	enum module_type flavour = MODULE_TYPE_AUTO;
	if (t->rollback.driver.flavour)
		module_type_parse(t->rollback.driver.flavour, &flavour);
	return export_request_of(t, t->rollback.driver.version, flavour);
}

int step_prepare_rollback_export(struct transaction *t, struct err *err)
{
	struct session *s = t->session;
	const char *version = t->rollback.driver.version;
	auto_str char *why = NULL;
	s->acquire.is_back = true;
	int found = acquire_find_payload(&s->acquire, version, true, &why, err);
	if (found > 0 && acquire_payload(&s->acquire, version, err) < 0)
		found = -1;
	s->acquire.is_back = false;
	if (found == 0)
		progress_note(s->node.progress, "no user space of driver %s is exported: %s", version, why);
	if (found <= 0)
		return found;
	if (t->rollback.package.count && use_package_modules(t, &t->rollback.package, err) < 0)
		return -1;
	struct driver_root_request request = export_of_rollback(t);
	return driver_root_prepare(&s->driver_root, &request, err) < 0 ||
			       driver_root_set_firmware_path(&s->driver_root, &request, err) < 0 ?
		       -1 :
		       0;
}

void step_export_rollback(struct transaction *t)
{
	struct err why;
	struct driver_root *e = &t->session->driver_root;
	struct driver_root_request request = export_of_rollback(t);
	if (!e->made)
		return;
	if (driver_root_switch(e, &request, &why) < 0)
		progress_note(t->session->node.progress, "the user space of driver %s is not exported: %s",
			      t->rollback.driver.version, why.text);
	else
		progress_end(t->session->node.progress, "export", "/%s, generation %u", e->dir, e->number);
}

void step_undo_export(struct transaction *t)
{
	struct err why;
	if (t->session->driver_root.dir && driver_root_rollback(&t->session->driver_root, &why) < 0)
		progress_note(t->session->node.progress, "could not restore the previous export: %s", why.text);
}

void step_export_collect(struct transaction *t)
{
	struct err why;
	int done = 1;
	if (t->session->driver_root.dir)
		done = driver_root_finish(&t->session->driver_root, &why) < 0 ?
			       -1 :
			       driver_root_gc(&t->session->driver_root, &why);
	if (done < 0)
		progress_note(t->session->node.progress, "could not remove earlier exports: %s", why.text);
	else if (!done)
		progress_note(t->session->node.progress, "an earlier export is still in use; a later start removes it");
}

static void record_optional_failures(struct transaction *t)
{
	struct err why;
	struct session *s = t->session;
	const char *boot = s->node.boot;
	auto_optional_modules struct optional_modules known = { 0 };
	if (!t->is_touched)
		return;
	// Failures that this run did not try again stay on record.
	if (optional_modules_read(s->node.host, boot, &known, &why) > 0 &&
	    str_eq(known.package, t->package.manifest.digest))
		for (size_t i = 0; i < known.count; i++) {
			const struct optional_failure *f = &known.items[i];
			auto_str char *name = module_canonical(f->module);
			if (!optional_modules_find(&t->failed, name) && !strv_has(&t->loaded, name))
				optional_modules_add(&t->failed, f->module, f->params, f->code, f->text);
		}
	t->failed.driver = str_dup(t->target.version);
	t->failed.package = str_dup(t->package.manifest.digest);
	if (optional_modules_write(s->node.host, boot, &t->failed, &why) < 0)
		progress_note(s->node.progress, "cannot record which optional modules are not loaded: %s", why.text);
}

static int read_status(struct transaction *t, const struct plan *plan, struct err *err)
{
	struct session *s = t->session;
	auto_strv struct strv modules = { 0 };
	status_done(t->status);
	if (status_read(&t->now, &s->node, t->status, err) < 0)
		return -1;
	if (!plan)
		return 0;
	for (size_t i = 0; i < plan->modules.count; i++) // the rest may fail, see optional_modules.h
		if (!strv_has(&plan->optional, plan->modules.items[i]))
			strv_add(&modules, str_dup(plan->modules.items[i]));
	status_check_request(t->status, &t->now.loaded, plan->driver, plan->flavour, &modules);
	return 0;
}

// A GPU is opened only where all else is right: without its firmware or its node it fails for that.
int transaction_verify(struct transaction *t, const struct plan *plan, struct err *err)
{
	record_optional_failures(t);
	if (facts_read(t->session->node.host, t->session->node.kern, &t->now, err) < 0 || read_status(t, plan, err) < 0)
		return -1;
	if (!status_holds_beside_gpus(t->status))
		return status_error(t->status, err);
	int measured = transaction_check_gpus(t, err);
	struct err why;
	if (measured != 0 && read_status(t, plan, &why) < 0)
		progress_note(t->session->node.progress, "cannot read the status of this node: %s", why.text);
	return measured < 0 ? -1 : status_error(t->status, err);
}

static int step_verify(struct transaction *t, const struct step *step, struct err *err)
{
	if (transaction_verify(t, &t->session->plan, err) < 0)
		return -1;
	progress_end(t->session->node.progress, "verify", "%s, every post-condition holds", step->subject);
	return 0;
}

const struct step_action step_actions[] = {
#define STEP(kind_, name_, undo_, flags_) { step_##name_, undo_ },
#include "plan/steps.def"
#undef STEP
};
