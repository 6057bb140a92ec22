// SPDX-License-Identifier: Apache-2.0
// plan_make is pure: each row is a machine, a wish and what is at hand, and the steps or the refusal that must follow.
#include "node/plan.h"
#include "tests/unit/test.h"

struct row {
	const char *name;
	unsigned gpus;      // H100s
	uint16_t device;    // 0 = 0x2330
	const char *bound;  // driver of the first GPU
	const char *loaded; // version in the kernel, NULL = none
	enum flavour loaded_flavour;
	const char *loaded_modules; // comma list with underscores
	const char *package;        // version of the package at hand
	const char *srcversion;     // of nvidia in the package; what is loaded has "S1"
	const char *source;         // version of the source at hand
	const char *wish_driver;
	enum flavour wish_flavour;
	bool is_compile_forbidden, is_sig_enforced;
	const char *payload, *export_why, *payload_why_not;     // as in struct at_hand
	const char *holder;                                     // path held by a process
	enum { OURS, HOST_PACKAGE, STALE, INSTALLED } resident; // whose what is loaded is; INSTALLED: version 530.1
	enum host_policy host_driver;
	enum drain_policy holders;
	const char *failed; // optional module that failed in this boot, of the package at hand
	const char *failed_params;
	bool is_retry;
	int code; // of the refusal, 0 = none
	enum plan_outcome outcome;
	const char *driver;  // of the plan; NULL = not looked at
	const char *subject; // of its first step; NULL = not looked at
	const char *why;     // of its unload; NULL = not looked at
	const char *steps;   // "package prove load nodes verify"
};

#define ALL "nvidia,nvidia_uvm,nvidia_modeset"
#define FITS .package = "535.1", .srcversion = "S1"
#define WITHOUT_MODESET                                                                                            \
	.gpus = 2, .loaded = "535.1", .loaded_flavour = FLAVOUR_OPEN, .loaded_modules = "nvidia,nvidia_uvm", FITS, \
	.failed = "nvidia-modeset"
#define LOADED(version) .loaded = (version), .loaded_flavour = FLAVOUR_OPEN, .loaded_modules = ALL
#define HAS(version) .gpus = 2, LOADED(version)

