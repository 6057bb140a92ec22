// SPDX-License-Identifier: Apache-2.0
#include "plan/doctor.h"

#include "acquire/acquire.h"
#include "acquire/compile.h"
#include "acquire/signing.h"
#include "gpu_check/gpu_record.h"
#include "holders/holders.h"
#include "holders/unbind.h"
#include "host/existing_driver.h"
#include "host/module_params.h"
#include "host/module_set.h"
#include "journal/journal.h"
#include "journal/optional_modules.h"
#include "journal/state_dir.h"
#include "kmod/build/jobs.h"
#include "kmod/kernel_tree/compiler.h"
#include "kmod/kernel_tree/toolchain.h"
#include "kmod/load/kernel_trust.h"
#include "kmod/source/recipe.h"
#include "next_kernel/kernel_report.h"
#include "plan/preflight.h"
#include "precompiled/package/unpack.h"
#include "precompiled/trust/provenance.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/statvfs.h>

enum { SPACE_WANTED_MIB = 2048 }; // sources, objects and modules of one compile, measured: about 1.3 GiB

struct doctor {
	const struct node *node;
	const struct request *request;
	struct facts facts;
	struct tree tree;
	struct doctor_findings doctor_findings;
};

void doctor_findings_done(struct doctor_findings *f)
{
	for (size_t i = 0; i < f->count; i++)
		free(f->items[i].evidence), free(f->items[i].next);
	free(f->items);
	free(f->summary);
	free(f->next);
	*f = (struct doctor_findings){ 0 };
}

const char *doctor_state_name(enum doctor_state s)
{
	static const char *const names[] = { "pass", "warn", "FAIL" };
	return names[s];
}

static struct doctor_finding *add_finding(struct doctor *x, const char *name, enum doctor_state state, int code,
					  const char *fmt, ...) PRINTF(5, 6);
static struct doctor_finding *add_finding(struct doctor *x, const char *name, enum doctor_state state, int code,
					  const char *fmt, ...)
{
	char text[512];
	struct doctor_findings *f = &x->doctor_findings;
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	f->failed += state == DOCTOR_FAIL;
	f->items = mem_grow(f->items, f->count + 1, sizeof(*f->items));
	f->items[f->count] =
		(struct doctor_finding){ .name = name, .state = state, .code = code, .evidence = str_dup(text) };
	return &f->items[f->count++];
}

// The rights that every install needs, and those for an export, a compile, daemons, or holders that are asked to end.
static int examine_rights(struct doctor *x, struct err *err)
{
	auto_strv struct strv missing = { 0 }, other = { 0 };
	int r = capabilities_missing(x->node->kern, CAPABILITY_DRIVER | CAPABILITY_HOLDERS, &missing, err);
	int some = r < 0 ? -1 : capabilities_missing(x->node->kern, CAPABILITY_ALL, &other, err);
	if (some < 0)
		return -1;
	auto_str char *names = strv_join(r > 0 ? &missing : &other, ", ");
	if (r > 0)
		add_finding(x, "rights", DOCTOR_FAIL, E_RIGHTS, "this process lacks %s", names);
	else if (some > 0)
		add_finding(x, "rights", DOCTOR_WARN, E_RIGHTS,
			    "enough to install an available package; this process lacks %s", names);
	else if (root_exists(x->node->kern, "proc/self/status"))
		add_finding(x, "rights", DOCTOR_PASS, 0,
			    "loading modules, making device nodes and reading other processes are allowed");
	return 0;
}

