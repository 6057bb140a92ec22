// SPDX-License-Identifier: Apache-2.0
#include "plan/doctor.h"

#include "acquire/acquire.h"
#include "acquire/compile_target.h"
#include "holders/holders.h"
#include "holders/unbind.h"
#include "host/existing_driver.h"
#include "journal/journal.h"
#include "journal/state_dir.h"
#include "kmod/build/jobs.h"
#include "kmod/kernel_tree/toolchain.h"
#include "kmod/module/modsig.h"
#include "next_kernel/report.h"
#include "plan/preflight.h"
#include "precompiled/package/unpack.h"
#include "precompiled/trust/unverified.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/statvfs.h>

enum { SPACE_WANTED_MIB = 2048 }; // sources, objects and modules of one compile, measured: about 1.3 GiB

struct exam {
	const struct root *host, *kern, *state;
	const struct strv *headers;
	struct facts facts;
	struct tree tree;
	struct findings findings;
};

void findings_done(struct findings *f)
{
	for (size_t i = 0; i < f->count; i++)
		free(f->items[i].evidence);
	free(f->items);
	*f = (struct findings){ 0 };
}

size_t findings_failed(const struct findings *f)
{
	size_t failed = 0;
	for (size_t i = 0; i < f->count; i++)
		failed += f->items[i].state == FINDING_FAIL;
	return failed;
}

const char *finding_state_name(enum finding_state s)
{
	static const char *const names[] = { "pass", "warn", "FAIL" };
	return names[s];
}

static void add(struct exam *x, const char *name, enum finding_state state, int code, const char *fmt, ...)
	PRINTF(5, 6);
static void add(struct exam *x, const char *name, enum finding_state state, int code, const char *fmt, ...)
{
	char text[512];
	struct findings *f = &x->findings;
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	f->items = mem_grow(f->items, f->count + 1, sizeof(*f->items));
	f->items[f->count++] =
		(struct finding){ .name = name, .state = state, .code = code, .evidence = str_dup(text) };
}

// What every install takes, and what only some do: an export, a compile, daemons, holders that are asked to end.
static int examine_rights(struct exam *x, struct err *err)
{
	auto_strv struct strv missing = { 0 }, other = { 0 };
	int r = rights_missing(x->kern, RIGHTS_DRIVER | RIGHTS_HOLDERS, &missing, err);
	int some = r < 0 ? -1 : rights_missing(x->kern, RIGHTS_ALL, &other, err);
	if (some < 0)
		return -1;
	auto_str char *names = strv_join(r > 0 ? &missing : &other, ", ");
	if (r > 0)
		add(x, "rights", FINDING_FAIL, E_RIGHTS, "this process lacks %s", names);
	else if (some > 0)
		add(x, "rights", FINDING_WARN, E_RIGHTS, "enough for a package that is at hand; this process lacks %s",
		    names);
	else if (root_exists(x->kern, "proc/self/status"))
		add(x, "rights", FINDING_PASS, 0, "modules, device nodes and the processes of others are allowed");
	return 0;
}

static const struct gpu *first_of_ours(const struct gpus *g)
{
	size_t i = 0;
	while (i + 1 < g->count && !gpu_is_ours(&g->items[i]))
		i++;
	return &g->items[i];
}

static void examine_gpus(struct exam *x)
{
	struct err err;
	const struct gpus *g = &x->facts.gpus;
	const struct gpu *first;
	if (!facts_has_gpu(&x->facts))
		add(x, "gpu", FINDING_WARN, 0, "no NVIDIA function: install does nothing here (NO_GPU)");
	else if ((first = first_of_ours(g)))
		add(x, "gpu", FINDING_PASS, 0, "%zu GPUs, %zu switches, first %s %s", gpus_ours(g, GPU_DISPLAY),
		    gpus_ours(g, GPU_SWITCH), first->address, flavour_architecture(first->device));
	if (flavour_check_any(g, &err) < 0)
		add(x, "driver choice", FINDING_FAIL, err.code, "%s", err.text);
	auto_str char *owned = owner_text(g);
	if (gpus_check_owner(g, true, &err) < 0)
		add(x, "owner", FINDING_FAIL, err.code, "%s", err.text);
	else if (owned)
		add(x, "owner", FINDING_WARN, E_BOUND, "an install takes %s", owned);
	else
		add(x, "owner", FINDING_PASS, 0, "no foreign driver owns a GPU");
}

// 1 = the store's package for this kernel has modules with signatures, 0 = they are unsigned, or there is no package.
// Whether the kernel knows the key is seen by their proof.
static int has_signed_package(struct exam *x, struct err *err)
{
	const struct host *h = &x->facts.host;
	const struct package_want want = { .release = h->release, .build_id = h->build_id, .arch = h->arch };
	auto_store struct store store = STORE_NONE;
	auto_package struct package p = PACKAGE_NONE;
	if (!root_exists(x->state, "store"))
		return 0;
	if (store_open(x->state, 0, &store, err) < 0)
		return -1;
	int r = store_find(&store, &want, &p, err);
	if (r <= 0 || stage_package(&store.layout, x->state, &p, err) < 0)
		return r <= 0 ? r : -1;
	for (size_t i = 0; i < p.count; i++) {
		auto_modsig struct modsig sig = { 0 };
		auto_str char *module = NULL;
		size_t len = 0;
		if (root_read(&p.dir, p.files[i].name, &module, &len, err) <= 0)
			return -1;
		modsig_read(module, len, &sig);
		if (sig.state != MODSIG_SIGNED)
			return 0;
	}
	return 1;
}

