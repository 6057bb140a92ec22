// SPDX-License-Identifier: Apache-2.0
// What an agent reports about the kernel and the disk: whose driver is loaded, and which of the given names are
// complete for the running kernel (T36, T42). The recorded machine h100x8, which runs 535.261.03 (open), with
// packages in its store.
#include "base/file/copy.h"
#include "cluster/agent/observe.h"
#include "host/existing_driver.h"
#include "precompiled/package/package.h"
#include "precompiled/store/store.h"
#include "tests/unit/tempdir.h"

#define RUNS "535.261.03"
#define SRCVERSION "B5C8059AF6B6CFDF45E832F"
static const char NOTED[] = "{\"boot_id\": \"BOOT\", \"modules\": {\"nvidia\": \"" SRCVERSION "\"}}";

struct fixture {
	struct folder folder;
	struct root machine, kept;
	struct strv params;
};

static void node_make(struct fixture *n, const char *machine)
{
	auto_root struct root hosts = ROOT_NONE;
	struct err err;
	*n = (struct fixture){ .machine = ROOT_NONE, .kept = ROOT_NONE };
	folder_make(&n->folder);
	assert_int_equal(root_init(&hosts, "tests/hosts", &err), 0);
	assert_int_equal(copy_tree(&hosts, machine, &n->folder.root, "m", &err), 0);
	folder_dir(&n->folder, "m/proc/sys/kernel/random");
	folder_file(&n->folder, "m/proc/sys/kernel/random/boot_id", "BOOT\n");
	folder_dir(&n->folder, "m/var/lib/kmodsmith");
	folder_dir(&n->folder, "m/etc/modprobe.d");
	assert_int_equal(root_sub(&n->folder.root, "m", &n->machine, &err), 0);
	assert_int_equal(root_sub(&n->machine, "var/lib/kmodsmith", &n->kept, &err), 0);
}

static void node_done(struct fixture *n)
{
	root_done(&n->machine);
	root_done(&n->kept);
	folder_done(&n->folder);
}
#define auto_node __attribute__((cleanup(node_done)))

// Of its manifest: "sha256:HEX". release: NULL = of the kernel that runs.
static char *put_package(const struct fixture *n, const char *driver, const char *flavour, const char *release,
			 const char *srcversion)
{
	auto_store struct store store = STORE_NONE;
	auto_package struct package p = PACKAGE_NONE;
	auto_package_key struct package_key key = { .driver = str_dup(driver),
						    .flavour = str_dup(flavour),
						    .release = str_dup(release),
						    .arch = str_dup("x86_64") };
	auto_root struct root dir = ROOT_NONE;
	auto_str char *name = str_dup("nvidia.ko"), *module = str_dup("nvidia"), *version = str_dup(srcversion);
	struct package_file file = { .name = name, .module = module, .srcversion = version };
	struct err err;
	if (!release)
		assert_int_equal(root_line(&n->machine, "proc/sys/kernel/osrelease", &key.release, &err), 1);
	strv_add(&key.modules, str_dup("nvidia"));
	folder_dir(&n->folder, "in");
	folder_file(&n->folder, "in/nvidia.ko", driver);
	assert_int_equal(root_sub(&n->folder.root, "in", &dir, &err), 0);
	assert_int_equal(store_open(&n->kept, 0, &store, &err), 0);
	assert_int_equal(package_create(&store.layout, &dir, &key, &file, 1, &p, &err), 0);
	return str_fmt("sha256:%s", p.manifest.digest);
}

static void look(const struct fixture *n, const struct target *const *names, size_t count, struct agent_facts *f,
		 struct target *found)
{
	struct err err;
	const struct node node = { .host = &n->machine, .kern = &n->machine, .state = &n->kept };
	const struct agent_paths at = { .node = &node, .params = &n->params };
	*f = (struct agent_facts){ 0 };
	expect(agent_read_facts(&at, names, count, f, found, &err) == 0, err.text);
	assert_true(f->is_known);
}