// As an install of the requested driver, else of the loaded one, would choose its modules.
static void examine_choice(struct doctor *x)
{
	static const char NAME[] = "driver choice";
	const struct gpus *g = &x->facts.gpus;
	const struct modules *l = &x->facts.loaded;
	const char *version = x->request->driver ? x->request->driver : l->version;
	enum module_type flavour = x->request->driver ? x->request->flavour : l->flavour;
	const unsigned both = MODULE_TYPE_OPEN | MODULE_TYPE_PROPRIETARY;
	struct err err;
	auto_str char *mixed = gpu_support_mixed(g), *support = gpu_support_text(g);
	bool is_known = version && gpu_driver_branch(version);
	if (!gpus_count_ours(g, GPU_DISPLAY))
		return;
	if (is_known && gpu_support_choose(g, version, flavour, both, &flavour, NULL, &err) < 0) {
		add_finding(x, NAME, DOCTOR_FAIL, err.code, "%s", err.text)->next = str_dup(err_next_step(&err));
		return;
	}
	auto_str char *left = is_known ? gpu_support_left(g, version, flavour) : NULL;
	if (left)
		add_finding(x, NAME, DOCTOR_WARN, mixed ? E_MIXED_GPUS : E_FLAVOUR,
			    "the %s modules of driver %s leave GPUs without a driver: %s", module_type_name(flavour),
			    version, left);
	else if (mixed && !is_known)
		add_finding(x, NAME, DOCTOR_WARN, E_MIXED_GPUS,
			    "no driver version supports every GPU: %s; install leaves those without a driver that its "
			    "version does not support",
			    mixed);
	else
		add_finding(x, NAME, DOCTOR_PASS, 0, "%s", support);
}

// Shows the GPUs as they were last measured in this boot: no precondition, but what an install is for.
static void examine_measured(struct doctor *x)
{
	auto_gpu_record struct gpu_record r = { 0 };
	const struct modules *l = &x->facts.loaded;
	struct err why = { 0 };
	if (!l->version)
		return;
	if (gpu_record_read(x->node->host, x->facts.host.boot_id, &r, &why) <= 0 || !gpu_record_is_valid(&r, l)) {
		add_finding(x, "gpu check", DOCTOR_WARN, E_GPU_UNTESTED, "not measured since the driver was loaded");
		return;
	}
	if (r.is_waived) {
		add_finding(x, "gpu check", DOCTOR_PASS, 0, "not measured (--gpu-check none)");
		return;
	}
	auto_str char *text = gpu_results_text(&r.results);
	bool is_good = gpu_record_check(&r, &why) == 0;
	add_finding(x, "gpu check", is_good ? DOCTOR_PASS : DOCTOR_WARN, is_good ? 0 : why.code, "%s, at %s", text,
		    r.time);
}

static void examine_gpus(struct doctor *x)
{
	struct err err;
	const struct gpus *g = &x->facts.gpus;
	const struct gpu *first = g->items;
	for (size_t i = 0; i + 1 < g->count && !gpu_is_ours(first); i++)
		first++;
	auto_str char *counted = gpus_text(g);
	if (!facts_has_gpu(&x->facts))
		add_finding(x, "gpu", DOCTOR_WARN, 0, "no NVIDIA function: install does nothing here (NO_GPU)");
	else
		add_finding(x, "gpu", DOCTOR_PASS, 0, "%s, first %s %s", counted, first->address,
			    gpu_architecture(first->device));
	examine_measured(x);
	examine_choice(x);
	auto_served_gpus struct gpus served = { 0 }; // another driver may have the rest
	gpu_support_served(g, x->facts.loaded.version, x->facts.loaded.flavour, &served);
	auto_str char *owned = unbind_text(&served);
	if (gpus_check_owner(&served, true, &err) < 0)
		add_finding(x, "owner", DOCTOR_FAIL, err.code, "%s", err.text);
	else if (owned)
		add_finding(x, "owner", DOCTOR_WARN, E_BOUND, "install unbinds %s, and binds it again if it fails",
			    owned)
			->next = str_dup("nothing to do: `kmodsmith plan` shows the step; 'blacklist DRIVER' in a file "
					 "of /etc/modprobe.d keeps it away from the next boot on");
	else
		add_finding(x, "owner", DOCTOR_PASS, 0, "no other driver is bound to a GPU");
}

