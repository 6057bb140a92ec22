// SPDX-License-Identifier: Apache-2.0
// A machine, a request and what is at hand as one row of a table, and the plan that follows from it.
#pragma once
#include "plan/plan.h"
#include "tests/unit/test.h"

struct row {
	const char *name;
	unsigned gpus;      // H100s
	uint16_t device;    // 0 = 0x2330
	uint16_t first;     // device id of the first GPU; 0 = as the others
	const char *bound;  // its driver
	const char *loaded; // version in the kernel, NULL = none
	enum module_type loaded_flavour;
	const char *loaded_modules; // comma list with underscores
	const char *package;        // version of the package at hand
	const char *srcversion;     // of nvidia in the package; what is loaded has "S1"
	bool has_no_uvm;            // the package
	const char *source;         // version of the source at hand
	const char *request_driver;
	enum module_type request_flavour;
	const char *digest; // requested
	bool is_compile_forbidden, is_sig_enforced, is_named;
	const char *payload, *export_why, *payload_why_not; // as in struct at_hand
	const char *holder;                                 // path held by a process
	enum {
		OURS,
		HOST_PACKAGE,
		STALE,
		INSTALLED
	} existing_driver; // whose what is loaded is; INSTALLED: version 530.1
	enum host_policy host_driver;
	enum holders_policy holders;
	const char *failed; // optional module that failed in this boot, of the package at hand
	const char *failed_params;
	bool is_retry;
	const char *forbidden; // by the kernel command line
	int code;              // of the refusal, 0 = none
	enum plan_outcome outcome;
	const char *driver;  // of the plan; NULL = not looked at
	const char *subject; // of its first step; NULL = not looked at
	const char *why;     // of its unload; NULL = not looked at
	const char *prove;   // subject of that step; NULL = not looked at
	const char *steps;   // "package prove load nodes verify"
};

#define ALL "nvidia,nvidia_uvm,nvidia_modeset"
#define FITS .package = "535.1", .srcversion = "S1"
#define WITHOUT_MODESET                                                                                                \
	.gpus = 2, .loaded = "535.1", .loaded_flavour = MODULE_TYPE_OPEN, .loaded_modules = "nvidia,nvidia_uvm", FITS, \
	.failed = "nvidia-modeset"
#define LOADED(version) .loaded = (version), .loaded_flavour = MODULE_TYPE_OPEN, .loaded_modules = ALL
#define HAS(version) .gpus = 2, LOADED(version)

static void make_facts(const struct row *row, struct facts *f)
{
	f->host = (struct host){ .release = str_dup("6.1.0-56-cloud-amd64"), .is_sig_enforced = row->is_sig_enforced };
	f->gpus.items = mem_alloc((row->gpus + 1) * sizeof(*f->gpus.items));
	for (; f->gpus.count < row->gpus; f->gpus.count++) {
		struct gpu *g = &f->gpus.items[f->gpus.count];
		*g = (struct gpu){ .kind = GPU_DISPLAY,
				   .class = 0x030200,
				   .device = row->device ? row->device : 0x2330 };
		snprintf(g->address, sizeof(g->address), "0000:%02x:00.0", (unsigned)f->gpus.count & 0xff);
	}
	if (row->first)
		f->gpus.items[0].device = row->first;
	if (row->bound)
		f->gpus.items[0].driver = str_dup(row->bound);
	auto_strv struct strv names = { 0 };
	if (row->loaded_modules)
		strv_split(&names, row->loaded_modules, ",");
	f->loaded = (struct modules){ .version = str_dup(row->loaded), .flavour = row->loaded_flavour };
	f->loaded.items = mem_alloc((names.count + 1) * sizeof(*f->loaded.items));
	for (; f->loaded.count < names.count; f->loaded.count++)
		f->loaded.items[f->loaded.count] =
			(struct loaded_module){ .name = str_dup(names.items[f->loaded.count]),
						.is_driver = true,
						.version = str_dup(row->loaded),
						.srcversion = str_dup("S1") };
}

static void make_resident(const struct row *row, struct existing_driver *r)
{
	if (row->existing_driver == OURS)
		return;
	*r = (struct existing_driver){ .is_foreign = true,
				       .is_loaded = row->existing_driver != INSTALLED,
				       .is_stale = row->existing_driver == STALE,
				       .version = str_dup(row->existing_driver == INSTALLED ? "530.1" : row->loaded),
				       .flavour = MODULE_TYPE_OPEN,
				       .file = str_dup(row->existing_driver == STALE ? NULL :
										       "lib/modules/6/nvidia.ko") };
}

