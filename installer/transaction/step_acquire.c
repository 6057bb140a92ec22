// SPDX-License-Identifier: Apache-2.0
// Before anything is touched: the modules are fetched or compiled, and proven to fit.
#include "transaction/transaction_internal.h"

#include "kmod/load/load.h"
#include "kmod/load/provider.h"
#include "kmod/module/proof.h"

int step_adopt(struct transaction *r, const struct step *step, struct err *err)
{
	(void)err;
	progress_end(r->a->progress, "adopt", "%s is loaded already", step->subject);
	return 0;
}

int step_package(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	if (acquire_take(a->acquire, &r->package, err) < 0)
		return -1;
	auto_str char *tag = package_tag(&r->package.key);
	progress_end(a->progress, "package", "%s from %s", tag, r->package.place);
	return 0;
}

static int compile(struct transaction *r, struct err *err)
{
	const struct apply *a = r->a;
	auto_compile_report struct compile_report report = { 0 };
	struct compile_request request = *a->compile;
	struct headers_offer offer = { .bring = acquire_headers, .ctx = a->acquire };
	request.offer = &offer;
	request.builder = acquire_builder;
	request.builder_ctx = a->acquire;
	request.flavour = a->plan->flavour;
	request.output = acquire_output;
	request.output_ctx = a->acquire;
	request.gate = a->gate;
	return compile_package(&request, a->progress, &r->package, &report, err);
}

int step_compile(struct transaction *r, const struct step *step, struct err *err)
{
	int made = compile(r, err);
	return made > 0 ? step_package(r, step, err) : made;
}

// Files of the package for the modules that a step names, in the package's order, without those that did not fit.
static void package_files_of(const struct transaction *r, const char *subject, struct strv *ret)
{
	const struct package *p = &r->package;
	auto_strv struct strv names = { 0 };
	strv_split(&names, subject, ", ");
	for (size_t i = 0; i < p->count; i++)
		if (strv_has(&names, p->files[i].module) && !optional_modules_find(&r->failed, p->files[i].module))
			strv_add(ret, str_dup(p->files[i].name));
}

// Driver modules that stay loaded export what the package's own files do: their srcversions are equal.
static int exports_of_loaded(const struct transaction *r, struct symvers *ret, struct err *err)
{
	auto_strv struct strv files = { 0 };
	auto_module_set struct module_set set = { 0 };
	for (size_t i = 0; i < r->package.count; i++)
		if (modules_find(&r->a->facts->loaded, r->package.files[i].module))
			strv_add(&files, str_dup(r->package.files[i].name));
	if (module_set_read(&r->package.dir, &files, &set, err) < 0)
		return -1;
	for (size_t i = 0; i < set.count; i++)
		symvers_add_all(ret, set.items[i].exports);
	return 0;
}

static bool is_of_this_kernel(const struct transaction *r)
{
	return str_eq(r->package.key.release, r->a->facts->host.release);
}

// A package with false labels must not be found again. One of another kernel may well be correct.
static void quarantine_unfit(const struct transaction *r, const struct err *why)
{
	struct err err;
	bool is_bad = (why->code == E_ABI && is_of_this_kernel(r)) || why->code == E_ELF || why->code == E_ARCH;
	if (is_bad && store_quarantine(&r->a->acquire->store, r->package.layer.digest, NULL, &err) < 0)
		progress_note(r->a->progress, "cannot quarantine the package: %s", err.text);
}

// Whether the host has what one module of the set needs from the kernel's own tree.
static int check_module_needs(const struct transaction *r, const struct proof_module *m, struct err *err)
{
	for (size_t i = 0; i < m->needs.count; i++)
		if (provider_check(r->a->host, r->a->kern, r->a->facts->host.release, m->needs.items[i], err) < 0)
			return -1;
	return 0;
}