// Whether the kernel may know who signed, as far as that can be asked.
static bool is_signer_known(const struct kernel_trust *trust, const struct modsig *sig)
{
	bool is_known = !sig->signers.count;
	for (size_t i = 0; i < sig->signers.count && !is_known; i++)
		is_known = keyrings_has(&trust->keyrings, sig->signers.items[i]);
	return is_known;
}

// 1 = the store's package for this kernel has modules that are signed by who the kernel knows, 0 = it has not, or there
// is no package.
static int has_signed_package(struct doctor *x, const struct kernel_trust *trust, struct err *err)
{
	const struct host *h = &x->facts.host;
	const struct package_want want = { .release = h->release, .build_id = h->build_id, .arch = h->arch };
	auto_store struct store store = STORE_NONE;
	auto_package struct package p = PACKAGE_NONE;
	if (!root_exists(x->node->state, "store"))
		return 0;
	if (store_open(x->node->state, 0, &store, err) < 0)
		return -1;
	int r = store_find(&store, &want, &p, err);
	if (r <= 0 || unpack_package(&store.layout, x->node->state, &p, err) < 0)
		return r <= 0 ? r : -1;
	for (size_t i = 0; i < p.count; i++) {
		auto_modsig struct modsig sig = { 0 };
		auto_str char *module = NULL;
		size_t len = 0;
		if (root_read(&p.dir, p.files[i].name, &module, &len, err) <= 0)
			return -1;
		modsig_read(module, len, &sig);
		if (sig.state != MODSIG_SIGNED || !is_signer_known(trust, &sig))
			return 0;
	}
	return 1;
}

// Looks for what else may refuse a module: LoadPin, IMA.
static void examine_policies(struct doctor *x)
{
	struct err err;
	auto_str char *enforce = NULL, *lsm = NULL, *policy = NULL;
	root_line(x->node->kern, "proc/sys/kernel/loadpin/enforce", &enforce, &err);
	root_line(x->node->kern, "sys/kernel/security/lsm", &lsm, &err);
	root_read(x->node->kern, "sys/kernel/security/ima/policy", &policy, NULL, &err);
	if (str_eq(enforce, "1") || (!enforce && lsm && strstr(lsm, "loadpin")))
		add_finding(
			x, "loadpin", DOCTOR_WARN, E_SELINUX,
			"LoadPin takes modules from one file system only, that of the first one loaded: '%s' has to "
			"be on it",
			x->node->state->name);
	for (char *save, *line = policy ? strtok_r(policy, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save))
		if (str_starts(line, "appraise") && strstr(line, "MODULE_CHECK")) {
			add_finding(x, "ima", DOCTOR_WARN, E_SELINUX,
				    "IMA appraises modules by a rule of its own, their signatures alone may not do: %s",
				    line);
			return;
		}
}

// Examines what firmware, shim and kernel say about signatures of modules.
static void examine_secure_boot(struct doctor *x, const struct kernel_trust *trust)
{
	const struct host *h = &x->facts.host;
	auto_strv struct strv names = { 0 };
	modsig_certs_names(trust->certs, &names);
	auto_str char *certs = strv_join(&names, "; ");
	bool is_confidential = h->lockdown == LOCKDOWN_CONFIDENTIALITY;
	add_finding(x, "secure-boot", is_confidential ? DOCTOR_WARN : DOCTOR_PASS, is_confidential ? E_LOCKDOWN : 0,
		    "secure boot %s, lockdown %s, sig_enforce %s%s; of db and MOK the kernel trusts: %s",
		    host_secure_boot_name(h->secure_boot), host_lockdown_name(h->lockdown),
		    h->is_sig_enforced ? "on" : "off",
		    is_confidential ?
			    ": signed modules load, tools that read the kernel's memory (perf, kprobes) fail" :
			    "",
		    names.count ? certs : "none");
	examine_policies(x);
}

