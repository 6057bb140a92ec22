// SPDX-License-Identifier: Apache-2.0
// What a node has, in a policy's terms: the recorded machine h100x8, which runs 535.261.03 (open), with other names
// for the same driver and for others. T36, T39.
#include "base/file/copy.h"
#include "cluster/agent/observe.h"
#include "journal/journal.h"
#include "precompiled/package/package.h"
#include "precompiled/store/store.h"
#include "precompiled/trust/provenance.h"
#include "tests/unit/test.h"

enum { MOST = 4 };
struct name {
	const char *driver, *flavour, *package, *parameters;
};
static const struct row {
	const char *text;
	struct name names[MOST];
	int loaded; // index; -1: it gets a name of its own
} rows[] = {
	{ "no name at all", { { 0 } }, -1 },
	{ "its name", { { "535.261.03", "open", NULL, "" } }, 0 },
	{ "whatever flavour", { { "535.261.03", "", NULL, "" } }, 0 },
	{ "whatever flavour, in a word", { { "535.261.03", "auto", NULL, "" } }, 0 },
	{ "another flavour", { { "535.261.03", "proprietary", NULL, "" } }, -1 },
	{ "another version", { { "535.216.03", "open", NULL, "" } }, -1 },
	{ "the second one", { { "535.216.03", "open", NULL, "" }, { "535.261.03", "open", NULL, "" } }, 1 },
	{ "with a parameter that it has", { { "535.261.03", "open", NULL, "NVreg_EnableMSI=1" } }, 0 },
	{ "with a parameter that is another", { { "535.261.03", "open", NULL, "NVreg_EnableMSI=0" } }, -1 },
	{ "with a parameter of a module", { { "535.261.03", "open", NULL, "nvidia:NVreg_EnableMSI=0" } }, -1 },
	{ "the most specific of several",
	  { { "535.216.03", "open", NULL, "" },
	    { "535.261.03", "open", NULL, "" },
	    { "535.261.03", "open", NULL, "NVreg_EnableMSI=1" } },
	  2 },
	{ "but what worked before comes first",
	  { { "535.261.03", "open", NULL, "" }, { "535.261.03", "open", NULL, "NVreg_EnableMSI=1" } },
	  0 },
	{ "T39 a package that is not recorded as loaded",
	  { { "535.261.03", "open", "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "" } },
	  -1 },
};

static void check(const struct row *w, const struct root *machine, const struct root *state)
{
	struct target targets[MOST] = { 0 }, found;
	const struct target *names[MOST];
	struct agent_facts f = { 0 };
	struct err err;
	size_t count = 0;
	for (; count < MOST && w->names[count].driver; count++) {
		struct target *t = &targets[count];
		snprintf(t->driver, sizeof(t->driver), "%s", w->names[count].driver);
		snprintf(t->flavour, sizeof(t->flavour), "%s", w->names[count].flavour);
		t->package = str_dup(w->names[count].package);
		t->parameters = str_dup(w->names[count].parameters);
		target_name(t);
		names[count] = t;
	}
	const struct strv none = { 0 };
	const struct node node = { .host = machine, .kern = machine, .state = state };
	const struct agent_paths at = { .node = &node, .params = &none };
	expect(agent_read_facts(&at, names, count, &f, &found, &err) == 0, w->text);
	expect(f.is_known && !f.is_empty, w->text);
	expect(str_eq(f.version, "535.261.03") && str_eq(f.srcversion, "B5C8059AF6B6CFDF45E832F"), w->text);
	expect(!target_hash_is_set(&f.store[0]), w->text);
	struct target own = { .driver = "535.261.03", .flavour = "open", .parameters = str_dup("") };
	target_name(&own);
	const struct target *wanted = w->loaded < 0 ? &own : names[w->loaded];
	expect(target_hash_eq(&f.loaded, &wanted->target_hash), w->text);
	expect((*found.driver != '\0') == (w->loaded < 0), w->text);
	target_done(&own);
	target_done(&found);
	for (size_t i = 0; i < count; i++)
		target_done(&targets[i]);
}

static void make_machine(struct folder *folder, struct root *machine, struct root *kept)
{
	auto_root struct root hosts = ROOT_NONE;
	struct err err;
	folder_make(folder);
	assert_int_equal(root_init(&hosts, "tests/hosts", &err), 0);
	assert_int_equal(copy_tree(&hosts, "h100x8", &folder->root, "m", &err), 0);
	// whose driver it is: a run of this boot has noted it
	folder_dir(folder, "m/run/kmodsmith");
	folder_file(folder, "m/run/kmodsmith/loaded.json",
		    "{\"boot_id\": \"BOOT\", \"modules\": {\"nvidia\": \"B5C8059AF6B6CFDF45E832F\"}}");
	folder_dir(folder, "m/proc/sys/kernel/random");
	folder_file(folder, "m/proc/sys/kernel/random/boot_id", "BOOT\n");
	folder_dir(folder, "m/var/lib/kmodsmith");
	folder_dir(folder, "m/etc/modprobe.d");
	assert_int_equal(root_sub(&folder->root, "m", machine, &err), 0);
	assert_int_equal(root_sub(machine, "var/lib/kmodsmith", kept, &err), 0);
}

static void t36_t39_names(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_root struct root machine = ROOT_NONE, kept = ROOT_NONE;
	make_machine(&folder, &machine, &kept);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i], &machine, &kept);
}