// Whose driver it is decides whether somebody may ever take it out: what is none of ours has no name.
static void whose_driver_is_loaded(void **state)
{
	(void)state;
	static const struct {
		const char *text, *machine, *note, *gone;
		const char *in_store; // driver of a package that has this srcversion
		bool is_empty, is_foreign;
		const char *version, *srcversion;
	} rows[] = {
		{ "a run of this boot has noted it", "h100x8", NOTED, NULL, NULL, false, false, RUNS, SRCVERSION },
		{ "it is not known", "h100x8", NULL, NULL, NULL, false, true, RUNS, SRCVERSION },
		{ "a package on the disk has it", "h100x8", NULL, NULL, RUNS, false, false, RUNS, SRCVERSION },
		{ "noted in another boot", "h100x8",
		  "{\"boot_id\": \"BEFORE\", \"modules\": {\"nvidia\": \"" SRCVERSION "\"}}", NULL, NULL, false, true,
		  RUNS, SRCVERSION },
		{ "another build of it was noted", "h100x8",
		  "{\"boot_id\": \"BOOT\", \"modules\": {\"nvidia\": \"AAAAAAAAAAAAAAAAAAAAAAA\"}}", NULL, NULL, false,
		  true, RUNS, SRCVERSION },
		{ "only its helpers are left", "h100x8", NOTED, "m/sys/module/nvidia", NULL, false, true, RUNS, "" },
		{ "no version in /proc: the module's", "h100x8", NOTED, "m/proc/driver/nvidia/version", NULL, false,
		  true, RUNS, SRCVERSION },
		{ "nothing is loaded", "h100x2-unloaded", NOTED, NULL, NULL, true, false, "", "" },
		{ "nouveau is none of the kind", "nouveau", NULL, NULL, NULL, true, false, "", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_node struct fixture n;
		struct agent_facts f;
		struct target found;
		node_make(&n, rows[i].machine);
		if (rows[i].note) {
			folder_dir(&n.folder, "m/run/kmodsmith");
			folder_file(&n.folder, "m/run/kmodsmith/loaded.json", rows[i].note);
		}
		if (rows[i].gone) {
			auto_str char *gone = str_fmt("%s/%s", n.folder.path, rows[i].gone);
			nftw(gone, folder_remove_one_, 16, FTW_DEPTH | FTW_PHYS);
		}
		if (rows[i].in_store)
			free(put_package(&n, rows[i].in_store, "open", NULL, SRCVERSION));
		look(&n, NULL, 0, &f, &found);
		expect(f.is_empty == rows[i].is_empty && f.is_foreign == rows[i].is_foreign, rows[i].text);
		expect(str_eq(f.version, rows[i].version), f.version);
		expect(str_eq(f.srcversion, rows[i].srcversion), f.srcversion);
		bool is_ours = !f.is_empty && !f.is_foreign;
		expect(target_hash_is_set(&f.loaded) == is_ours && (*found.driver != '\0') == is_ours, rows[i].text);
		expect(!is_ours || (str_eq(found.driver, RUNS) && str_eq(found.flavour, "open") && !found.package),
		       rows[i].text);
		auto_str char *release = NULL;
		struct err err;
		assert_int_equal(root_line(&n.machine, "proc/sys/kernel/osrelease", &release, &err), 1);
		expect(str_eq(f.release, release), f.release);
		target_done(&found);
	}
}

enum { NAMES = 5 };
struct name {
	const char *driver, *flavour, *package; // package: "its" = the digest of the first one in the store
	const char *parameters;
};

static const struct row {
	const char *text;
	struct {
		const char *driver, *flavour, *release;
	} packages[4];
	struct name names[NAMES];
	const char *has; // index of each that it says to have
} rows[] = {
	{ "an empty store", { { 0 } }, { { "1.0", "open", NULL, "" } }, "" },
	{ "one of two",
	  { { "1.0", "open", NULL } },
	  { { "2.0", "open", NULL, "" }, { "1.0", "open", NULL, "" } },
	  "1" },
	{ "T42 for another kernel", { { "1.0", "open", "6.1.0-other" } }, { { "1.0", "open", NULL, "" } }, "" },
	{ "another flavour", { { "1.0", "proprietary", NULL } }, { { "1.0", "open", NULL, "" } }, "" },
	{ "whatever flavour",
	  { { "1.0", "proprietary", NULL } },
	  { { "1.0", "", NULL, "" }, { "1.0", "auto", NULL, "" } },
	  "01" },
	{ "by its digest", { { "1.0", "open", NULL } }, { { "1.0", "open", "its", "" } }, "0" },
	{ "by another digest",
	  { { "1.0", "open", NULL } },
	  { { "1.0", "open", "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "" } },
	  "" },
	{ "the same with other parameters is listed once: nothing has to be fetched for them",
	  { { "1.0", "open", NULL } },
	  { { "1.0", "open", NULL, "A=1" }, { "1.0", "open", NULL, "A=2" } },
	  "0" },
	{ "as many as fit, in the order of names",
	  { { "1.0", "open", NULL }, { "2.0", "open", NULL }, { "3.0", "open", NULL }, { "4.0", "open", NULL } },
	  { { "4.0", "open", NULL, "" },
	    { "9.0", "open", NULL, "" },
	    { "1.0", "open", NULL, "" },
	    { "2.0", "open", NULL, "" },
	    { "3.0", "open", NULL, "" } },
	  "023" },
};

static void what_is_staged(void **state)
{
	(void)state;
	for (const struct row *w = rows; w < rows + ARRAY_SIZE(rows); w++) {
		auto_node struct fixture n;
		struct target targets[NAMES] = { 0 }, found;
		const struct target *names[NAMES];
		struct agent_facts f;
		size_t count = 0;
		auto_str char *its = NULL;
		node_make(&n, "h100x2-unloaded");
		for (size_t i = 0; i < ARRAY_SIZE(w->packages) && w->packages[i].driver; i++) {
			char *digest = put_package(&n, w->packages[i].driver, w->packages[i].flavour,
						   w->packages[i].release, NULL);
			free(i ? digest : NULL);
			its = i ? its : digest;
		}
		for (; count < NAMES && w->names[count].driver; count++) {
			const struct name *from = &w->names[count];
			struct target *t = &targets[count];
			snprintf(t->driver, sizeof(t->driver), "%s", from->driver);
			snprintf(t->flavour, sizeof(t->flavour), "%s", from->flavour);
			t->package = str_dup(str_eq(from->package, "its") ? its : from->package);
			t->parameters = str_dup(from->parameters);
			target_name(t);
			names[count] = t;
		}
		look(&n, names, count, &f, &found);
		for (size_t i = 0; i < AGENT_STORED; i++) {
			const struct target_hash none = TARGET_HASH_NONE;
			bool is_there = i < strlen(w->has);
			expect(target_hash_eq(&f.store[i], is_there ? &names[w->has[i] - '0']->target_hash : &none),
			       w->text);
		}
		for (size_t i = 0; i < count; i++)
			target_done(&targets[i]);
		target_done(&found);
	}
}

// Of several names that say as much, the first: it does not change from one look to the next.
static void the_first_of_equal_names_wins(void **state)
{
	(void)state;
	auto_node struct fixture n;
	struct agent_facts f;
	struct target t[] = { { .driver = "1.0" },
			      { .driver = RUNS, .flavour = "auto" },
			      { .driver = RUNS, .flavour = "open" },
			      { .driver = RUNS } },
		      found;
	const struct target *names[ARRAY_SIZE(t)];
	node_make(&n, "h100x8");
	folder_dir(&n.folder, "m/run/kmodsmith");
	folder_file(&n.folder, "m/run/kmodsmith/loaded.json", NOTED);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		t[i].parameters = str_dup("");
		target_name(&t[i]);
		names[i] = &t[i];
	}
	look(&n, names, ARRAY_SIZE(t), &f, &found);
	assert_true(target_hash_eq(&f.loaded, &t[1].target_hash));
	assert_string_equal(found.driver, "");
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		target_done(&t[i]);
	target_done(&found);
}

// A node that cannot be looked at is not one without a driver.
static void unreadable_facts_are_an_error(void **state)
{
	(void)state;
	auto_node struct fixture n;
	struct agent_facts f = { .is_known = true, .version = "as it was" };
	struct target found;
	struct err err = { 0 };
	node_make(&n, "h100x8");
	folder_dir(&n.folder, "m/run");
	tempdir_link(&n.folder, "m/run/modprobe.d", "modprobe.d"); // the parameters that the host gives
	const struct node node = { .host = &n.machine, .kern = &n.machine, .state = &n.kept };
	const struct agent_paths at = { .node = &node, .params = &n.params };
	assert_int_equal(agent_read_facts(&at, NULL, 0, &f, &found, &err), -1);
	assert_true(str_eq(f.version, "as it was") && *err.text);
	assert_true(!*found.driver && !found.parameters);
}

// What the node's own files no longer say holds nobody up.
static void damaged_state_is_no_error(void **state)
{
	(void)state;
	static const char *const files[] = { "store/index.json", "store/oci-layout", "journal", "roots.json" };
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		auto_node struct fixture n;
		struct agent_facts f = { 0 };
		struct target found;
		struct err err = { 0 };
		auto_str char *file = str_fmt("m/var/lib/kmodsmith/%s", files[i]);
		node_make(&n, "h100x8");
		folder_dir(&n.folder, "m/var/lib/kmodsmith/store/blobs/sha256");
		folder_dir(&n.folder, file);
		const struct node node = { .host = &n.machine, .kern = &n.machine, .state = &n.kept };
		const struct agent_paths at = { .node = &node, .params = &n.params };
		expect(agent_read_facts(&at, NULL, 0, &f, &found, &err) == 0 && f.is_known, files[i]);
		target_done(&found);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whose_driver_is_loaded),        cmocka_unit_test(what_is_staged),
		cmocka_unit_test(the_first_of_equal_names_wins), cmocka_unit_test(unreadable_facts_are_an_error),
		cmocka_unit_test(damaged_state_is_no_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