// An existing driver was loaded before, or its vendor signs it.
static int examine_signing(struct doctor *x, struct err *err)
{
	const struct host *h = &x->facts.host;
	const char *signing = host_signing_reason(h);
	auto_existing_driver struct existing_driver existing_driver = { 0 };
	const struct strv none = { 0 };
	auto_kernel_trust struct kernel_trust trust = { 0 };
	kernel_trust_read(x->node, h->release, &trust);
	examine_secure_boot(x, &trust);
	if (!signing) {
		add_finding(x, "signing", DOCTOR_PASS, 0,
			    "unsigned modules may be loaded (secure boot %s, lockdown %s)",
			    host_secure_boot_name(h->secure_boot), host_lockdown_name(h->lockdown));
		return 0;
	}
	struct err unseen; // a full or read-only disk or a damaged store must not hide the other findings
	int r = has_signed_package(x, &trust, &unseen);
	if (r < 0)
		add_finding(x, "store", DOCTOR_WARN, unseen.code, "%s", unseen.text);
	if (existing_driver_read(x->node->host, h, &x->facts.loaded, NULL, &none, &existing_driver, err) < 0)
		return -1;
	auto_str char *signer = NULL;
	if (signing_check(h, x->node->kern, &x->request->module_key, &signer, &unseen) < 0) {
		add_finding(x, "signing", DOCTOR_FAIL, unseen.code, "%s", unseen.text);
		return 0;
	}
	if (signer) {
		add_finding(x, "signing", DOCTOR_PASS, 0, "%s: what is compiled here is signed by %s", signing, signer);
		return 0;
	}
	bool is_needed = facts_has_gpu(&x->facts) && !x->facts.loaded.count && !existing_driver.is_foreign;
	add_finding(x, "signing", r <= 0 && is_needed ? DOCTOR_FAIL : DOCTOR_WARN, E_SIGNING_REQUIRED,
		    "%s: only signed modules load, and what is compiled here is signed with --module-key; %s", signing,
		    r > 0                      ? "the store has a package with signed modules" :
		    existing_driver.is_foreign ? "the host has a driver of its own" :
		    r < 0                      ? "it is unknown whether the store has a package with signed modules" :
						 "the store has no package for this kernel that it would take");
	return 0;
}

// Without headers the kernel itself says which compiler built it. False = it does not.
static bool fill_tree_of_banner(const struct host *h, struct tree *ret)
{
	char *compiler = compiler_of_banner(h->banner);
	struct compiler built = compiler_parse(compiler);
	if (!built.major) {
		free(compiler);
		return false;
	}
	*ret = (struct tree){ .root = ROOT_NONE,
			      .release = str_dup(h->release),
			      .arch = str_dup(h->arch),
			      .build = str_dup(""),
			      .compiler = compiler,
			      .compiler_major = built.major,
			      .is_clang = built.is_clang };
	return true;
}

// False = it is not known which compiler is wanted.
static bool examine_headers(struct doctor *x)
{
	const struct host *h = &x->facts.host;
	struct err err;
	auto_str char *from = NULL;
	if (compile_target_headers(x->node->host, x->node->state, &x->request->headers, NULL, h->release, h->banner,
				   &x->tree, &from, &err) < 0) {
		const struct package_manager pm = { .host = x->node->host, .state = x->node->state, .arch = h->arch };
		auto_str char *why = NULL, *asked = package_manager_plan(&pm, h->release, &why);
		struct doctor_finding *f =
			add_finding(x, "headers", DOCTOR_WARN, err.code, "%s; a compile would ask %s%s", err.text,
				    asked ? asked : "nobody else: ", asked ? "" : why);
		f->next = asked ? str_dup("nothing to do where that repository can be reached; else pass them with "
					  "--headers FILE[,FILE...]") :
				  NULL;
		return fill_tree_of_banner(h, &x->tree);
	}
	add_finding(x, "headers", DOCTOR_PASS, 0, "%s", from);
	return true;
}