// Where a driver is there already, it has passed, or its maker signs it.
static int examine_signing(struct exam *x, struct err *err)
{
	const struct host *h = &x->facts.host;
	const char *signing = host_signing_reason(h);
	auto_resident struct resident resident = { 0 };
	const struct strv none = { 0 };
	if (!signing) {
		add(x, "signing", FINDING_PASS, 0, "unsigned modules may be loaded (secure boot %s, lockdown %s)",
		    host_secure_boot_name(h->secure_boot), host_lockdown_name(h->lockdown));
		return 0;
	}
	struct err unseen; // a disk that is full or read-only, a damaged store: no reason to see nothing else
	int r = has_signed_package(x, &unseen);
	if (r < 0)
		add(x, "store", FINDING_WARN, unseen.code, "%s", unseen.text);
	if (resident_read(x->host, h, &x->facts.loaded, NULL, &none, &resident, err) < 0)
		return -1;
	bool is_needed = facts_has_gpu(&x->facts) && !x->facts.loaded.count && !resident.is_foreign;
	add(x, "signing", r <= 0 && is_needed ? FINDING_FAIL : FINDING_WARN, E_SIGNING_REQUIRED,
	    "%s: only signed modules load, and kmodsmith signs none that it compiles; %s", signing,
	    r > 0               ? "the store has a package with signed ones" :
	    resident.is_foreign ? "the host has a driver of its own" :
	    r < 0               ? "whether the store has a package with signed ones is not known" :
				  "the store has no package with signed ones for this kernel");
	return 0;
}

static int examine_kernel(struct exam *x, struct err *err)
{
	const struct host *h = &x->facts.host;
	add(x, "kernel", FINDING_PASS, 0, "%s, build id %.12s..., %s", h->release, h->build_id, h->arch);
	return examine_signing(x, err);
}

// Missing headers or compilers only matter where no package is at hand.
static void examine_build(struct exam *x)
{
	const struct host *h = &x->facts.host;
	struct err err;
	auto_str char *from = NULL;
	auto_toolchain struct toolchain tools = { 0 };
	auto_str char *path = str_fmt("%s/usr/sbin:%s/usr/bin:%s/sbin:%s/bin", x->host->name, x->host->name,
				      x->host->name, x->host->name);
	if (target_headers(x->host, x->state, x->headers, NULL, h->release, h->banner, &x->tree, &from, &err) < 0) {
		add(x, "headers", FINDING_WARN, err.code, "%s", err.text);
		return;
	}
	add(x, "headers", FINDING_PASS, 0, "%s", from);
	bool is_fit = toolchain_find(&x->tree, path, NULL, &tools, &err) == 0;
	if (!is_fit && obtain_has_builder(x->state, h->arch))
		add(x, "compiler", FINDING_PASS, 0, "that of the builder image in the store");
	else if (!is_fit)
		add(x, "compiler", FINDING_WARN, err.code, "%s", err.text);
	else
		add(x, "compiler", FINDING_PASS, 0, "%s", tools.version);
	struct jobs_facts jobs;
	jobs_read(x->kern, &jobs);
	auto_str char *numbers = jobs_text(&jobs);
	add(x, "jobs", FINDING_PASS, 0, "%u compilers at once (%s)", jobs_count(&jobs, 0), numbers);
}

static void examine_space(struct exam *x)
{
	struct err err;
	struct statvfs fs;
	if (state_dir_space(x->state, 0, &err) < 0) {
		add(x, "space", FINDING_FAIL, err.code, "%s", err.text);
		return;
	}
	if (fstatvfs(x->state->fd, &fs) < 0)
		return;
	unsigned long long mib = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
	bool is_enough = mib >= SPACE_WANTED_MIB;
	add(x, "space", is_enough ? FINDING_PASS : FINDING_WARN, is_enough ? 0 : E_NO_SPACE,
	    "%llu MiB free in '%s', a compile takes up to %d", mib, x->state->name, SPACE_WANTED_MIB);
}

static bool has_gsp(const struct gpus *g)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->items[i].kind == GPU_DISPLAY && gpu_is_ours(&g->items[i]) &&
		    flavour_firmware(g->items[i].device, 0))
			return true;
	return false;
}