#define COHERENT "nvidia:NVreg_CoherentGPUMemoryMode=driver"

// What was given is told by the record of the load alone: MSI is on by itself, and the kernel shows 1 either way.
static const struct given_row {
	const char *text;
	const char *options, *boot; // of the record; of nvidia_uvm it is also in the argument
	const char *target;         // parameters
	const char *modprobe, *own; // what every load on this node gets
	const char *loaded;         // parameters of the name that it has; NULL = the target's
} given_rows[] = {
	{ "nothing was given", NULL, "BOOT", "", NULL, NULL, NULL },
	{ "a parameter of the target was set", "nvidia:NVreg_EnableMSI=1", "BOOT", "NVreg_EnableMSI=1", NULL, NULL,
	  NULL },
	{ "a dropped parameter is a change", "nvidia:NVreg_EnableMSI=1", "BOOT", "", NULL, NULL,
	  "nvidia:NVreg_EnableMSI=1" },
	{ "of a module", "nvidia_uvm:uvm_x=1", "BOOT", "", NULL, NULL, "nvidia_uvm:uvm_x=1" },
	{ "of a module, as people write it", "nvidia_uvm:uvm_x=1", "BOOT", "nvidia-uvm:uvm_x=1", NULL, NULL, NULL },
	{ "one of two", "nvidia:NVreg_B=2\nnvidia:NVreg_EnableMSI=1", "BOOT", "NVreg_EnableMSI=1", NULL, NULL,
	  "nvidia:NVreg_B=2\nnvidia:NVreg_EnableMSI=1" },
	{ "modprobe.d gives it now", "nvidia:NVreg_EnableMSI=1", "BOOT", "", "options nvidia NVreg_EnableMSI=1\n", NULL,
	  NULL },
	{ "the agent gives it to every load", "nvidia:NVreg_EnableMSI=1", "BOOT", "", NULL, "nvidia:NVreg_EnableMSI=1",
	  NULL },
	{ "the record is of another boot", "nvidia:NVreg_EnableMSI=1", "BEFORE", "", NULL, NULL, NULL },
	{ "another value of a parameter that the kernel does not show", "nvidia_uvm:uvm_x=1", "BOOT",
	  "nvidia-uvm:uvm_x=2", NULL, NULL, "nvidia_uvm:uvm_x=1" },
	{ "a parameter never set, which the kernel does not show", NULL, "BOOT", "nvidia-uvm:uvm_x=1", NULL, NULL, "" },
	{ "the same, of a module that is not ours to load", NULL, "BOOT", "other:x=1", NULL, NULL, NULL },
	{ "a record without content", "nonsense", "BOOT", "", NULL, NULL, NULL },
	{ "a parameter set on this node", COHERENT, "BOOT", "", NULL, NULL, COHERENT },
};

// device: of one of its GPUs; NULL = as recorded.
static void check_given(const struct given_row *w, const char *device)
{
	auto_folder struct folder folder;
	auto_root struct root machine = ROOT_NONE, kept = ROOT_NONE;
	auto_journal struct journal journal = { .last_good_boot = str_dup(w->boot) };
	auto_strv struct strv own = { 0 };
	struct agent_facts f = { 0 };
	struct err err;
	make_machine(&folder, &machine, &kept);
	if (w->modprobe)
		folder_file(&folder, "m/etc/modprobe.d/x.conf", w->modprobe);
	if (device)
		folder_file(&folder, "m/sys/bus/pci/devices/0000:40:00.0/device", device);
	if (w->own)
		strv_add(&own, str_dup(w->own));
	journal.last_good = (struct driver_state){ .version = str_dup("535.261.03"), .flavour = str_dup("open") };
	strv_add(&journal.last_good.modules, str_dup("nvidia-uvm"));
	if (w->options)
		strv_split(&journal.last_good.options, w->options, "\n");
	if (w->options && str_starts(w->options, "nvidia_uvm:"))
		driver_state_set_params(&journal.last_good, "nvidia_uvm", strchr(w->options, ':') + 1);
	assert_int_equal(journal_keep(&kept, &kept, false, &journal, &err), 0);
	struct target t = { .driver = "535.261.03", .flavour = "open", .parameters = str_dup(w->target) }, found;
	target_name(&t);
	const struct target *const names[] = { &t };
	const struct node node = { .host = &machine, .kern = &machine, .state = &kept };
	const struct agent_paths at = { .node = &node, .params = &own };
	expect(agent_read_facts(&at, names, 1, &f, &found, &err) == 0, w->text);
	struct target wanted = { .driver = "535.261.03", .flavour = "open" };
	wanted.parameters = str_dup(w->loaded ? w->loaded : w->target);
	target_name(&wanted);
	expect(target_hash_eq(&f.loaded, &wanted.target_hash), w->text);
	expect(!w->loaded || str_eq(found.parameters, w->loaded), w->text);
	target_done(&found);
	target_done(&wanted);
	target_done(&t);
}