// Missing headers or compilers only matter if there is no package.
static void examine_build(struct doctor *x)
{
	struct err err;
	auto_toolchain struct toolchain tools = { 0 };
	auto_str char *path = str_fmt("%s/usr/sbin:%s/usr/bin:%s/sbin:%s/bin", x->node->host->name, x->node->host->name,
				      x->node->host->name, x->node->host->name);
	if (!examine_headers(x))
		return;
	bool is_fit = toolchain_find(&x->tree, path, NULL, &tools, &err) == 0;
	if (!is_fit && acquire_judge_builder(x->node->state, &x->tree, &err) > 0)
		add_finding(x, "compiler", DOCTOR_PASS, 0, "that of the builder image in the store");
	else if (!is_fit)
		add_finding(x, "compiler", DOCTOR_WARN, err.code, "%s", err.text);
	else
		add_finding(x, "compiler", DOCTOR_PASS, 0, "%s", tools.version);
	const char *loaded = x->facts.loaded.version, *driver = x->request->driver ? x->request->driver : loaded;
	auto_str char *newer = recipe_newer_kernel(driver, x->facts.host.release);
	if (newer)
		add_finding(x, "kernel", DOCTOR_WARN, 0, "it is %s; a compile may fail", newer);
	struct jobs_facts jobs;
	jobs_read(x->node->kern, &jobs);
	auto_str char *numbers = jobs_text(&jobs);
	unsigned count = jobs_count(&jobs, 0);
	add_finding(x, "jobs", DOCTOR_PASS, 0, "%u compiler%s at once (%s)", count, str_plural(count), numbers);
}

static void examine_space(struct doctor *x)
{
	struct err err;
	struct statvfs fs;
	if (state_dir_space(x->node->state, 0, &err) < 0) {
		add_finding(x, "space", DOCTOR_FAIL, err.code, "%s", err.text);
		return;
	}
	if (fstatvfs(x->node->state->fd, &fs) < 0)
		return;
	unsigned long long mib = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
	bool is_enough = mib >= SPACE_WANTED_MIB;
	add_finding(x, "space", is_enough ? DOCTOR_PASS : DOCTOR_WARN, is_enough ? 0 : E_NO_SPACE,
		    "%llu MiB free in '%s', a compile needs up to %d", mib, x->node->state->name, SPACE_WANTED_MIB);
}

static bool has_gsp(const struct gpus *g)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->items[i].kind == GPU_DISPLAY && gpu_is_ours(&g->items[i]) &&
		    gpu_gsp_firmware(g->items[i].device, 0))
			return true;
	return false;
}

// The requested version is unknown here: lists what is available, and checks the loaded driver.
static int examine_firmware(struct doctor *x, struct err *err)
{
	struct err why;
	auto_firmware_path struct firmware_path search = { 0 };
	auto_strv struct strv versions = { 0 };
	auto_str char *where = NULL;
	if (!has_gsp(&x->facts.gpus))
		return 0;
	if (firmware_path(x->node->host, x->node->kern, x->facts.host.release, &search, err) < 0)
		return -1;
	firmware_path_versions(x->node->host, &search, &versions);
	auto_str char *places = firmware_path_text(&search), *names = strv_join(&versions, ", ");
	if (preflight_loaded_firmware(x->node->host, x->node->kern, &x->facts, &where, &why) < 0)
		add_finding(x, "firmware", DOCTOR_FAIL, why.code, "%s", why.text);
	else if (!versions.count)
		add_finding(x, "firmware", DOCTOR_WARN, E_FIRMWARE, "for no driver version in %s", places);
	else
		add_finding(x, "firmware", DOCTOR_PASS, 0, "for %s in %s", names, places);
	return 0;
}