// Which version will be wished is not known here: what there is, and of the driver that is loaded whether it fits.
static int examine_firmware(struct exam *x, struct err *err)
{
	struct err why;
	auto_firmware_search struct firmware_search search = { 0 };
	auto_strv struct strv versions = { 0 };
	auto_str char *where = NULL;
	if (!has_gsp(&x->facts.gpus))
		return 0;
	if (firmware_search(x->host, x->kern, x->facts.host.release, &search, err) < 0)
		return -1;
	firmware_versions(x->host, &search, &versions);
	auto_str char *places = firmware_search_text(&search), *names = strv_join(&versions, ", ");
	if (preflight_loaded_firmware(x->host, x->kern, &x->facts, &where, &why) < 0)
		add(x, "firmware", FINDING_FAIL, why.code, "%s", why.text);
	else if (!versions.count)
		add(x, "firmware", FINDING_WARN, E_FIRMWARE, "of no driver version in %s", places);
	else
		add(x, "firmware", FINDING_PASS, 0, "of %s in %s", names, places);
	return 0;
}

static int examine_driver(struct exam *x, struct err *err)
{
	const struct loaded *l = &x->facts.loaded;
	struct holders h = { 0 };
	if (!l->count) {
		add(x, "driver", FINDING_PASS, 0, "none is loaded");
		return 0;
	}
	add(x, "driver", FINDING_PASS, 0, "%s %s is loaded", l->version ? l->version : "(unknown version)",
	    flavour_name(l->flavour));
	if (holders_find(x->kern, l, &h, err) < 0)
		return -1;
	size_t holders = holders_blocking(&h);
	auto_str char *first = holders ? holders_first(&h) : NULL;
	if (holders)
		add(x, "holders", FINDING_WARN, E_IN_USE, "%zu holder(s), first: %s", holders, first);
	else
		add(x, "holders", FINDING_PASS, 0, "nobody uses the driver");
	holders_done(&h);
	return 0;
}

static int examine_trust(struct exam *x, struct err *err)
{
	auto_str char *last = NULL;
	uint64_t count = 0;
	int r = unverified_read(x->state, &count, &last, err);
	if (r < 0)
		return -1;
	if (r > 0)
		add(x, "packages", FINDING_WARN, E_UNTRUSTED,
		    "%llu were taken with --insecure-skip-verify, the last was %s", (unsigned long long)count,
		    last ? last : "(unknown)");
	else
		add(x, "packages", FINDING_PASS, 0, "none was taken without knowing who made it");
	return 0;
}

// A kernel that is stuck in a load or unload takes no other one before the next boot.
static int examine_journal(struct exam *x, struct err *err)
{
	struct err why = { 0 };
	auto_journal struct journal j = { 0 };
	if (journal_find(x->host, x->state, &j, err) < 0)
		return -1;
	if (journal_check_wedged(&j, x->facts.host.boot_id, &why) < 0)
		add(x, "modules", FINDING_FAIL, why.code, "%s", why.text);
	else
		add(x, "modules", FINDING_PASS, 0, "no load or unload of this boot is stuck in the kernel");
	if (!j.unwritten)
		return 0;
	bool is_due = state_dir_space(x->state, 0, &why) < 0;
	add(x, "journal", FINDING_WARN, is_due ? why.code : 0, "in memory only%s, %s",
	    is_due ? "" : " until the next start writes it there", j.unwritten);
	return 0;
}

// What the next reboot comes to, as far as somebody has looked (R-F1). No reason for an install to fail now.
static int examine_next(struct exam *x, struct err *err)
{
	auto_forecast struct forecast f = { 0 };
	int r = forecast_read(x->host, x->facts.host.boot_id, &f, err);
	if (r <= 0)
		return r;
	const struct forecast_kernel *next = forecast_next(&f);
	auto_str char *text = next ? forecast_text(next) : NULL;
	if (!next)
		add(x, "next boot", FINDING_PASS, 0, "%s, which runs now, starts next", f.running);
	else if (next->verdict == FORECAST_READY)
		add(x, "next boot", FINDING_PASS, 0, "%s", text);
	else
		add(x, "next boot", FINDING_WARN, next->code ? next->code : E_NO_PACKAGE, "%s", text);
	return 0;
}

static void exam_done(struct exam *x)
{
	facts_done(&x->facts);
	tree_done(&x->tree);
	findings_done(&x->findings);
}

int doctor_read(const struct root *host, const struct root *kern, const struct root *state, const struct strv *headers,
		struct findings *ret, struct err *err)
{
	__attribute__((cleanup(exam_done))) struct exam x = {
		.host = host, .kern = kern, .state = state, .headers = headers, .tree = { .root = ROOT_NONE }
	};
	if (facts_read(host, kern, &x.facts, err) < 0 || examine_rights(&x, err) < 0)
		return -1;
	examine_gpus(&x);
	if (examine_kernel(&x, err) < 0)
		return -1;
	examine_build(&x);
	examine_space(&x);
	if (examine_firmware(&x, err) < 0 || examine_trust(&x, err) < 0 || examine_driver(&x, err) < 0 ||
	    examine_journal(&x, err) < 0 || examine_next(&x, err) < 0)
		return -1;
	*ret = x.findings;
	x.findings = (struct findings){ 0 };
	return 0;
}