static void make_package(const struct row *row, struct package *p)
{
	*p = PACKAGE_NONE;
	p->place = str_dup("oci:/packages");
	p->key.driver = str_dup(row->package);
	p->key.flavour = str_dup("open");
	p->key.release = str_dup("6.1.0-56-cloud-amd64");
	strv_split(&p->key.modules, row->has_no_uvm ? "nvidia nvidia-modeset" : "nvidia nvidia-uvm nvidia-modeset",
		   " ");
	snprintf(p->manifest.digest, sizeof(p->manifest.digest), "aa");
	p->count = 1;
	p->files = mem_alloc(sizeof(*p->files));
	p->files[0] = (struct package_file){ .name = str_dup("nvidia.ko"),
					     .module = str_dup("nvidia"),
					     .srcversion = str_dup(row->srcversion) };
}

static void make_holder(const struct row *row, struct holders *h)
{
	if (!row->holder)
		return;
	h->items = mem_alloc(sizeof(*h->items));
	h->items[h->count++] = (struct holder){ .pid = 42,
						.comm = str_dup("python3"),
						.cmdline = str_dup("python3 train.py"),
						.kind = HOLDER_FD,
						.path = str_dup(row->holder) };
}

static void check_plan(const struct row *row, const struct plan *plan)
{
	auto_str char *steps = str_dup("");
	for (size_t i = 0; i < plan->count; i++) {
		str_add(&steps, "%s%s", i ? " " : "", plan_step_name(plan->steps[i].kind));
		expect(plan->steps[i].subject && *plan->steps[i].subject && plan->steps[i].why && *plan->steps[i].why,
		       row->name);
		if (row->why && plan->steps[i].kind == STEP_UNLOAD)
			expect(strstr(plan->steps[i].why, row->why), plan->steps[i].why);
		if (row->prove && plan->steps[i].kind == STEP_PROVE)
			expect(str_eq(plan->steps[i].subject, row->prove), plan->steps[i].subject);
	}
	expect(plan->outcome == row->outcome, row->name);
	expect(!row->driver || str_eq(plan->driver, row->driver), row->name);
	expect(!row->subject || str_eq(plan->steps[0].subject, row->subject), row->name);
	if (!str_eq(steps, row->steps))
		fail_msg("%s: steps are '%s', not '%s'", row->name, steps, row->steps);
}

static void make_failed(const struct row *row, struct optional_modules *o)
{
	if (!row->failed)
		return;
	optional_modules_add(o, row->failed, row->failed_params ? row->failed_params : "", "E_SYMBOL",
			     "nothing exports x");
	o->driver = str_dup(row->package);
	o->package = str_dup("aa");
}

static void check_row(const struct row *row)
{
	auto_facts struct facts facts = { 0 };
	auto_package struct package package = { .dir = ROOT_NONE };
	auto_plan struct plan plan = { 0 };
	struct holders holders = { 0 };
	struct err err = { 0 };
	make_facts(row, &facts);
	make_resident(row, &facts.existing_driver);
	make_holder(row, &holders);
	if (row->package)
		make_package(row, &package);
	struct request request = { .driver = row->request_driver,
				   .flavour = row->request_flavour,
				   .digest = row->digest,
				   .is_named = row->is_named,
				   .is_compile_forbidden = row->is_compile_forbidden,
				   .host_driver = row->host_driver,
				   .is_retry = row->is_retry,
				   .holders = row->holders };
	auto_optional_modules struct optional_modules failed = { 0 };
	auto_module_params struct module_params params = { 0 };
	make_failed(row, &failed);
	if (row->forbidden)
		strv_split(&params.forbidden, row->forbidden, ",");
	struct at_hand at_hand = { .package = row->package ? &package : NULL,
				   .params = row->forbidden ? &params : NULL,
				   .source_version = row->source,
				   .failed = row->failed ? &failed : NULL,
				   .payload = row->payload,
				   .export_why = row->export_why,
				   .payload_why_not = row->payload_why_not,
				   .source_flavours = row->source ? MODULE_TYPE_OPEN | MODULE_TYPE_PROPRIETARY : 0 };
	int r = plan_make(&facts, &request, &at_hand, &holders, &plan, &err);
	holders_done(&holders);
	if (row->code) {
		if (r >= 0 || err.code != row->code)
			fail_msg("%s: got %d %s, not %s", row->name, r, r < 0 ? err.text : "no refusal",
				 err_info(row->code)->name);
		expect(row->code != E_HOST_DRIVER || (strstr(err.text, " (open, from lib/modules/6/nvidia.ko) is ") &&
						      strstr(err.text, "--host-driver ")),
		       row->name);
		return;
	}
	if (r < 0)
		fail_msg("%s: %s", row->name, err.text);
	check_plan(row, &plan);
}