// An installation asks what becomes of a driver that the host would load by itself.
static void examine_installed_driver(struct doctor *x)
{
	const struct strv none = { 0 };
	struct err unread; // must not hide the other findings
	auto_module_params struct module_params params = { 0 };
	auto_existing_driver struct existing_driver own = { 0 };
	if (module_params_read(x->node->host, x->node->kern, x->node->kern, &none, &x->facts.gpus, &params, &unread) <
		    0 ||
	    existing_driver_read(x->node->host, &x->facts.host, &x->facts.loaded, NULL, &params.blacklist, &own,
				 &unread) < 0) {
		add_finding(x, "driver", DOCTOR_WARN, unread.code, "none is loaded; %s", unread.text);
		return;
	}
	auto_strv struct strv needed = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++)
		if (!optional_modules_is(default_modules[i]))
			strv_add(&needed, str_dup(default_modules[i]));
	auto_str char *text = own.is_foreign ? existing_driver_text(&own) : NULL;
	if (module_params_check_allowed(&params, &needed, &unread) < 0)
		add_finding(x, "driver", DOCTOR_FAIL, unread.code, "none is loaded; %s", unread.text)->next =
			str_dup(err_next_step(&unread));
	else if (text)
		add_finding(x, "driver", DOCTOR_WARN, E_HOST_DRIVER, "none is loaded; the host has %s", text);
	else
		add_finding(x, "driver", DOCTOR_PASS, 0, "none is loaded");
}

static int examine_driver(struct doctor *x, struct err *err)
{
	const struct modules *l = &x->facts.loaded;
	struct holders h = { 0 };
	if (!l->count) {
		examine_installed_driver(x);
		return 0;
	}
	add_finding(x, "driver", DOCTOR_PASS, 0, "%s %s is loaded", l->version ? l->version : "(unknown version)",
		    module_type_name(l->flavour));
	if (holders_find(x->node->kern, l, &h, err) < 0)
		return -1;
	size_t holders = holders_blocking(&h);
	auto_str char *first = holders ? holders_first(&h) : NULL;
	if (holders)
		add_finding(x, "holders", DOCTOR_WARN, E_IN_USE, "%zu holder(s), first: %s", holders, first);
	else if (h.console)
		add_finding(x, "holders", DOCTOR_WARN, E_IN_USE, "the kernel's console: %s", h.console);
	else
		add_finding(x, "holders", DOCTOR_PASS, 0, "the driver is not in use");
	holders_done(&h);
	return 0;
}

// Before anything opens it, which would mend it.
static void examine_store(struct doctor *x)
{
	struct err why;
	if (store_check(x->node->state, &why) < 0)
		add_finding(x, "store", DOCTOR_WARN, why.code, "%s", why.text);
}

static int examine_trust(struct doctor *x, struct err *err)
{
	auto_str char *last = NULL;
	uint64_t count = 0;
	int r = provenance_read_unverified(x->node->state, &count, &last, err);
	if (r < 0)
		return -1;
	if (r > 0)
		add_finding(x, "packages", DOCTOR_WARN, E_UNTRUSTED,
			    "%llu were stored with --insecure-skip-verify, last %s", (unsigned long long)count,
			    last ? last : "(unknown)");
	else
		add_finding(x, "packages", DOCTOR_PASS, 0, "none was stored unverified");
	return 0;
}

// A kernel that is stuck in a load or unload accepts no other one before the next boot.
static int examine_journal(struct doctor *x, struct err *err)
{
	struct err why = { 0 };
	auto_journal struct journal j = { 0 };
	if (journal_find(x->node->host, x->node->state, &j, err) < 0)
		return -1;
	if (journal_check_wedged(&j, x->facts.host.boot_id, &why) < 0)
		add_finding(x, "modules", DOCTOR_FAIL, why.code, "%s", why.text);
	else
		add_finding(x, "modules", DOCTOR_PASS, 0, "no load or unload of this boot is stuck in the kernel");
	if (!j.unwritten)
		return 0;
	bool is_due = state_dir_space(x->node->state, 0, &why) < 0;
	add_finding(x, "journal", DOCTOR_WARN, is_due ? why.code : 0, "in memory only%s, %s",
		    is_due ? "" : " until the next start writes it to disk", j.unwritten);
	return 0;
}

