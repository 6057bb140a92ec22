// SPDX-License-Identifier: Apache-2.0
// Packages of other kernels: what the labels of one must be before its proof is asked for, what its modules may not say
// otherwise, and which of many is taken.
#include "acquire/acquire.h"
#include "plan/plan.h"

#include "kmod/kernel_tree/compiler.h"
#include "precompiled/package/package.h"
#include "tests/unit/forge.h"
#include "tests/unit/tempdir.h"

#define GCC12 "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"
#define OURS "6.1.0-56-cloud-amd64"

static void compilers(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned major;
		bool is_clang;
	} rows[] = {
		{ GCC12, 12, false },
		{ "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", 11, false },
		{ "GCC: (Debian 12.2.0-14+deb12u1) 12.2.0", 12, false },
		{ "gcc version 8.3.0 (Debian 8.3.0-6)", 8, false },
		{ "Debian clang version 16.0.6 (15~deb12u1)", 16, true },
		{ "gcc", 0, false },
		{ "gcc-12", 0, false },
		{ "(12.2.0", 0, false },
		{ "", 0, false },
		{ NULL, 0, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct compiler c = compiler_parse(rows[i].text);
		expect(c.major == rows[i].major && c.is_clang == rows[i].is_clang, rows[i].text);
	}
	assert_true(compiler_is_same(GCC12, "gcc (Debian 12.3.0-1) 12.3.0"));
	assert_false(compiler_is_same(GCC12, "gcc-13 (Debian) 13.1.0"));
	assert_false(compiler_is_same(GCC12, "clang version 12.0.1"));
	assert_false(compiler_is_same("gcc", "gcc"));
	assert_false(compiler_is_same(NULL, NULL));
}

static void banners(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "Linux version " OURS " (debian-kernel@lists.debian.org) (" GCC12
		  ", GNU ld (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)",
		  GCC12 },
		{ "Linux version 5.14.0-427.el9.x86_64 (mockbuild@x) (gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3), "
		  "GNU "
		  "ld version 2.35.2-43.el9) #1 SMP",
		  "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)" },
		{ "Linux version 4.19.0-27-amd64 (debian-kernel@lists.debian.org) (gcc version 8.3.0 (Debian 8.3.0-6)) "
		  "#1",
		  "gcc version 8.3.0 (Debian 8.3.0-6)" },
		{ "Linux version 6.1 (a@b (c)) (clang version 16.0.6, LLD 16.0.6) #1", "clang version 16.0.6" },
		{ "Linux version 6.1 (a@b) #1 SMP", NULL },
		{ "Linux version 6.1 (a@b) () #1 SMP", NULL },
		{ "Linux version 6.1 (a@b) (gcc", NULL },
		{ "Linux version 6.1 (a@b", NULL },
		{ "", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *got = compiler_of_banner(rows[i][0]);
		expect(rows[i][1] ? str_eq(got, rows[i][1]) : !got, rows[i][0]);
	}
}

static void policies(void **state)
{
	(void)state;
	enum reuse policy;
	for (int i = REUSE_OFF; i <= REUSE_ON; i++) {
		assert_true(reuse_parse(reuse_name((enum reuse)i), &policy));
		assert_int_equal(policy, i);
	}
	assert_false(reuse_parse("yes", &policy));
	assert_false(reuse_parse("", &policy));
}