static void parameters_given_at_the_load(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(given_rows); i++)
		check_given(&given_rows[i], NULL);
	const struct given_row usual = {
		"the default on a GPU with coherent memory", COHERENT, "BOOT", "", NULL, NULL, NULL
	};
	check_given(&usual, "0x2342\n");
}

static bool is_stored(const struct agent_paths *at, const struct target *t)
{
	struct agent_facts f = { 0 };
	struct target found;
	struct err err;
	assert_int_equal(agent_read_facts(at, &t, 1, &f, &found, &err), 0);
	target_done(&found);
	return target_hash_eq(&f.store[0], &t->target_hash);
}

// What would be refused when it is to be loaded is not whole on the disk: no node is drained for it.
static void an_untrusted_package_is_not_staged(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_root struct root machine = ROOT_NONE, kept = ROOT_NONE, dir = ROOT_NONE;
	auto_store struct store store = STORE_NONE;
	auto_package struct package p = PACKAGE_NONE;
	auto_str char *release = NULL;
	struct err err;
	char driver[] = "550.1", flavour[] = "open", arch[] = "x86_64", module[] = "nvidia", file[] = "nvidia.ko";
	make_machine(&folder, &machine, &kept);
	assert_int_equal(root_line(&machine, "proc/sys/kernel/osrelease", &release, &err), 1);
	folder_dir(&folder, "in");
	folder_file(&folder, "in/nvidia.ko", "bytes");
	assert_int_equal(root_sub(&folder.root, "in", &dir, &err), 0);
	assert_int_equal(store_open(&kept, 0, &store, &err), 0);
	struct package_key key = { .driver = driver, .flavour = flavour, .release = release, .arch = arch };
	strv_add(&key.modules, str_dup("nvidia"));
	struct package_file files = { .name = file, .module = module };
	assert_int_equal(package_create(&store.layout, &dir, &key, &files, 1, &p, &err), 0);
	strv_done(&key.modules);
	struct target t = { .driver = "550.1", .flavour = "open", .parameters = str_dup("") };
	const struct strv none = { 0 };
	const struct node node = { .host = &machine, .kern = &machine, .state = &kept };
	struct agent_paths at = { .node = &node, .params = &none };
	target_name(&t);
	assert_true(is_stored(&at, &t)); // compiled here
	const struct provenance fetched = { .origin = PROVENANCE_FETCHED,
					    .source = (char *)(uintptr_t) "oci:/x",
					    .taken = 1800000000 };
	assert_int_equal(provenance_write(&store.layout, &p.manifest, &fetched, &err), 0);
	assert_true(is_stored(&at, &t)); // without a trust directory nobody was taken away
	folder_dir(&folder, "m/etc/kmodsmith/trust");
	assert_false(is_stored(&at, &t));
	at.is_unverified = true;
	assert_true(is_stored(&at, &t));
	target_done(&t);
}

static void an_empty_store_has_nothing_staged(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_root struct root machine = ROOT_NONE, kept = ROOT_NONE;
	make_machine(&folder, &machine, &kept);
	folder_dir(&folder, "m/var/lib/kmodsmith/store");
	folder_file(&folder, "m/var/lib/kmodsmith/store/oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
	folder_file(&folder, "m/var/lib/kmodsmith/store/index.json", "{\"manifests\":[],\"schemaVersion\":2}");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i], &machine, &kept);
}

static void parameters(void **state)
{
	(void)state;
	struct target t = { .parameters = str_dup("NVreg_A=1\nnvidia-uvm:uvm_x=a:b\nNVreg_B=c:d") };
	auto_strv struct strv words = { 0 };
	target_params(&t, &words);
	auto_str char *text = strv_join(&words, " ");
	assert_string_equal(text, "nvidia:NVreg_A=1 nvidia-uvm:uvm_x=a:b nvidia:NVreg_B=c:d");
	target_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t36_t39_names),
		cmocka_unit_test(parameters_given_at_the_load),
		cmocka_unit_test(an_untrusted_package_is_not_staged),
		cmocka_unit_test(an_empty_store_has_nothing_staged),
		cmocka_unit_test(parameters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
