// SPDX-License-Identifier: Apache-2.0
// An install as a whole, on copies of the recorded machines: what is decided, and what is left out where it is not
// needed.
#include "transaction/session.h"

#include "base/file/copy.h"
#include "host/facts.h"
#include "journal/node_lock.h"
#include "precompiled/package/package.h"
#include "tests/unit/forge.h"
#include "tests/unit/tempdir.h"

static const char DRIVER[] = "535.261.03", KERNEL[] = "6.1.0-56-cloud-amd64";

struct fixture {
	struct folder folder;
	struct root host;
	struct sys sys;
	struct node node;
	struct strv from;
	char *source, *payload;
	struct request request;
	struct session_caller caller;
	unsigned checks, states, repositories; // how often each was called for
	bool was_locked;                       // when the first of them was
	char phases[256];                      // as they ended
};

// The lock of this node, which the session takes before it reads what is loaded. Whoever had it until then has just
// unloaded the driver, where a test says so.
static struct {
	const struct root *unloads_on;
	unsigned taken;
} lock;

int node_lock_take(const struct root *host, enum node_lock which, struct err *err)
{
	(void)which;
	static const char *const modules[] = { "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia" };
	for (size_t i = 0; lock.unloads_on && i < ARRAY_SIZE(modules); i++) {
		auto_str char *dir = str_fmt("sys/module/%s", modules[i]);
		assert_true(root_rmtree(lock.unloads_on, dir, err) >= 0);
	}
	lock.taken++;
	return root_open(host, ".", O_RDONLY | O_DIRECTORY, err);
}

static int check_inputs(void *ctx, struct err *err)
{
	struct fixture *n = ctx;
	(void)err;
	n->was_locked = lock.taken;
	n->checks++;
	return 0;
}

static int open_state(void *ctx, struct root *ret, struct err *err)
{
	struct fixture *n = ctx;
	n->states++;
	folder_dir(&n->folder, "state");
	return root_sub(&n->folder.root, "state", ret, err);
}

static int open_repositories(void *ctx, const struct root *state, struct fetch *ret, struct err *err)
{
	static const struct repository_options options = { 0 };
	struct fixture *n = ctx;
	(void)err;
	n->repositories++;
	*ret = (struct fetch){ .from = &n->from, .options = &options, .is_unverified = true, .state = state };
	return 0;
}

static void add_phase(void *ctx, const struct phase *ended)
{
	struct fixture *n = ctx;
	size_t len = strlen(n->phases);
	snprintf(n->phases + len, sizeof(n->phases) - len, "%s ", ended->name);
}

// A copy of tests/hosts/NAME, asked for DRIVER from a repository that cannot be reached.
static void node_make(struct fixture *n, const char *name)
{
	struct err err;
	auto_root struct root hosts = ROOT_NONE;
	memset(&lock, 0, sizeof(lock));
	*n = (struct fixture){ .host = ROOT_NONE };
	folder_make(&n->folder);
	assert_int_equal(root_init(&hosts, "tests/hosts", &err), 0);
	expect(copy_tree(&hosts, name, &n->folder.root, "host", &err) == 0, err.text);
	assert_int_equal(root_sub(&n->folder.root, "host", &n->host, &err), 0);
	n->sys = sys_recorder(&n->host);
	strv_add(&n->from, str_fmt("oci:%s/packages", n->folder.path));
	n->node = (struct node){ .host = &n->host, .kern = &n->host, .dev_root = &n->host, .sys = &n->sys };
	n->request = (struct request){ .driver = DRIVER, .unload_timeout_ms = 1000 };
	n->caller = (struct session_caller){
		.node = &n->node,
		.is_unverified = true,
		.progress = { .phase = add_phase, .ctx = n },
		.check_inputs = check_inputs,
		.open_state = open_state,
		.open_repositories = open_repositories,
		.ctx = n,
	};
}

static void node_done(struct fixture *n)
{
	strv_done(&n->request.modules);
	strv_done(&n->from);
	free(n->source);
	free(n->payload);
	root_done(&n->host);
	folder_done(&n->folder);
}
#define auto_node __attribute__((cleanup(node_done)))

static void add_module(const struct fixture *n, const char *name, const struct forge_symver *exports,
		       const struct forge_symver *imports)
{
	struct forge_module ko = { .name = name,
				   .vermagic = "6.1.0-56-cloud-amd64 SMP preempt mod_unload ",
				   .license = "Dual MIT/GPL",
				   .extra = "version=535.261.03\0srcversion=ABCDEF0123456789ABCDEF0\0",
				   .exports = exports,
				   .imports = imports,
				   .has_no_versions = true };
	size_t len;
	auto_str char *data = forge_ko(&ko, &len), *path = str_fmt("modules/%s.ko", name);
	tempdir_data(&n->folder, path, data, len);
}