static const struct row rows[] = {
	{ .name = "R-P11: no GPU, no steps", .package = "535.1", .outcome = PLAN_NO_GPU, .steps = "" },
	{ .name = "fresh node with a package",
	  .gpus = 2,
	  .package = "535.1",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "fresh node with a source",
	  .gpus = 2,
	  .source = "535.1",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight compile prove load nodes verify" },
	{ .name = "W1: a source of another driver than the one that is asked for",
	  .gpus = 2,
	  .source = "535.1",
	  .wish_driver = "550.1",
	  .code = E_USAGE },
	{ .name = "W1: beside a driver that works, too",
	  HAS("535.1"),
	  .source = "535.1",
	  .wish_driver = "550.1",
	  .code = E_USAGE },
	{ .name = "a source of another driver is in nobody's way where there is a package",
	  .gpus = 2,
	  .package = "550.1",
	  .source = "535.1",
	  .wish_driver = "550.1",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "and where the driver is loaded",
	  HAS("550.1"),
	  .source = "535.1",
	  .wish_driver = "550.1",
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
	{ .name = "R-I1: the package is preferred to a compile",
	  .gpus = 1,
	  .package = "535.1",
	  .source = "535.1",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "R-D1: equal modules are adopted",
	  HAS("535.1"),
	  FITS,
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
	{ .name = "adopted by version alone",
	  HAS("535.1"),
	  .wish_driver = "535.1",
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
	{ .name = "the missing rest is loaded without an unload",
	  .gpus = 2,
	  .loaded = "535.1",
	  .loaded_flavour = FLAVOUR_OPEN,
	  .loaded_modules = "nvidia",
	  FITS,
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "R-P3: an optional module that failed in this boot is not tried again",
	  WITHOUT_MODESET,
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
	{ .name = "R-P3: it is tried again with other parameters",
	  WITHOUT_MODESET,
	  .failed_params = "fail_malloc=1",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "R-P3: it is tried again when somebody asks for it",
	  WITHOUT_MODESET,
	  .is_retry = true,
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "R-P3: the core is tried whatever was noted",
	  .gpus = 2,
	  .loaded = "535.1",
	  .loaded_flavour = FLAVOUR_OPEN,
	  .loaded_modules = "nvidia,nvidia_modeset",
	  FITS,
	  .failed = "nvidia-uvm",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "another srcversion is a replacement",
	  HAS("535.1"),
	  .package = "535.1",
	  .srcversion = "S2",
	  .outcome = PLAN_CHANGE,
	  .why = "nvidia has srcversion S1, the package's has S2",
	  .steps = "preflight package prove unload load nodes verify" },
	{ .name = "another version is a replacement, proven first",
	  HAS("530.1"),
	  .package = "535.1",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove unload load nodes verify" },
	{ .name = "the other flavour is a replacement",
	  .gpus = 2,
	  .loaded = "535.1",
	  .loaded_flavour = FLAVOUR_PROPRIETARY,
	  .loaded_modules = ALL,
	  .package = "535.1",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove unload load nodes verify" },
	{ .name = "R-D2: a replacement is refused while held",
	  HAS("530.1"),
	  .package = "535.1",
	  .holder = "/dev/nvidia0",
	  .code = E_IN_USE },
	{ .name = "R-D3: holders are waited for, after the proof and before anything goes",
	  HAS("530.1"),
	  .package = "535.1",
	  .holder = "/dev/nvidia0",
	  .holders = DRAIN_WAIT,
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove holders unload load nodes verify" },
	{ .name = "R-D3: whoever comes later is asked to end, too",
	  HAS("530.1"),
	  .package = "535.1",
	  .holders = DRAIN_STOP,
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove holders unload load nodes verify" },
	{ .name = "a held driver that is the wished one is adopted",
	  HAS("535.1"),
	  FITS,
	  .holder = "/dev/nvidia0",
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
	{ .name = "user space is brought before anything is touched, and switched after the nodes",
	  .gpus = 1,
	  .package = "535.1",
	  .payload = "aa",
	  .export_why = "there is none yet",
	  .outcome = PLAN_CHANGE,
	  .steps = "payload preflight package prove load nodes export verify" },
	{ .name = "R-E4: modules and user space are replaced together",
	  .gpus = 1,
	  LOADED("530.1"),
	  .package = "535.1",
	  .payload = "aa",
	  .export_why = "usr is of something else",
	  .outcome = PLAN_CHANGE,
	  .steps = "payload preflight package prove unload load nodes export verify" },
	{ .name = "R-E4: another payload alone needs no unload",
	  .gpus = 1,
	  LOADED("535.1"),
	  FITS,
	  .payload = "aa",
	  .export_why = "usr is of something else",
	  .holder = "/dev/nvidia0",
	  .outcome = PLAN_ADOPT,
	  .steps = "payload adopt nodes export verify" },
	{ .name = "R-D1: an equal export is left alone",
	  .gpus = 1,
	  LOADED("535.1"),
	  FITS,
	  .payload = "aa",
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
	{ .name = "what is compiled now is in no export yet",
	  .gpus = 1,
	  .source = "535.1",
	  .payload = "aa",
	  .outcome = PLAN_CHANGE,
	  .steps = "payload preflight compile prove load nodes export verify" },
	{ .name = "R-E4: no modules beside libraries of another version",
	  .gpus = 1,
	  LOADED("530.1"),
	  .package = "535.1",
	  .payload_why_not = "no source has it",
	  .code = E_NO_PAYLOAD },
	{ .name = "a package that nobody has comes first",
	  .gpus = 1,
	  .wish_driver = "570.1",
	  .payload_why_not = "no source has it",
	  .code = E_NO_PACKAGE },
	{ .name = "R-P8: nouveau owns the GPU",
	  .gpus = 1,
	  .bound = "nouveau",
	  .package = "535.1",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove unbind load nodes verify" },
	{ .name = "R-P8: nova_core owns a GPU and another driver is loaded",
	  .gpus = 2,
	  .bound = "NovaCore",
	  LOADED("530.1"),
	  .package = "535.1",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove unload unbind load nodes verify" },
	{ .name = "R-P8: an adoption releases nobody",
	  .gpus = 2,
	  .bound = "nouveau",
	  LOADED("535.1"),
	  .wish_driver = "535.1",
	  .code = E_BOUND },
	{ .name = "R-P8: somebody else's driver", .gpus = 1, .bound = "pci-stub", .package = "535.1", .code = E_BOUND },
	{ .name = "R-P8: vfio is passed over",
	  .gpus = 2,
	  .bound = "vfio-pci",
	  .package = "535.1",
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "R-P7: Pascal and open modules",
	  .gpus = 1,
	  .device = 0x1bb3,
	  .package = "535.1",
	  .code = E_UNSUPPORTED_GPU },
	{ .name = "R-C1: signing is asked before the compile",
	  .gpus = 1,
	  .source = "535.1",
	  .is_sig_enforced = true,
	  .code = E_SIGNING_REQUIRED },
	{ .name = "a package may be signed, the proof will tell",
	  .gpus = 1,
	  .package = "535.1",
	  .is_sig_enforced = true,
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "compiling is forbidden",
	  .gpus = 1,
	  .source = "535.1",
	  .is_compile_forbidden = true,
	  .code = E_NO_PACKAGE },
	{ .name = "a wished version that nothing offers",
	  .gpus = 1,
	  .wish_driver = "570.1",
	  .package = "535.1",
	  .code = E_NO_PACKAGE },
	{ .name = "nothing says what to install", .gpus = 1, .code = E_USAGE },
#define HOSTS_530                                                                                                \
	.gpus = 2, .loaded = "530.1", .loaded_flavour = FLAVOUR_OPEN, .loaded_modules = ALL, .package = "535.1", \
	.resident = HOST_PACKAGE
	{ .name = "R-Q1: the host's own driver is not replaced by default", HOSTS_530, .code = E_HOST_DRIVER },
	{ .name = "R-Q1: that comes before who holds it", HOSTS_530, .holder = "/dev/nvidia0", .code = E_HOST_DRIVER },
	{ .name = "R-Q1: use keeps it, whatever is wished",
	  HOSTS_530,
	  .wish_driver = "570.1",
	  .wish_flavour = FLAVOUR_PROPRIETARY,
	  .holder = "/dev/nvidia0",
	  .host_driver = HOST_USE,
	  .driver = "530.1",
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
	{ .name = "R-Q1: and tells what the host has not loaded",
	  .gpus = 2,
	  .loaded = "530.1",
	  .loaded_flavour = FLAVOUR_OPEN,
	  .loaded_modules = "nvidia,nvidia_modeset",
	  .resident = HOST_PACKAGE,
	  .host_driver = HOST_USE,
	  .subject = "the host's own driver 530.1 (open, from lib/modules/6/nvidia.ko), without nvidia-uvm",
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
	{ .name = "R-Q1: replace is a replacement like any other",
	  HOSTS_530,
	  .host_driver = HOST_REPLACE,
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove unload load nodes verify" },
	{ .name = "R-Q1: replace does not pass over holders",
	  HOSTS_530,
	  .host_driver = HOST_REPLACE,
	  .holder = "/dev/nvidia0",
	  .code = E_IN_USE },
	{ .name = "R-Q1: the host's own driver that is the wished one is adopted",
	  HAS("535.1"),
	  FITS,
	  .resident = HOST_PACKAGE,
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
	{ .name = "R-Q1: of equal version and not of equal content it is another one",
	  HAS("535.1"),
	  .package = "535.1",
	  .srcversion = "S2",
	  .resident = HOST_PACKAGE,
	  .code = E_HOST_DRIVER },
	{ .name = "R-Q1: a driver that somebody left behind is replaceable",
	  HAS("530.1"),
	  .package = "535.1",
	  .resident = STALE,
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove unload load nodes verify" },
	{ .name = "R-Q1: but stays under use",
	  HAS("530.1"),
	  .package = "535.1",
	  .resident = STALE,
	  .host_driver = HOST_USE,
	  .driver = "530.1",
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
	{ .name = "R-Q1: what the host would load at its next boot is a driver of the host",
	  .gpus = 1,
	  .package = "535.1",
	  .resident = INSTALLED,
	  .code = E_HOST_DRIVER },
	{ .name = "R-Q1: unless it is the wished one",
	  .gpus = 1,
	  .package = "530.1",
	  .resident = INSTALLED,
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "R-Q1: replace loads ours in its place",
	  .gpus = 1,
	  .package = "535.1",
	  .resident = INSTALLED,
	  .host_driver = HOST_REPLACE,
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "R-Q1: use of what is not loaded says so",
	  .gpus = 1,
	  .package = "535.1",
	  .resident = INSTALLED,
	  .host_driver = HOST_USE,
	  .code = E_HOST_DRIVER },
	{ .name = "R-Q1: use on a host without a driver installs",
	  .gpus = 1,
	  .package = "535.1",
	  .host_driver = HOST_USE,
	  .outcome = PLAN_CHANGE,
	  .steps = "preflight package prove load nodes verify" },
	{ .name = "R-P8: nouveau comes before all of it",
	  .gpus = 1,
	  .bound = "nouveau",
	  .package = "535.1",
	  .resident = INSTALLED,
	  .host_driver = HOST_USE,
	  .code = E_BOUND },
	{ .name = "nothing given: what is loaded stays",
	  .gpus = 1,
	  LOADED("535.1"),
	  .outcome = PLAN_ADOPT,
	  .steps = "adopt nodes verify" },
};

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
	if (row->bound)
		f->gpus.items[0].driver = str_dup(row->bound);
	auto_strv struct strv names = { 0 };
	if (row->loaded_modules)
		strv_split(&names, row->loaded_modules, ",");
	f->loaded = (struct loaded){ .version = str_dup(row->loaded), .flavour = row->loaded_flavour };
	f->loaded.items = mem_alloc((names.count + 1) * sizeof(*f->loaded.items));
	for (; f->loaded.count < names.count; f->loaded.count++)
		f->loaded.items[f->loaded.count] =
			(struct loaded_module){ .name = str_dup(names.items[f->loaded.count]),
						.is_driver = true,
						.version = str_dup(row->loaded),
						.srcversion = str_dup("S1") };
}

static void make_resident(const struct row *row, struct resident *r)
{
	if (row->resident == OURS)
		return;
	*r = (struct resident){ .is_foreign = true,
				.is_loaded = row->resident != INSTALLED,
				.is_stale = row->resident == STALE,
				.version = str_dup(row->resident == INSTALLED ? "530.1" : row->loaded),
				.flavour = FLAVOUR_OPEN,
				.file = str_dup(row->resident == STALE ? NULL : "lib/modules/6/nvidia.ko") };
}

static void make_package(const struct row *row, struct package *p)
{
	*p = PACKAGE_NONE;
	p->place = str_dup("oci:/packages");
	p->key.driver = str_dup(row->package);
	p->key.flavour = str_dup("open");
	p->key.release = str_dup("6.1.0-56-cloud-amd64");
	strv_split(&p->key.modules, "nvidia nvidia-uvm nvidia-modeset", " ");
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
		str_add(&steps, "%s%s", i ? " " : "", step_kind_name(plan->steps[i].kind));
		expect(plan->steps[i].subject && *plan->steps[i].subject && plan->steps[i].why && *plan->steps[i].why,
		       row->name);
		if (row->why && plan->steps[i].kind == STEP_UNLOAD)
			expect(strstr(plan->steps[i].why, row->why), plan->steps[i].why);
	}
	expect(plan->outcome == row->outcome, row->name);
	expect(!row->driver || str_eq(plan->driver, row->driver), row->name);
	expect(!row->subject || str_eq(plan->steps[0].subject, row->subject), row->name);
	if (!str_eq(steps, row->steps))
		fail_msg("%s: steps are '%s', not '%s'", row->name, steps, row->steps);
}

static void make_failed(const struct row *row, struct optional *o)
{
	struct err why;
	if (!row->failed)
		return;
	err_set(&why, E_SYMBOL, "nothing exports x");
	optional_add(o, row->failed, row->failed_params ? row->failed_params : "", &why);
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
	make_resident(row, &facts.resident);
	make_holder(row, &holders);
	if (row->package)
		make_package(row, &package);
	struct wish wish = { .driver = row->wish_driver,
			     .flavour = row->wish_flavour,
			     .is_compile_forbidden = row->is_compile_forbidden,
			     .host_driver = row->host_driver,
			     .is_retry = row->is_retry,
			     .holders = row->holders };
	auto_optional struct optional failed = { 0 };
	make_failed(row, &failed);
	struct at_hand at_hand = { .package = row->package ? &package : NULL,
				   .source_version = row->source,
				   .failed = row->failed ? &failed : NULL,
				   .payload = row->payload,
				   .export_why = row->export_why,
				   .payload_why_not = row->payload_why_not,
				   .source_flavours = row->source ? FLAVOUR_OPEN | FLAVOUR_PROPRIETARY : 0 };
	int r = plan_make(&facts, &wish, &at_hand, &holders, &plan, &err);
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

static void plans(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