static void labels(void **state)
{
	(void)state;
	const struct {
		const char *release, *distro, *compiler;
		enum reuse policy;
		const char *why; // part of it; NULL = the proof decides
	} rows[] = {
		{ "6.1.0-55-cloud-amd64", "debian", GCC12, REUSE_SERIES, NULL },
		{ "6.1.0-100-cloud-amd64", "debian", GCC12, REUSE_SERIES, NULL },
		{ "6.1.0-55-cloud-amd64", "debian", GCC12, REUSE_OFF, "--reuse is off" },
		{ "6.12.0-55-cloud-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
		{ "6.12.0-55-cloud-amd64", "debian", GCC12, REUSE_ON, NULL },
		{ "16.1.0-55-cloud-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
		{ "6.1.0-55-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
		{ "6.1.0-55-rt-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
		{ "6.1.0-55-cloud-amd64", "ubuntu", GCC12, REUSE_SERIES, "(ubuntu), not of the series" },
		{ "6.1.0-55-cloud-amd64", NULL, GCC12, REUSE_SERIES, "distribution unknown" },
		{ "6.1.0-55-cloud-amd64", NULL, GCC12, REUSE_ON, NULL },
		{ "6.1.0-55-cloud-amd64", "debian", "gcc-11 (x) 11.1.0", REUSE_ON, "with 'gcc-11 (x) 11.1.0', the" },
		{ "6.1.0-55-cloud-amd64", "debian", NULL, REUSE_ON, "an unknown compiler" },
		{ "cloud-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
		{ "6-cloud-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
	};
	const struct reuse_kernel kernel = { .release = OURS, .distro = "debian", .compiler = GCC12 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_package_key struct package_key key = { .release = str_dup(rows[i].release),
							    .distro = str_dup(rows[i].distro),
							    .compiler = str_dup(rows[i].compiler) };
		auto_str char *why = reuse_why_not(rows[i].policy, &key, &kernel, NULL);
		auto_str char *row = str_fmt("row %zu: %s", i, why ? why : "the proof decides");
		expect(rows[i].why ? why && strstr(why, rows[i].why) : !why, row);
	}
	static const struct {
		const char *made_for, *kernel;
		bool is_same;
	} pages[] = { { "6.8.0-55-arm64-64k", "6.8.0-56-arm64-64k", true },
		      { "6.8.0-55-arm64-64k", "6.8.0-56-arm64-16k", false },
		      { "6.8.0-55-arm64-64k", "6.8.0-56-arm64", false },
		      { "5.14.0-427.el9.aarch64+64k", "5.14.0-503.el9.aarch64+64k", true },
		      { "5.14.0-427.el9.aarch64+64k", "5.14.0-427.el9.aarch64+16k", false },
		      { "5.14.0-64kernel", "5.14.0-65kernel", true } };
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) { // R-O1
		auto_package_key struct package_key made = { .release = str_dup(pages[i].made_for),
							     .distro = str_dup("debian"),
							     .compiler = str_dup(GCC12) };
		const struct reuse_kernel on = { .release = pages[i].kernel, .distro = "debian", .compiler = GCC12 };
		auto_str char *why = reuse_why_not(REUSE_SERIES, &made, &on, NULL);
		expect(!why == pages[i].is_same, pages[i].kernel);
	}
	auto_package_key struct package_key key = { .release = str_dup(OURS), .compiler = str_dup(GCC12) };
	auto_str char *why = reuse_why_not(REUSE_ON, &key, &(struct reuse_kernel){ .release = OURS }, NULL);
	assert_non_null(strstr(why, "the kernel with 'an unknown one'"));
}

#define BUILD "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BANNER "Linux version " OURS " (a@b) (" GCC12 ", GNU ld 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2"
static const char *const releases[] = { "6.1.0-9-cloud-amd64", "6.1.0-54-cloud-amd64", "6.1.0-55-cloud-amd64" };
enum { PACKAGES = ARRAY_SIZE(releases) };

struct fixture {
	struct folder folder;
	struct node node;
	struct request request;
	struct acquire o;
	struct progress progress;
	struct strv modules;
	char hex[PACKAGES][DIGEST_HEX + 1];
};

static void add_package(struct fixture *n, size_t i, uint32_t crc)
{
	auto_str char *vermagic = str_fmt("%s SMP preempt mod_unload modversions ", releases[i]),
		      *dir = str_fmt("in%zu", i), *path = str_fmt("%s/nvidia.ko", dir);
	const struct forge_symver imports[] = { { "module_layout", 1, NULL, false },
						{ "kfree", crc, NULL, false },
						{ 0 } };
	const struct forge_module ko = { .name = "nvidia", .vermagic = vermagic, .imports = imports };
	char module[] = "nvidia", name[] = "nvidia.ko";
	struct package_file file = { .name = name, .module = module };
	auto_package_key struct package_key key = { .driver = str_dup("535.1"),
						    .flavour = str_dup("open"),
						    .release = str_dup(releases[i]),
						    .arch = str_dup("x86_64"),
						    .distro = str_dup("debian"),
						    .compiler = str_dup(GCC12) };
	auto_package struct package p = PACKAGE_NONE;
	auto_root struct root in = ROOT_NONE;
	struct err err = { 0 };
	size_t len;
	auto_str char *data = forge_ko(&ko, &len);
	strv_add(&key.modules, str_dup("nvidia"));
	tempdir_data(&n->folder, path, data, len);
	assert_int_equal(root_sub(&n->folder.root, dir, &in, &err), 0);
	expect(package_create(&n->o.store.layout, &in, &key, &file, 1, &p, &err) == 0, err.text);
	memcpy(n->hex[i], p.manifest.digest, sizeof(n->hex[i]));
}

static void node_make(struct fixture *n, enum reuse policy)
{
	struct err err;
	*n = (struct fixture){ .o = ACQUIRE_NONE };
	folder_make(&n->folder);
	tempdir_write(&n->folder, "proc/sys/kernel/osrelease", OURS "\n");
	tempdir_write(&n->folder, "proc/version", BANNER "\n");
	tempdir_write(&n->folder, "lib/modules/" OURS "/config",
		      "CONFIG_MODULES=y\nCONFIG_X86_64=y\nCONFIG_SMP=y\nCONFIG_PREEMPT_BUILD=y\n"
		      "CONFIG_MODULE_UNLOAD=y\nCONFIG_MODVERSIONS=y\n");
	tempdir_write(&n->folder, "lib/modules/" OURS "/build/Module.symvers",
		      "0x00000001\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
		      "0x00000002\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n");
	n->node = (struct node){ .host = &n->folder.root, .kern = &n->folder.root, .progress = &n->progress };
	n->o.node = &n->node;
	n->o.fetch.state = &n->folder.root;
	n->request.reuse = policy;
	n->o.request = &n->request;
	n->o.banner = BANNER;
	n->o.want = (struct package_want){
		.driver = "535.1", .release = OURS, .build_id = BUILD, .arch = "x86_64", .modules = &n->modules
	};
	assert_int_equal(store_open(&n->folder.root, 0, &n->o.store, &err), 0);
}

static void node_done(struct fixture *n)
{
	acquire_done(&n->o);
	progress_done(&n->progress);
	strv_done(&n->modules);
	folder_done(&n->folder);
}
#define auto_node __attribute__((cleanup(node_done)))

static void which_of_many(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		enum reuse policy;
		uint32_t crcs[PACKAGES];
		const char *refused; // digits: of packages that failed before
		int took;            // -1 = none
		int code;
		const char *why;
	} rows[] = {
		{ "the newest kernel's", REUSE_SERIES, { 2, 2, 2 }, "", 2, 0, NULL },
		{ "the next when that does not fit", REUSE_SERIES, { 2, 2, 7 }, "", 1, 0, NULL },
		{ "the next when that failed here", REUSE_ON, { 2, 2, 2 }, "2", 1, 0, NULL },
		{ "none that fits",
		  REUSE_ON,
		  { 5, 6, 7 },
		  "",
		  -1,
		  E_ABI,
		  "nvidia made for 6.1.0-55-cloud-amd64: 1 CRCs differ: kfree" },
		{ "what a proof says counts most",
		  REUSE_ON,
		  { 2, 6, 2 },
		  "02",
		  -1,
		  E_ABI,
		  "nvidia made for 6.1.0-54-cloud-amd64: 1 CRCs differ: kfree" },
		{ "all failed here", REUSE_SERIES, { 2, 2, 2 }, "012", -1, 0, "failed on this kernel before" },
		{ "not requested", REUSE_OFF, { 2, 2, 2 }, "", -1, 0, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_node struct fixture n;
		auto_package struct package taken = PACKAGE_NONE;
		struct err err = { 0 };
		node_make(&n, rows[i].policy);
		for (size_t k = 0; k < PACKAGES; k++)
			add_package(&n, k, rows[i].crcs[k]);
		for (const char *r = rows[i].refused; *r; r++)
			strv_add(&n.o.refused, str_dup(n.hex[*r - '0']));
		expect(acquire_find_compatible(&n.o, &err) == (rows[i].took >= 0), rows[i].name);
		expect(n.o.code == rows[i].code, rows[i].name);
		expect(rows[i].why ? n.o.why_not && strstr(n.o.why_not, rows[i].why) : !n.o.why_not, rows[i].name);
		expect(!n.o.compatible == (rows[i].took < 0), rows[i].name);
		if (rows[i].took < 0)
			continue;
		expect(str_eq(acquire_found(&n.o)->manifest.digest, n.hex[rows[i].took]), rows[i].name);
		expect(acquire_take(&n.o, &taken, &err) == 0 && root_exists(&taken.dir, "nvidia.ko"), rows[i].name);
	}
}

static void look(struct fixture *n, int want, const char *name)
{
	struct err err = { 0 };
	expect(acquire_find(&n->o, true, &err) == want && !n->o.compatible == !want, name);
	package_done(&n->o.kept);
	free(TAKE(n->o.compatible));
	free(TAKE(n->o.why_not));
}

// What was taken before needs no proof to be found again: that comes before anything is touched.
static void used_for_this_kernel_before(void **state)
{
	(void)state;
	auto_node struct fixture n;
	struct err err;
	node_make(&n, REUSE_SERIES);
	add_package(&n, 1, 2);
	look(&n, 0, "nothing was taken");
	assert_int_equal(store_set_reuse(&n.o.store, OURS, BUILD, n.hex[1], &err), 1);
	look(&n, 1, "taken");
	n.request.reuse = REUSE_OFF;
	look(&n, 0, "and no longer requested");
	n.request.reuse = REUSE_ON;
	n.o.banner = "Linux version " OURS " (a@b) (gcc-13 (x) 13.1.0, GNU ld 2.40) #1 SMP Debian";
	look(&n, 0, "and of another compiler");
	n.o.banner = BANNER;
	n.o.want.build_id = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
	look(&n, 0, "for another build of the kernel");
	n.o.want.build_id = BUILD;
	strv_add(&n.o.refused, str_dup(n.hex[1]));
	look(&n, 0, "and it failed");
}

// The plan says for which kernel a package was made, and why it serves all the same.
static void the_plan_says_so(void **state)
{
	(void)state;
	char release[] = OURS, other[] = "6.1.0-55-cloud-amd64", driver[] = "535.1", flavour[] = "open",
	     place[] = "oci:/p";
	struct gpu gpu = { .kind = GPU_DISPLAY, .class = 0x030200, .device = 0x2330, .address = "0000:40:00.0" };
	const struct facts facts = { .host = { .release = release }, .gpus = { .items = &gpu, .count = 1 } };
	struct package package = { .key = { .driver = driver, .flavour = flavour, .release = release },
				   .place = place };
	const struct request request = { 0 };
	struct at_hand at_hand = { .package = &package };
	auto_plan struct plan own = { 0 }, reused = { 0 };
	struct err err = { 0 };
	expect(plan_make(&facts, &request, &at_hand, NULL, &own, &err) == 0, err.text);
	assert_true(!own.compatible && str_eq(own.steps[1].why, "made for kernel " OURS));
	package.key.release = other;
	at_hand.compatible = "all 315 CRCs equal";
	expect(plan_make(&facts, &request, &at_hand, NULL, &reused, &err) == 0, err.text);
	assert_string_equal(reused.compatible, other);
	assert_string_equal(reused.steps[1].why,
			    "compatible: made for kernel 6.1.0-55-cloud-amd64, all 315 CRCs equal");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compilers),        cmocka_unit_test(banners),
		cmocka_unit_test(policies),         cmocka_unit_test(labels),
		cmocka_unit_test(which_of_many),    cmocka_unit_test(used_for_this_kernel_before),
		cmocka_unit_test(the_plan_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