// The repository gets a package of two modules.
static void add_package(struct fixture *n, const char *driver, const char *kernel)
{
	static const struct forge_symver symbols[] = { { .name = "nvidia_register_module" }, { 0 } };
	struct err err;
	auto_root struct root dir = ROOT_NONE, at = ROOT_NONE;
	auto_layout struct layout l = LAYOUT_NONE;
	auto_package struct package made = PACKAGE_NONE;
	auto_package_key struct package_key key = { .driver = str_dup(driver),
						    .flavour = str_dup("open"),
						    .release = str_dup(kernel),
						    .arch = str_dup("x86_64") };
	char core[] = "nvidia.ko", uvm[] = "nvidia-uvm.ko", core_module[] = "nvidia", uvm_module[] = "nvidia-uvm",
	     srcversion[] = "ABCDEF0123456789ABCDEF0";
	struct package_file files[] = { { .name = core, .module = core_module, .srcversion = srcversion },
					{ .name = uvm, .module = uvm_module, .srcversion = srcversion } };
	strv_add(&key.modules, str_dup("nvidia"));
	strv_add(&key.modules, str_dup("nvidia-uvm"));
	add_module(n, "nvidia", symbols, NULL);
	add_module(n, "nvidia-uvm", NULL, symbols);
	folder_dir(&n->folder, "packages");
	assert_int_equal(root_sub(&n->folder.root, "packages", &at, &err), 0);
	assert_int_equal(root_sub(&n->folder.root, "modules", &dir, &err), 0);
	assert_int_equal(layout_make(&at, &l, &err), 0);
	expect(package_create(&l, &dir, &key, files, 2, &made, &err) == 0, err.text);
	strv_add(&n->request.modules, str_dup("nvidia"));
	strv_add(&n->request.modules, str_dup("nvidia-uvm"));
}

static void copy_path(const struct fixture *n, const struct root *from, const char *path)
{
	struct err err;
	auto_str char *to = str_fmt("host/%s", path);
	tempdir_parent(&n->folder, to);
	root_rmtree(&n->host, path, &err);
	expect(copy_entry(from, path, &n->host, path, &err) == 0, err.text);
}

// A machine without a driver that looks, once modules are loaded, as the driver makes it look.
static void make_loadable(struct fixture *n)
{
	struct err err;
	auto_root struct root loaded = ROOT_NONE;
	auto_strv struct strv gpus = { 0 };
	node_make(n, "h100x2-unloaded");
	assert_int_equal(root_init(&loaded, "tests/hosts/h100x8", &err), 0);
	copy_path(n, &loaded, "proc/devices");
	copy_path(n, &loaded, "proc/driver/nvidia");
	assert_true(root_list(&n->host, "proc/driver/nvidia/gpus", &gpus, &err) >= 0);
	for (size_t i = 0; i < gpus.count; i++) {
		auto_str char *dir = str_fmt("proc/driver/nvidia/gpus/%s", gpus.items[i]);
		if (!str_eq(gpus.items[i], "0000:40:00.0") && !str_eq(gpus.items[i], "0000:50:00.0"))
			assert_int_equal(root_rmtree(&n->host, dir, &err), 1);
	}
	tempdir_write(&n->folder, "host/lib/modules/6.1.0-56-cloud-amd64/config",
		      "CONFIG_MODULES=y\nCONFIG_X86_64=y\nCONFIG_SMP=y\nCONFIG_PREEMPT_BUILD=y\n"
		      "CONFIG_MODULE_UNLOAD=y\n");
	tempdir_write(&n->folder, "host/lib/firmware/nvidia/535.261.03/gsp_ga10x.bin", "gsp\n");
	add_package(n, DRIVER, KERNEL);
}

static bool is_loaded(const struct fixture *n, const char *module)
{
	auto_str char *path = str_fmt("sys/module/%s/initstate", module);
	return root_exists(&n->host, path);
}

// R-P11: nothing is taken, made or asked where nothing is to be served.
static void no_gpu(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_node struct fixture n;
	auto_session struct session s = SESSION_NONE;
	node_make(&n, "no-gpu");
	expect(session_open(&n.caller, &n.request, true, &s, &err) == 0, err.text);
	assert_int_equal(s.plan.outcome, PLAN_NO_GPU);
	assert_int_equal(lock.taken + n.checks + n.states + n.repositories, 0);
	assert_int_equal(s.lock, -1);
	assert_false(root_exists(&n.host, "run"));
	assert_false(root_exists(&n.folder.root, "state"));
}