// Shows what the last kernel report says about the next boot (R-F1). It never makes an install fail now.
static int examine_next(struct doctor *x, struct err *err)
{
	auto_kernel_report struct kernel_report f = { 0 };
	int r = kernel_report_read(x->node->host, x->facts.host.boot_id, &f, err);
	if (r <= 0)
		return r;
	const struct kernel_report_entry *next = kernel_report_next(&f);
	auto_str char *text = next ? kernel_report_line(next) : NULL;
	if (!next)
		add_finding(x, "next boot", DOCTOR_PASS, 0, NO_NEWER_KERNEL);
	else if (next->verdict == KERNEL_READY)
		add_finding(x, "next boot", DOCTOR_PASS, 0, "%s", text);
	else
		add_finding(x, "next boot", DOCTOR_WARN, next->code ? next->code : E_NO_PACKAGE, "%s", text);
	return 0;
}

static void summarize(struct doctor *x)
{
	struct doctor_findings *f = &x->doctor_findings;
	const struct doctor_finding *first = NULL;
	const struct modules *l = &x->facts.loaded;
	auto_strv struct strv lacking = { 0 };
	for (size_t i = 0; i < f->count; i++) {
		const struct doctor_finding *item = &f->items[i];
		first = !first && item->state == DOCTOR_FAIL ? item : first;
		if (item->state == DOCTOR_WARN && !item->next &&
		    (str_eq(item->name, "headers") || str_eq(item->name, "compiler")))
			strv_add(&lacking, str_dup(item->name));
	}
	if (first) {
		f->summary = str_fmt("An install would fail: %zu check%s, the first is %s", f->failed,
				     str_plural(f->failed), first->name);
		f->next = str_dup(first->next ? first->next : err_info(first->code)->next);
	} else if (!facts_has_gpu(&x->facts)) {
		f->summary = str_dup("There is nothing to install a driver for");
	} else if (l->count) {
		f->summary = str_fmt("Driver %s is loaded, and nothing prevents an install of another one",
				     l->version ? l->version : "(unknown version)");
		f->next = str_dup("`kmodsmith status` says whether it works");
	} else {
		auto_str char *names = strv_join(&lacking, ", ");
		f->summary =
			lacking.count ?
				str_fmt("Nothing prevents an install of a package; a compile here lacks: %s", names) :
				str_dup("Nothing prevents an install");
		f->next = str_fmt("`kmodsmith plan VERSION --from docker://HOST/NAME`, or `kmodsmith plan --source "
				  "NVIDIA-Linux-%s-VERSION.run`, shows its steps",
				  x->facts.host.arch);
	}
}

static void doctor_done(struct doctor *x)
{
	facts_done(&x->facts);
	tree_done(&x->tree);
	doctor_findings_done(&x->doctor_findings);
}

int doctor_read(const struct node *node, const struct request *request, struct doctor_findings *ret, struct err *err)
{
	__attribute__((cleanup(doctor_done))) struct doctor x = { .node = node,
								  .request = request,
								  .tree = { .root = ROOT_NONE } };
	if (facts_read(node->host, node->kern, &x.facts, err) < 0 || examine_rights(&x, err) < 0)
		return -1;
	examine_store(&x);
	examine_gpus(&x);
	const struct host *h = &x.facts.host;
	add_finding(&x, "kernel", DOCTOR_PASS, 0, "%s, build id %.12s..., %s", h->release, h->build_id, h->arch);
	if (examine_signing(&x, err) < 0)
		return -1;
	examine_build(&x);
	examine_space(&x);
	if (examine_firmware(&x, err) < 0 || examine_trust(&x, err) < 0 || examine_driver(&x, err) < 0 ||
	    examine_journal(&x, err) < 0 || examine_next(&x, err) < 0)
		return -1;
	summarize(&x);
	*ret = x.doctor_findings;
	x.doctor_findings = (struct doctor_findings){ 0 };
	return 0;
}
