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

static int step_adopt(struct transaction *r, const struct step *step, struct err *err)
{
	(void)err;
	progress_end(r->session->node.progress, "adopt", "%s is loaded already", step->subject);
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
static int check_room(const struct transaction *r, struct err *err)
{
	const struct acquire *o = &r->session->acquire;
	bool is_stored = plan_has(&r->session->plan, STEP_PACKAGE) && acquire_found(o) == &o->kept;
	uint64_t bytes = is_stored ? state_dir_package_bytes(&o->kept) : 0;
	if (state_dir_space(r->session->node.state, bytes, err) == 0)
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

static struct unbind_work unbind_work(const struct transaction *r)
{
	return (struct unbind_work){ .node = &r->session->node, .timeout_ms = r->session->request->unload_timeout_ms };
}

static struct driver_root_request export_request_of(const struct transaction *r, const char *driver,
						    enum module_type flavour)
{
	return (struct driver_root_request){ .driver = driver,
					     .payload = r->session->acquire.payload,
					     .modules = *r->modules ? r->modules : NULL,
					     .release = r->session->node.release,
					     .flavour = flavour };
}

static struct driver_root_request export_of_plan(const struct transaction *r)
{
	return export_request_of(r, r->session->plan.driver, r->session->plan.flavour);
}

// What unbind and load will write to below sys. Later such a refusal would leave the node without a driver.
static int check_attributes(const struct transaction *r, struct err *err)
{
	struct session *s = r->session;
	struct unbind_work w = unbind_work(r);
	struct driver_root_request request = export_of_plan(r);
	auto_served_gpus struct gpus served = { 0 };
	gpu_support_served(&s->facts.gpus, s->plan.driver, s->plan.flavour, &served);
	if (plan_has(&s->plan, STEP_UNBIND) && unbind_check(&w, &served, err) < 0)
		return -1;
	return plan_has(&s->plan, STEP_EXPORT) ? driver_root_check_firmware_path(&s->driver_root, &request, err) : 0;
}

static int step_preflight(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	struct session *s = r->session;
	auto_str char *firmware = NULL;
	if (preflight_rights(s->node.kern, plan_rights(&s->plan, s->node.kern), err) < 0 ||
	    (!s->request->is_payload_elsewhere && check_plan_firmware(s, &firmware, err) < 0) ||
	    check_attributes(r, err) < 0 || check_room(r, err) < 0)
		return -1;
	progress_end(s->node.progress, "preflight", "%s",
		     firmware ? firmware : "firmware comes with an image that is not here");
	return 0;
}

// What is not unpacked yet may have the firmware.
static bool is_payload_due(struct session *s)
{
	auto_str char *path = str_fmt(DRIVER_ROOT_PAYLOADS "/%s", s->acquire.payload);
	return plan_has(&s->plan, STEP_PAYLOAD) && !root_exists(s->node.state, path);
}

int step_check_rollback(struct transaction *r, struct err *err)
{
	const struct driver_state *d = &r->rollback.driver;
	auto_preflight_need struct preflight_need need = { 0 };
	auto_str char *text = NULL;
	preflight_need_record(&r->session->facts.gpus, d, &need);
	return find_firmware(r->session, &need, &text, err) < 0 ? err_wrap(err, "driver %s", d->version) : 0;
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

static int step_payload(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	struct session *s = r->session;
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

static int step_package(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	struct session *s = r->session;
	if (acquire_take(&s->acquire, &r->package, err) < 0)
		return -1;
	auto_str char *tag = package_tag(&r->package.key);
	progress_end(s->node.progress, "package", "%s from %s", tag, r->package.place);
	return 0;
}

static int step_compile(struct transaction *r, const struct step *step, struct err *err)
{
	struct session *s = r->session;
	auto_compile_report struct compile_report report = { 0 };
	struct compile_request request = session_compile(s);
	request.offer = acquire_headers_offer(&s->acquire);
	request.cores = acquire_core_offer(&s->acquire);
	request.builder = acquire_builder;
	request.builder_ctx = &s->acquire;
	request.flavour = s->plan.flavour;
	request.output = acquire_output;
	request.output_ctx = &s->acquire;
	request.gate = r->gate;
	int made = compile_package(&request, s->node.progress, &r->package, &report, err);
	return made > 0 ? step_package(r, step, err) : made;
}

// Whether the plan does without this module (optional_modules.h), whose failure is then noted.
static bool skip_optional(struct transaction *r, const char *module, const struct err *why)
{
	if (why->code == E_WEDGED || !strv_has(&r->session->plan.optional, module)) // nothing more can be loaded
		return false;
	auto_str char *params = module_params_text(&r->session->params, module);
	const char *code = err_info(why->code)->name;
	optional_modules_add(&r->failed, module, params, code, why->text);
	progress_note(r->session->node.progress, "%s is not loaded, and the driver works without it: %s: %s", module,
		      code, why->text);
	return true;
}

// Whether the host has what one module of the set needs from the kernel's own tree.
static int check_module_needs(const struct transaction *r, const struct proof_module *m, struct err *err)
{
	for (size_t i = 0; i < m->needs.count; i++)
		if (provider_check(r->session->node.host, r->session->node.kern, r->session->node.release,
				   m->needs.items[i], err) < 0)
			return -1;
	return 0;
}

// Of the modules that the step names, without those that did not fit.
static int prove_package_files(struct transaction *r, const struct step *step, struct proof *proof, struct err *err)
{
	struct session *s = r->session;
	const struct package *p = &r->package;
	auto_strv struct strv names = { 0 }, files = { 0 }, loaded_files = { 0 };
	auto_module_set struct module_set loaded = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_kernel_trust struct kernel_trust trust = { 0 };
	auto_symvers struct symvers *exports = symvers_new();
	strv_split(&names, step->subject, ", ");
	for (size_t i = 0; i < p->count; i++) {
		const char *module = p->files[i].module, *file = p->files[i].name;
		if (strv_has(&names, module) && !optional_modules_find(&r->failed, module))
			strv_add(&files, str_dup(file));
		if (modules_find(&s->facts.loaded, module))
			strv_add(&loaded_files, str_dup(file));
	}
	// Driver modules that stay loaded export what the package's own files do: their srcversions are equal.
	if (module_set_read(&p->dir, &files, &r->set, err) < 0 ||
	    module_set_read(&p->dir, &loaded_files, &loaded, err) < 0 ||
	    kernel_abi_read(&abi, s->node.host, s->node.kern, s->node.state, NULL, err) < 0)
		return -1;
	kernel_trust_read(&s->node, s->node.release, &trust);
	abi.answers = &trust.answers;
	for (size_t i = 0; i < loaded.count; i++)
		symvers_add_all(exports, loaded.items[i].exports);
	proof_make(r->set.pointers, r->set.count, &abi, exports, proof);
	if (proof_error(proof, err) < 0)
		return -1;
	for (size_t i = 0; i < proof->count; i++) {
		auto_str char *name = module_set_name(&r->set, i);
		if (check_module_needs(r, &proof->modules[i], err) < 0)
			return err_wrap(err, "%s", name);
	}
	return 0;
}

static bool is_unfit(const struct transaction *r, const struct proof_module *m, struct err *ret_why)
{
	if (m->code)
		return err_set(ret_why, m->code, "%s", m->text) < 0;
	return check_module_needs(r, m, ret_why) < 0;
}

// R-P3: misfits are left out, if the driver works without all of them; else err names one that it needs.
static bool skip_unfit_optional(struct transaction *r, const struct proof *proof, struct err *err)
{
	bool is_any = false;
	struct err why;
	for (size_t i = 0; i < proof->count; i++) {
		auto_str char *name = module_set_name(&r->set, i);
		if (!is_unfit(r, &proof->modules[i], &why) || strv_has(&r->session->plan.optional, name))
			continue;
		*err = why;
		err_wrap(err, "%s", r->set.pointers[i]->name);
		return false;
	}
	for (size_t i = 0; i < proof->count; i++) {
		auto_str char *name = module_set_name(&r->set, i);
		if (is_unfit(r, &proof->modules[i], &why))
			is_any |= skip_optional(r, name, &why);
	}
	return is_any;
}

// A package with false labels must not be found again; one of another kernel may well be correct. And a core module
// that failed its proof must not be restored as the last good driver either. A fault in the host's own files proves
// nothing about what worked on this kernel.
static void note_unfit(const struct transaction *r, const struct proof *proof, const struct err *why)
{
	struct err err;
	const struct package *p = &r->package;
	bool is_of_this_kernel = str_eq(p->key.release, r->session->node.release);
	bool is_bad = (why->code == E_ABI && is_of_this_kernel) || why->code == E_ELF || why->code == E_ARCH;
	if (is_bad && store_quarantine(&r->session->acquire.store, p->layer.digest, NULL, &err) < 0)
		progress_note(r->session->node.progress, "cannot quarantine the package: %s", err.text);
	for (size_t i = 0; i < proof->count; i++) {
		auto_str char *name = module_set_name(&r->set, i);
		if (proof->modules[i].code && !optional_modules_is(name))
			memcpy(r->session->acquire.unfit, p->manifest.digest, sizeof(r->session->acquire.unfit));
	}
}

// A working driver is not replaced by one of which nothing is known. Without a driver, or after an interrupted run,
// trying is the best option.
static int check_proof_basis(const struct transaction *r, struct proof *proof, struct err *err)
{
	struct session *s = r->session;
	const struct host *host = &s->facts.host;
	proof_add_build(proof, host->release, r->package.key.build_id, host->build_id);
	s->compared = proof->basis;
	if (proof->basis != PROOF_BY_NOTHING)
		return 0;
	if (plan_has(&s->plan, STEP_UNLOAD) && !r->was_open && !s->request->is_unproven_allowed)
		return err_set(err, E_UNPROVEN, "%s", proof->text);
	progress_note(s->node.progress, "nothing tells before the load whether the modules fit this kernel");
	return 0;
}

// Records that this package of another kernel serves this one, or that none does.
static int note_reuse(const struct transaction *r, const struct package *p, struct err *err)
{
	const struct host *host = &r->session->facts.host;
	bool is_other = p->count && !str_eq(p->key.release, host->release);
	if (!acquire_has_store(&r->session->acquire))
		return 0;
	return store_set_reuse(&r->session->acquire.store, host->release, host->build_id,
			       is_other ? p->manifest.digest : NULL, err);
}

static int prove_package(struct transaction *r, const struct step *step, struct proof *proof, struct err *err)
{
	while (prove_package_files(r, step, proof, err) < 0) {
		if (!skip_unfit_optional(r, proof, err))
			return -1;
		proof_done(proof); // another module may need one that was left out: the next proof finds out
		module_set_done(&r->set);
	}
	return 0;
}

// A kernel that takes only signed modules will refuse what nobody signed: that is seen in a package on this machine.
static int foresee_proof(struct transaction *r, const struct step *step, struct err *err)
{
	auto_proof struct proof proof = { 0 };
	if (!plan_has(&r->session->plan, STEP_PACKAGE) || !host_signing_reason(&r->session->facts.host))
		return 0;
	int here = acquire_peek(&r->session->acquire, &r->package, err);
	return here <= 0 ? here : prove_package(r, step, &proof, err);
}

int step_foresee(struct transaction *r, const struct step *step, struct err *err)
{
	struct session *s = r->session;
	auto_str char *firmware = NULL;
	if (step->kind == STEP_PROVE)
		return foresee_proof(r, step, err);
	if (step->kind != STEP_PREFLIGHT)
		return 0;
	if (preflight_rights(s->node.kern, plan_rights(&s->plan, s->node.kern), err) < 0)
		return -1;
	if (check_plan_firmware(s, &firmware, err) < 0 && (err->code != E_FIRMWARE || !is_payload_due(s)))
		return -1;
	return (!is_payload_due(s) && check_attributes(r, err) < 0) || check_room(r, err) < 0 ? -1 : 0;
}

static int step_prove(struct transaction *r, const struct step *step, struct err *err)
{
	struct session *s = r->session;
	auto_proof struct proof proof = { 0 };
	if (prove_package(r, step, &proof, err) < 0) {
		note_unfit(r, &proof, err);
		return -1;
	}
	if (check_proof_basis(r, &proof, err) < 0)
		return -1;
	r->needs = mem_alloc(proof.count * sizeof(*r->needs));
	for (size_t i = 0; i < proof.count; i++) {
		r->needs[i] = proof.modules[i].needs;
		proof.modules[i].needs = (struct strv){ 0 };
	}
	r->order = mem_alloc(r->set.count * sizeof(*r->order));
	if (load_order(r->set.pointers, r->set.count, r->order, err) < 0)
		return -1;
	if (note_reuse(r, &r->package, err) < 0 ||
	    store_set_target(&s->acquire.store, r->package.manifest.digest, err) < 0) {
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

static int step_holders(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	struct holders_wait drain = holders_wait_of(r->session);
	auto_holders struct holders holders = { 0 };
	if (holders_wait(&drain, &holders, err) < 0) {
		holders_wait_note(r->session->node.progress, &holders);
		return -1;
	}
	progress_end(r->session->node.progress, "holders", "the driver is not in use");
	return 0;
}

static int step_unload(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step; // the graph may be another one by now
	struct holders_wait drain = holders_wait_of(r->session);
	auto_holders struct holders holders = { 0 };
	auto_strv struct strv gone = { 0 };
	if (unload_driver(&drain, r->session->request->unload_timeout_ms, &holders, &gone, err) < 0) {
		holders_wait_note(r->session->node.progress, &holders);
		return -1;
	}
	auto_str char *names = gone.count ? strv_join(&gone, ", ") : str_dup("nothing was loaded");
	progress_end(r->session->node.progress, "unload", "%s", names);
	return 0;
}

// A GPU that cannot be rebound must not leave the node without its old NVIDIA driver, too.
static void restore_old_drivers(struct transaction *r)
{
	struct unbind_work w = unbind_work(r);
	auto_str char *problem = NULL;
	unbind_restore(&w, &r->released, &problem);
	if (problem)
		progress_note(r->session->node.progress, "could not rebind every GPU to its previous driver: %s",
			      problem);
	unbind_done(&r->released);
}

static int step_unbind(struct transaction *r, const struct step *step, struct err *err)
{
	struct unbind_work w = unbind_work(r);
	auto_served_gpus struct gpus served = { 0 };
	gpu_support_served(&r->session->facts.gpus, r->session->plan.driver, r->session->plan.flavour, &served);
	if (unbind_release(&w, &served, &r->released, err) < 0) {
		if (err->code == E_WEDGED) // then nothing else is undone, but the other GPUs can go back
			restore_old_drivers(r);
		return -1;
	}
	auto_str char *modules = strv_join(&r->released.modules, ", ");
	progress_end(r->session->node.progress, "unbind", "%s%s%s", step->subject, *modules ? "; unloaded " : "",
		     modules);
	return 0;
}

// If the restored driver was not loaded before this run, it keeps the GPUs.
static int step_undo_unbind(struct transaction *r, struct err *err)
{
	(void)err;
	if (!r->rollback.driver.version || r->session->facts.loaded.version)
		restore_old_drivers(r);
	return 0;
}

void step_commit_unbind_left(const struct transaction *r)
{
	struct unbind_work w = unbind_work(r);
	unbind_finish_interrupted(&w, &r->session->facts.gpus);
}

// A driver of ours has the GPUs now.
static void commit_unbind(struct transaction *r)
{
	struct err err;
	struct unbind_work w = unbind_work(r);
	if (unbind_finish(&w, &r->released, &err) < 0)
		progress_note(r->session->node.progress, "could not reset driver_override: %s", err.text);
}

// Without a package, keeps the modules that are exported now.
static int keep_exported_modules(struct transaction *r, struct err *err)
{
	struct session *s = r->session;
	auto_root_record struct root_record now = { 0 };
	if (root_record_read(s->node.host, s->node.boot, &now, err) < 0)
		return -1;
	auto_str char *path = now.modules ? str_fmt(DRIVER_ROOT_MODULES "/%s", now.modules) : NULL;
	if (path && digest_is_hex(now.modules) && str_eq(now.driver, s->plan.driver) &&
	    root_exists(s->node.state, path))
		memcpy(r->modules, now.modules, sizeof(r->modules));
	return 0;
}

static int use_package_modules(struct transaction *r, struct package *p, struct err *err)
{
	struct session *s = r->session;
	const char *release = s->node.release;
	auto_root struct root store = ROOT_NONE;
	if (modules_dir_key(p, release, s->node.host, r->modules, err) < 0 ||
	    root_mkdirs(s->node.state, DRIVER_ROOT_MODULES, 0755, err) < 0 ||
	    root_sub(s->node.state, DRIVER_ROOT_MODULES, &store, err) < 0)
		return -1;
	if (root_exists(&store, r->modules))
		return 0;
	if (p->dir.fd < 0 &&
	    state_dir_stage(&s->acquire.memory, &s->acquire.store.layout, s->acquire.fetch.state, p, err) < 0)
		return -1;
	return modules_dir_make(p, release, s->node.host, &store, r->modules, err) < 0 ? -1 : 0;
}

int step_prepare_export(struct transaction *r, struct err *err)
{
	struct driver_root *e = &r->session->driver_root;
	struct acquire *o = &r->session->acquire;
	auto_package struct package taken = PACKAGE_NONE;
	if (!plan_has(&r->session->plan, STEP_EXPORT) || e->made)
		return 0;
	// The package of this run; if the kernel has its modules already, the one in the store or in a source.
	struct package *p = r->package.count ? &r->package :
			    o->kept.count    ? &o->kept :
			    acquire_found(o) ? &taken :
					       NULL;
	if (p == &taken && acquire_take(o, &taken, err) < 0)
		return -1;
	if ((p ? use_package_modules(r, p, err) : keep_exported_modules(r, err)) < 0)
		return -1;
	struct driver_root_request request = export_of_plan(r);
	return driver_root_prepare(e, &request, err);
}

// Records whose driver it is, even if the store is emptied later. A failed record must not fail a working node.
static void note_loaded(const struct transaction *r, const struct strv *modules, const struct package *p)
{
	struct err why;
	const struct host *host = &r->session->facts.host;
	bool is_other = p->count && !str_eq(p->key.release, host->release);
	if (existing_driver_note(r->session->node.host, r->session->node.kern, host->boot_id, modules,
				 is_other ? p->key.release : NULL, &why) < 0)
		progress_note(r->session->node.progress, "cannot record who loaded the driver: %s", why.text);
}

static int load_set_module(struct transaction *r, size_t index, struct err *err)
{
	struct session *s = r->session;
	const struct module *m = &r->set.items[index];
	const struct strv *needs = &r->needs[index];
	for (size_t i = 0; i < needs->count; i++)
		if (provider_load(s->node.host, s->node.kern, s->node.sys, s->node.release, needs->items[i],
				  s->request->load_timeout_ms, err) < 0)
			return -1;
	auto_str char *params = module_params_known(m, driver_state_params(&r->target, m->name));
	int done = load_module(s->node.sys, s->node.kern, m, params, s->request->load_timeout_ms, err);
	if (done > 0)
		strv_add(&r->loaded, str_dup(m->name));
	return done;
}

static int step_load(struct transaction *r, const struct step *step, struct err *err)
{
	struct session *s = r->session;
	struct driver_root_request request = export_of_plan(r);
	if (s->driver_root.dir && s->driver_root.made &&
	    driver_root_set_firmware_path(&s->driver_root, &request, err) < 0)
		return -1;
	for (size_t i = 0; i < r->set.count; i++) {
		auto_str char *name = module_set_name(&r->set, r->order[i]);
		if (load_set_module(r, r->order[i], err) < 0 && !skip_optional(r, name, err))
			return -1;
	}
	note_loaded(r, &r->loaded, &r->package);
	commit_unbind(r);
	auto_str char *names = r->loaded.count ? strv_join(&r->loaded, ", ") : str_dup("nothing new");
	progress_end(s->node.progress, "load", "%s", r->failed.count ? names : step->subject);
	return 0;
}

// Unloads what this or an interrupted run loaded; of the latter it is unknown which modules: all are unloaded.
static int step_undo_load(struct transaction *r, struct err *err)
{
	struct session *s = r->session;
	auto_modules struct modules now = { 0 };
	auto_strv struct strv order = { 0 }, gone = { 0 };
	if (r->was_open && (modules_read(s->node.host, s->node.kern, s->node.release, &now, err) < 0 ||
			    modules_unload_order(&now, &order, err) < 0))
		return -1;
	for (size_t i = r->was_open ? 0 : r->loaded.count; i-- > 0;)
		strv_add(&order, str_dup(r->loaded.items[i]));
	return unload_modules(&order, s->node.sys, s->node.kern, s->request->unload_timeout_ms, &gone, err);
}

static int step_nodes(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	struct session *s = r->session;
	auto_devices struct devices d = { 0 };
	if (devices_want(s->node.kern, s->request->imex_channels, &d, err) < 0 ||
	    devices_apply(s->node.dev_root, s->node.sys, false, &d, err) < 0)
		return -1;
	progress_end(s->node.progress, "nodes", "%zu node%s, %zu change%s", d.count, str_plural(d.count), d.changes,
		     str_plural(d.changes));
	return 0;
}

void transaction_remember(const struct transaction *r, const char *digest,
			  int (*set)(const struct store *s, const char *hex, struct err *err))
{
	struct err why;
	if (digest && acquire_has_store(&r->session->acquire) && set(&r->session->acquire.store, digest, &why) < 0)
		progress_note(r->session->node.progress, "cannot record package %.12s in the store: %s", digest,
			      why.text);
}

int step_undo_unload(struct transaction *r, struct err *err)
{
	static const struct step nodes = { .kind = STEP_NODES };
	const struct driver_state *d = &r->rollback.driver;
	struct err why;
	if (!d->version)
		return 0;
	int done = rollback_load(r->session, &r->rollback, err);
	if (done < 0)
		return -1;
	commit_unbind(r);
	if (done > 0) {
		const struct package *p = r->rollback.shared ? &r->package : &r->rollback.package;
		note_loaded(r, &d->modules, p);
		if (note_reuse(r, p, &why) < 0)
			progress_note(r->session->node.progress,
				      "cannot record in the store which package serves this kernel: %s", why.text);
		progress_end(r->session->node.progress, "back", "driver %s %s is loaded again", d->version, d->flavour);
	}
	transaction_remember(r, d->digest, store_set_target);
	return step_nodes(r, &nodes, err);
}

static int step_export(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	struct driver_root *e = &r->session->driver_root;
	if (step_prepare_export(r, err) < 0)
		return -1;
	struct driver_root_request request = export_of_plan(r);
	if (driver_root_switch(e, &request, err) < 0)
		return -1;
	progress_end(r->session->node.progress, "export", "/%s, generation %u", e->dir, e->number);
	return 0;
}

static struct driver_root_request export_of_rollback(const struct transaction *r)
{
	enum module_type flavour = MODULE_TYPE_AUTO;
	if (r->rollback.driver.flavour)
		module_type_parse(r->rollback.driver.flavour, &flavour);
	return export_request_of(r, r->rollback.driver.version, flavour);
}

int step_prepare_rollback_export(struct transaction *r, struct err *err)
{
	struct session *s = r->session;
	const char *version = r->rollback.driver.version;
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
	if (r->rollback.package.count && use_package_modules(r, &r->rollback.package, err) < 0)
		return -1;
	struct driver_root_request request = export_of_rollback(r);
	return driver_root_prepare(&s->driver_root, &request, err) < 0 ||
			       driver_root_set_firmware_path(&s->driver_root, &request, err) < 0 ?
		       -1 :
		       0;
}

void step_export_rollback(struct transaction *r)
{
	struct err why;
	struct driver_root *e = &r->session->driver_root;
	struct driver_root_request request = export_of_rollback(r);
	if (!e->made)
		return;
	if (driver_root_switch(e, &request, &why) < 0)
		progress_note(r->session->node.progress, "the user space of driver %s is not exported: %s",
			      r->rollback.driver.version, why.text);
	else
		progress_end(r->session->node.progress, "export", "/%s, generation %u", e->dir, e->number);
}

void step_undo_export(struct transaction *r)
{
	struct err why;
	if (r->session->driver_root.dir && driver_root_rollback(&r->session->driver_root, &why) < 0)
		progress_note(r->session->node.progress, "could not restore the previous export: %s", why.text);
}

void step_export_collect(struct transaction *r)
{
	struct err why;
	int done = 1;
	if (r->session->driver_root.dir)
		done = driver_root_finish(&r->session->driver_root, &why) < 0 ?
			       -1 :
			       driver_root_gc(&r->session->driver_root, &why);
	if (done < 0)
		progress_note(r->session->node.progress, "could not remove earlier exports: %s", why.text);
	else if (!done)
		progress_note(r->session->node.progress, "an earlier export is still in use; a later start removes it");
}

static void record_optional_failures(struct transaction *r)
{
	struct err why;
	struct session *s = r->session;
	const char *boot = s->node.boot;
	auto_optional_modules struct optional_modules known = { 0 };
	if (!r->is_touched)
		return;
	// Failures that this run did not try again stay on record.
	if (optional_modules_read(s->node.host, boot, &known, &why) > 0 &&
	    str_eq(known.package, r->package.manifest.digest))
		for (size_t i = 0; i < known.count; i++) {
			const struct optional_failure *f = &known.items[i];
			auto_str char *name = module_canonical(f->module);
			if (!optional_modules_find(&r->failed, name) && !strv_has(&r->loaded, name))
				optional_modules_add(&r->failed, f->module, f->params, f->code, f->text);
		}
	r->failed.driver = str_dup(r->target.version);
	r->failed.package = str_dup(r->package.manifest.digest);
	if (optional_modules_write(s->node.host, boot, &r->failed, &why) < 0)
		progress_note(s->node.progress, "cannot record which optional modules are not loaded: %s", why.text);
}

static int read_status(struct transaction *r, const struct plan *plan, struct err *err)
{
	struct session *s = r->session;
	auto_strv struct strv modules = { 0 };
	status_done(r->status);
	if (status_read(&r->now, &s->node, r->status, err) < 0)
		return -1;
	if (!plan)
		return 0;
	for (size_t i = 0; i < plan->modules.count; i++) // the rest may fail, see optional_modules.h
		if (!strv_has(&plan->optional, plan->modules.items[i]))
			strv_add(&modules, str_dup(plan->modules.items[i]));
	status_check_request(r->status, &r->now.loaded, plan->driver, plan->flavour, &modules);
	return 0;
}

// A GPU is opened only where all else is right: without its firmware or its node it fails for that.
int transaction_verify(struct transaction *r, const struct plan *plan, struct err *err)
{
	record_optional_failures(r);
	if (facts_read(r->session->node.host, r->session->node.kern, &r->now, err) < 0 || read_status(r, plan, err) < 0)
		return -1;
	if (!status_holds_beside_gpus(r->status))
		return status_error(r->status, err);
	int measured = transaction_check_gpus(r, err);
	struct err why;
	if (measured != 0 && read_status(r, plan, &why) < 0)
		progress_note(r->session->node.progress, "cannot read the status of this node: %s", why.text);
	return measured < 0 ? -1 : status_error(r->status, err);
}

static int step_verify(struct transaction *r, const struct step *step, struct err *err)
{
	if (transaction_verify(r, &r->session->plan, err) < 0)
		return -1;
	progress_end(r->session->node.progress, "verify", "%s, every post-condition holds", step->subject);
	return 0;
}

const struct step_action step_actions[] = {
	[STEP_PAYLOAD] = { step_payload, NULL, false, true },
	[STEP_ADOPT] = { step_adopt, NULL, false, false },
	[STEP_PREFLIGHT] = { step_preflight, NULL, false, false },
	[STEP_PACKAGE] = { step_package, NULL, false, true },
	[STEP_COMPILE] = { step_compile, NULL, false, true },
	[STEP_PROVE] = { step_prove, NULL, false, false },
	[STEP_HOLDERS] = { step_holders, NULL, false, true },
	[STEP_UNLOAD] = { step_unload, NULL, true, true },
	[STEP_UNBIND] = { step_unbind, step_undo_unbind, true, true },
	[STEP_LOAD] = { step_load, step_undo_load, true, true },
	[STEP_NODES] = { step_nodes, NULL, false, false },
	[STEP_EXPORT] = { step_export, NULL, false, false },
	[STEP_VERIFY] = { step_verify, NULL, false, false },
};