// P1, R-D1: with the requested driver in the kernel nobody is asked and no source is opened; without it both happen.
static void a_loaded_driver_needs_no_repository(void **state)
{
	(void)state;
	static const struct {
		const char *host;
		bool is_asked;
	} rows[] = { { "h100x8", false }, { "h100x2-unloaded", true } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_node struct fixture n;
		auto_session struct session s = SESSION_NONE;
		node_make(&n, rows[i].host);
		tempdir_write(&n.folder, "driver.run", "no driver\n");
		n.source = str_fmt("%s/driver.run", n.folder.path);
		n.request.source = n.source;
		int r = session_open(&n.caller, &n.request, false, &s, &err);
		expect(r == (rows[i].is_asked ? -1 : 0), err.text);
		expect((s.acquire.why_not && strstr(s.acquire.why_not, n.from.items[0])) == rows[i].is_asked,
		       s.acquire.why_not);
		expect((s.source_work.root.fd >= 0) == rows[i].is_asked, rows[i].host);
		expect(rows[i].is_asked || s.plan.outcome == PLAN_ADOPT, rows[i].host);
	}
}

// The facts that a change rests on are those of behind the lock; who only looks takes none.
static void the_lock_comes_first(void **state)
{
	(void)state;
	for (int is_change = 0; is_change < 2; is_change++) {
		struct err err = { 0 };
		auto_node struct fixture n;
		auto_session struct session s = SESSION_NONE;
		node_make(&n, "h100x8");
		lock.unloads_on = &n.host;
		int r = session_open(&n.caller, &n.request, is_change, &s, &err);
		assert_int_equal(lock.taken, is_change);
		assert_int_equal(n.was_locked, is_change);
		assert_int_equal(s.lock >= 0, is_change);
		if (is_change) // it is gone, and there is no package of it
			expect(r == -1 && !s.facts.loaded.count && !s.facts.loaded.version, err.text);
		else
			expect(r == 0 && s.plan.outcome == PLAN_ADOPT, err.text);
	}
}

static void install(struct fixture *n)
{
	struct err err = { 0 };
	auto_session struct session s = SESSION_NONE;
	auto_status struct status status = { 0 };
	expect(session_open(&n->caller, &n->request, true, &s, &err) == 0, err.text);
	expect(session_apply(&s, NULL, &status, &err) == 0, err.text);
	assert_true(is_loaded(n, "nvidia") && is_loaded(n, "nvidia_uvm"));
}

// R-D2: who had a driver does not stay without one; and hears why it is not the requested one.
static void the_last_good_driver_comes_back(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_node struct fixture n;
	make_loadable(&n);
	install(&n);
	assert_true(root_rmtree(&n.host, "sys/module/nvidia_uvm", &err) > 0);
	assert_true(root_rmtree(&n.host, "sys/module/nvidia", &err) > 0);
	n.request.driver = "570.1";
	for (int is_change = 0; is_change < 2; is_change++) {
		auto_session struct session s = SESSION_NONE;
		assert_int_equal(session_open(&n.caller, &n.request, is_change, &s, &err), -1);
		expect(err.code == E_NO_PACKAGE && strstr(err.text, "no package of driver 570.1"), err.text);
		assert_int_equal(is_loaded(&n, "nvidia") && is_loaded(&n, "nvidia_uvm"), is_change);
	}
}

static void add_failure(struct journal *j, const char *digest, const char *kernel, int code)
{
	static const struct driver_state none;
	struct err why;
	auto_driver_state struct driver_state target = { .version = str_dup(DRIVER),
							 .flavour = str_dup("open"),
							 .digest = str_dup(digest),
							 .kernel = str_dup(kernel) };
	err_set(&why, code, "it failed");
	journal_begin(j, "boot", &target, &none);
	journal_failed(j, &why);
}

// A package that failed on this kernel is passed over for others, unless its parameters or a GPU did it.
static void a_failed_package_is_refused(void **state)
{
	(void)state;
	for (int is_retry = 0; is_retry < 2; is_retry++) {
		struct err err = { 0 };
		auto_node struct fixture n;
		auto_facts struct facts f = { 0 };
		auto_journal struct journal j = { 0 };
		auto_root struct root kept = ROOT_NONE;
		auto_session struct session s = SESSION_NONE;
		node_make(&n, "h100x2-unloaded");
		assert_int_equal(facts_read(&n.host, &n.host, &f, &err), 0);
		add_failure(&j, "1111", f.host.build_id, E_LOAD);
		add_failure(&j, "2222", f.host.build_id, E_PARAM);
		add_failure(&j, "3333", f.host.build_id, E_NO_DEVICE);
		add_failure(&j, "4444", "another", E_LOAD);
		folder_dir(&n.folder, "state");
		assert_int_equal(root_sub(&n.folder.root, "state", &kept, &err), 0);
		assert_int_equal(journal_keep(&kept, &kept, false, &j, &err), 0);
		n.request.is_retry = is_retry;
		session_open(&n.caller, &n.request, false, &s, &err);
		auto_str char *refused = strv_join(&s.acquire.refused, " ");
		expect(str_eq(refused, is_retry ? "" : "1111"), refused);
	}
}

