// SPDX-License-Identifier: Apache-2.0
#include "acquire/check.h"

#include "acquire/acquire.h"
#include "acquire/compile.h"
#include "host/kernel.h"
#include "host/module_set.h"
#include "kmod/build/core.h"
#include "kmod/kernel_tree/distro.h"
#include "kmod/kernel_tree/toolchain.h"
#include "kmod/load/kernel_trust.h"
#include "kmod/module/proof.h"
#include "kmod/source/patch.h"
#include "kmod/source/recipe.h"

void check_result_done(struct check_result *r)
{
	free(r->reason);
	free(r->evidence);
	*r = (struct check_result){ 0 };
}

static void set_check_verdict(struct check_result *r, enum verdict verdict, int code, const char *reason)
{
	free(r->reason);
	r->verdict = verdict;
	r->code = code;
	r->reason = str_dup(reason);
}

// Asks the running kernel what headers cannot know: what it enforces, and whom it trusts.
static void ask_kernel(const struct check_request *w, struct kernel_abi *abi, struct kernel_trust *ret)
{
	struct err unknown;
	auto_str char *running = NULL;
	if (!w->node->sys || host_read_release(w->node->kern, &running, &unknown) < 0 || !str_eq(running, w->release))
		return;
	kernel_abi_add_running(abi, w->node->kern);
	kernel_trust_read(w->node, running, ret);
	abi->answers = &ret->answers;
}

static int prove_package(const struct check_request *w, struct kernel_abi *abi, struct check_result *ret,
			 struct err *err)
{
	const struct package *p = w->package;
	auto_kernel_trust struct kernel_trust trust = { 0 };
	auto_strv struct strv files = { 0 };
	auto_module_set struct module_set set = { 0 };
	auto_proof struct proof proof = { 0 };
	for (size_t i = 0; i < p->count; i++)
		strv_add(&files, str_dup(p->files[i].name));
	if (module_set_read(&p->dir, &files, &set, err) < 0)
		return -1;
	ask_kernel(w, abi, &trust);
	proof_make(set.pointers, set.count, abi, NULL, &proof);
	abi->answers = NULL;
	proof_add_build(&proof, w->release, p->key.build_id, abi->build_id);
	ret->compared = proof_basis_name(proof.basis);
	static const enum verdict verdicts[] = {
		[PROOF_EXACT] = VERDICT_OK,
		[PROOF_COMPATIBLE] = VERDICT_COMPATIBLE,
		[PROOF_REBUILD] = VERDICT_NEEDS_BUILD,
		[PROOF_REFUSED] = VERDICT_IMPOSSIBLE,
	};
	set_check_verdict(ret, verdicts[proof.verdict], proof.code, proof.text);
	if (proof.verdict != PROOF_COMPATIBLE)
		return 0;
	// A proof does not see the policy, nor whether the labels of another kernel's package are true.
	auto_str char *distro = distro_of(w->release, abi->banner);
	const struct reuse_kernel kernel = { .release = w->release, .distro = distro, .compiler = abi->compiler };
	auto_str char *why = reuse_why_not(w->asked->reuse, &p->key, &kernel, &set);
	if (why)
		set_check_verdict(ret, VERDICT_NEEDS_BUILD, E_ABI, why);
	return 0;
}

// Whether a build would succeed, as far as that is known without compiling. Negative: no, see err.
static int judge_build(const struct check_request *w, const struct tree *tree, struct err *err)
{
	auto_toolchain struct toolchain tools = { 0 };
	auto_patches struct patches patches = { 0 };
	enum module_type flavour;
	const struct source *source = w->source;
	if (source && (gpu_support_choose(w->gpus, source->version, w->asked->flavour, source->flavours, &flavour, NULL,
					  err) < 0 ||
		       recipe_check(source, flavour, &w->asked->modules, tree, err) < 0))
		return -1;
	if (build_options_check(&w->asked->options, tree, err) < 0)
		return -1;
	if (source && (patches_check_removed(w->asked->options.patches, source, flavour, tree, err) < 0 ||
		       patches_choose(w->asked->options.patches, source, flavour, tree, &patches, err) < 0))
		return -1;
	if (toolchain_find(tree, NULL, NULL, &tools, err) < 0) {
		struct err own = *err;
		int r = acquire_judge_builder(w->node->state, tree, err);
		if (r <= 0)
			return r < 0 ? err_wrap(err, "%s", own.text) : -1;
	}
	if (!tools.cc || !source || !core_is_needed(source, flavour))
		return 0;
	auto_root struct root dir = ROOT_NONE;
	auto_strv struct strv modules = { 0 };
	return root_sub(&source->root, source->dirs[flavour], &dir, err) < 0 ||
			       recipe_modules(&dir, &w->asked->modules, &modules, err) < 0 ?
		       -1 :
		       core_check(source, flavour, &modules, &tools, err);
}

static int read_target_abi(const struct check_request *w, struct tree *tree, struct kernel_abi *abi,
			   char **ret_evidence, struct err *headers_err, struct err *err)
{
	if (compile_target_headers(w->node->host, w->node->state, &w->asked->headers, w->offer, w->release, w->banner,
				   tree, ret_evidence, headers_err) == 0)
		return compile_target_abi(tree, abi, err) < 0 ? -1 : 1;
	if (w->asked->headers.count) { // files that were named must be right
		*err = *headers_err;
		return -1;
	}
	if (kernel_abi_read(abi, w->node->host, w->node->kern, w->node->state, w->release, err) < 0)
		return -1;
	*ret_evidence = str_fmt("no headers; %s", abi->symvers_from ? abi->symvers_from :
						  abi->vermagic     ? "the kernel's configuration, no symbols" :
								      "only the release");
	return 0;
}

// Why the package does not serve stays the reason.
static void add_compile(const struct check_request *w, struct check_result *ret)
{
	auto_str char *newer = recipe_newer_kernel(w->source ? w->source->version : NULL, w->release);
	auto_str char *text =
		str_fmt("headers and compiler are available, no known obstacle%s%s%s", newer ? "; the kernel is " : "",
			newer ? newer : "", newer ? "; it may fail" : "");
	ret->is_untried = newer;
	if (!ret->reason)
		set_check_verdict(ret, VERDICT_NEEDS_BUILD, 0, text);
}

int check_kernel(const struct check_request *w, struct check_result *ret, struct err *err)
{
	auto_tree struct tree tree = { .root = ROOT_NONE };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_check_result struct check_result result = { .verdict = VERDICT_NEEDS_BUILD };
	struct err why = { 0 };
	int has_tree = read_target_abi(w, &tree, &abi, &result.evidence, &why, err);
	if (has_tree < 0 || (has_tree && compile_check_arch(&tree, w->arch, err) < 0))
		return -1;
	if (tree.banner)
		kernel_abi_add_banner(&abi, tree.banner);
	if (w->package && prove_package(w, &abi, &result, err) < 0)
		return -1;
	bool is_served = w->package && result.verdict != VERDICT_NEEDS_BUILD;
	if (!is_served && (w->source || !w->package)) {
		if (!has_tree || judge_build(w, &tree, &why) < 0)
			set_check_verdict(&result, VERDICT_IMPOSSIBLE, why.code, why.text);
		else
			add_compile(w, &result);
	}
	*ret = result;
	result = (struct check_result){ 0 };
	return 0;
}