static int check_needs(const struct transaction *r, const struct proof *proof, struct err *err)
{
	for (size_t i = 0; i < proof->count; i++) {
		auto_str char *name = module_set_name(&r->set, i);
		if (check_module_needs(r, &proof->modules[i], err) < 0)
			return err_wrap(err, "%s", name);
	}
	return 0;
}

// A core module that failed its proof must not be restored as the last good driver either. A fault in the machine's own
// files is no proof, and says nothing about what worked on this kernel.
static void mark_unfit(const struct transaction *r, const struct proof *proof)
{
	struct acquire *o = r->a->acquire;
	for (size_t i = 0; i < proof->count; i++) {
		auto_str char *name = module_set_name(&r->set, i);
		if (proof->modules[i].code && !optional_modules_is(name))
			memcpy(o->unfit, r->package.manifest.digest, sizeof(o->unfit));
	}
}

static int prove_package_files(struct transaction *r, const struct step *step, struct proof *proof, struct err *err)
{
	const struct apply *a = r->a;
	auto_strv struct strv files = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_symvers struct symvers *loaded = symvers_new();
	package_files_of(r, step->subject, &files);
	if (module_set_read(&r->package.dir, &files, &r->set, err) < 0 || exports_of_loaded(r, loaded, err) < 0 ||
	    kernel_abi_read(&abi, a->host, a->kern, NULL, err) < 0)
		return -1;
	proof_make(r->set.pointers, r->set.count, &abi, loaded, proof);
	return proof_error(proof, err) < 0 ? -1 : check_needs(r, proof, err);
}

// R-P3: misfits are left out, if the driver works without all of them.
static bool skip_unfit_optional(struct transaction *r, const struct proof *proof)
{
	bool is_any = false;
	for (size_t i = 0; i < proof->count; i++) {
		const struct proof_module *m = &proof->modules[i];
		auto_str char *name = module_set_name(&r->set, i);
		struct err why;
		if (m->code)
			err_set(&why, m->code, "%s", m->text);
		else if (check_module_needs(r, m, &why) == 0)
			continue;
		if (!transaction_skip_optional(r, name, &why))
			return false;
		is_any = true;
	}
	return is_any;
}

// Another module may need one that was left out; the next proof finds out.
static int prove_fitting_files(struct transaction *r, const struct step *step, struct proof *proof, struct err *err)
{
	while (prove_package_files(r, step, proof, err) < 0) {
		if (!skip_unfit_optional(r, proof))
			return -1;
		proof_done(proof);
		module_set_done(&r->set);
	}
	return 0;
}

// A working driver is not replaced by one of which nothing is known. Without a driver, or after an interrupted run,
// trying is the best option.
static int check_proof_basis(const struct transaction *r, struct proof *proof, struct err *err)
{
	const struct apply *a = r->a;
	const struct host *host = &a->facts->host;
	proof_add_build(proof, host->release, r->package.key.build_id, host->build_id);
	if (a->compared)
		*a->compared = proof->basis;
	if (proof->basis != PROOF_BY_NOTHING)
		return 0;
	if (plan_has(a->plan, STEP_UNLOAD) && !r->was_open && !a->is_unproven_allowed)
		return err_set(err, E_UNPROVEN, "%s", proof->text);
	progress_note(a->progress, "nothing tells before the load whether the modules fit this kernel");
	return 0;
}

int step_prove(struct transaction *r, const struct step *step, struct err *err)
{
	const struct apply *a = r->a;
	auto_proof struct proof proof = { 0 };
	if (prove_fitting_files(r, step, &proof, err) < 0) {
		quarantine_unfit(r, err);
		mark_unfit(r, &proof);
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
	if ((transaction_note_reuse(r, &r->package, err) < 0 ||
	     store_set_target(&a->acquire->store, r->package.manifest.digest, err) < 0) &&
	    transaction_may_go_unwritten(r, err) < 0)
		return -1;
	progress_end(a->progress, "prove", "%s", proof.text);
	return 0;
}