// Holders are looked for when something has to be unloaded, and the plan is made again with them.
static void two_plans(void **state)
{
	(void)state;
	static const struct {
		const char *name, *driver;
		enum holders_policy holders;
		int code;
		bool is_looked_for;
	} rows[] = {
		{ "the loaded driver", "535.261.03", HOLDERS_REFUSE, 0, false },
		{ "another one, refuse", "550.1", HOLDERS_REFUSE, E_IN_USE, true },
		{ "another one, wait", "550.1", HOLDERS_WAIT, 0, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_node struct fixture n;
		auto_session struct session s = SESSION_NONE;
		node_make(&n, "held");
		add_package(&n, "550.1", "6.1.0-50-cloud-amd64");
		n.request.driver = rows[i].driver;
		n.request.holders = rows[i].holders;
		n.request.host_driver = HOST_REPLACE;
		int r = session_open(&n.caller, &n.request, false, &s, &err);
		expect(r == (rows[i].code ? -1 : 0) && (r == 0 || err.code == rows[i].code), err.text);
		expect((s.holders.count > 0) == rows[i].is_looked_for, rows[i].name);
		expect(plan_has(&s.plan, STEP_UNLOAD) == (r == 0 && rows[i].is_looked_for), rows[i].name);
	}
}

// What is exported elsewhere serves until its successor is in place; where nothing is to be exported it goes first. A
// recorded machine has no mounts: the one cannot be withdrawn, the other cannot be made.
static void a_former_driver_root_is_withdrawn_last(void **state)
{
	(void)state;
	static const struct {
		const char *driver_root, *phases;
		bool is_withdrawn_first;
	} rows[] = { { "none", "detect ", true }, { "/run/elsewhere", "detect payload adopt nodes export ", false } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_node struct fixture n;
		auto_facts struct facts f = { 0 };
		auto_session struct session s = SESSION_NONE;
		auto_status struct status status = { 0 };
		struct image_dir is = { .bytes = 1 };
		auto_root struct root payload = ROOT_NONE;
		node_make(&n, "h100x8");
		assert_int_equal(facts_read(&n.host, &n.host, &f, &err), 0);
		auto_str char *record =
			str_fmt("{\"boot\": \"%s\", \"dir\": \"run/nvidia/driver\", \"driver\": \"%s\", "
				"\"payload\": \"11\", \"generation\": 1}",
				f.host.boot_id, DRIVER);
		tempdir_write(&n.folder, "host/run/kmodsmith/export.json", record);
		folder_dir(&n.folder, "payload/root/usr");
		assert_int_equal(root_sub(&n.folder.root, "payload", &payload, &err), 0);
		char driver[] = "535.261.03", arch[] = "x86_64";
		is.driver = driver;
		is.arch = arch;
		digest_data("payload", 7, is.digest);
		assert_int_equal(image_dir_write(&payload, IMAGE_DIR_DOCUMENT, &is, &err), 0);
		n.payload = str_fmt("%s/payload", n.folder.path);
		n.request.payload = n.payload;
		n.request.driver_root = rows[i].driver_root;
		expect(session_open(&n.caller, &n.request, true, &s, &err) == 0, err.text);
		assert_string_equal(s.driver_root.former, "run/nvidia/driver");
		expect(session_apply(&s, NULL, &status, &err) == -1, rows[i].driver_root);
		expect(!strstr(err.text, "nothing is withdrawn") == !rows[i].is_withdrawn_first, err.text);
		expect(str_eq(n.phases, rows[i].phases), n.phases);
		assert_string_equal(s.driver_root.former, "run/nvidia/driver");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_gpu),
		cmocka_unit_test(a_loaded_driver_needs_no_repository),
		cmocka_unit_test(the_lock_comes_first),
		cmocka_unit_test(the_last_good_driver_comes_back),
		cmocka_unit_test(a_failed_package_is_refused),
		cmocka_unit_test(two_plans),
		cmocka_unit_test(a_former_driver_root_is_withdrawn_last),
	};
	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
