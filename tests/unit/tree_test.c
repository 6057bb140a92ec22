// SPDX-License-Identifier: Apache-2.0
// Trees as Debian, Ubuntu, the Red Hat family, SUSE and Flatcar lay them out, and what is wrong with them in the field.
#include "tests/unit/test.h"

#include "base/process/proc.h"
#include "kmod/kernel_tree/headers.h"

#include <sys/wait.h>

#define CONFIG                                                                                             \
	"CONFIG_X86_64=y\nCONFIG_CC_IS_GCC=y\nCONFIG_GCC_VERSION=120200\n# CONFIG_PREEMPT_RT is not set\n" \
	"CONFIG_CC_VERSION_TEXT=\"gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0\"\n"
#define BANNER                                                                                                    \
	"Linux version 6.1.0-9-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld " \
	"2.40) "                                                                                                  \
	"#1 SMP PREEMPT_DYNAMIC Debian 6.1.27-1 (2023-05-08)"

static void put(const struct folder *folder, const char *dir, const char *file, const char *text)
{
	auto_str char *path = str_fmt("%s/%s", dir, file), *parent = str_dup(path);
	*strrchr(parent, '/') = '\0';
	folder_dir(folder, parent);
	folder_file(folder, path, text);
}

static void put_config(const struct folder *folder, const char *build, const char *release)
{
	auto_str char *uts = str_fmt("#define UTS_RELEASE \"%s\"\n", release);
	put(folder, build, ".config", CONFIG);
	put(folder, build, "Module.symvers", "0x1\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n");
	put(folder, build, "include/generated/utsrelease.h", uts);
	put(folder, build, "include/generated/autoconf.h", "");
	put(folder, build, "include/generated/compile.h",
	    "#define UTS_MACHINE\t\t\"x86_64\"\n#define LINUX_COMPILE_BY\t\"debian-kernel\"\n"
	    "#define LINUX_COMPILE_HOST\t\"lists.debian.org\"\n"
	    "#define LINUX_COMPILER\t\t\"gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld 2.40\"\n");
	put(folder, build, "include/generated/utsversion.h",
	    "#define UTS_VERSION \"#1 SMP PREEMPT_DYNAMIC Debian 6.1.27-1 (2023-05-08)\"\n");
}

static void put_debian(const struct folder *folder, const char *release)
{
	auto_str char *build = str_fmt("usr/src/linux-headers-%s", release);
	auto_str char *modules = str_fmt("lib/modules/%s", release), *link = str_fmt("%s/build", modules);
	auto_str char *target = str_fmt("/%s", build), *scripts = str_fmt("%s/scripts", build);
	put_config(folder, build, release);
	put(folder, build, "Makefile", "include /usr/src/linux-headers-6.1.0-9-common/Makefile\n");
	put(folder, build, "include/config/kernel.release", "6.1.27\n");
	put(folder, "usr/src/linux-headers-6.1.0-9-common", "Makefile", "");
	put(folder, "usr/src/linux-headers-6.1.0-9-common", "include/linux/mm.h",
	    "int follow_pte(struct mm_struct *mm,\n\t unsigned long address);\n");
	folder_dir(folder, "usr/lib/linux-kbuild-6.1/scripts");
	folder_dir(folder, modules);
	folder_link(folder, target, link);
	folder_link(folder, "../../lib/linux-kbuild-6.1/scripts", scripts);
	if (!root_exists(&folder->root, "usr/src/linux-headers-6.1.0-9-common/scripts"))
		folder_link(folder, "../../lib/linux-kbuild-6.1/scripts",
			    "usr/src/linux-headers-6.1.0-9-common/scripts");
}

static void test_debian(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_tree struct tree t = { .root = ROOT_NONE };
	struct err err;
	folder_make(&folder);
	put_debian(&folder, "6.1.0-9-amd64");
	assert_int_equal(tree_open(&folder.root, "6.1.0-9-amd64", NULL, &t, &err), 0);
	assert_string_equal(t.build, "/usr/src/linux-headers-6.1.0-9-amd64");
	assert_string_equal(t.source, "/usr/src/linux-headers-6.1.0-9-common");
	assert_string_equal(t.arch, "x86_64");
	assert_string_equal(t.compiler, "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0");
	assert_int_equal(t.compiler_major, 12);
	assert_false(t.is_clang || t.is_rt || t.has_dwarf_crcs);
	assert_string_equal(t.banner, BANNER);
	assert_string_equal(t.symvers, "/usr/src/linux-headers-6.1.0-9-amd64/Module.symvers");
	assert_true(strv_has(&t.dirs, "/usr/lib/linux-kbuild-6.1/scripts"));
	assert_int_equal(t.dirs.count, 3);
	char id[DIGEST_HEX + 1];
	kernel_build_id(BANNER "\n", id);
	assert_string_equal(t.build_id, id);
	assert_int_equal(tree_matches(&t, "include/linux/mm.h", "follow_pte\\([^;]*address\\)", &err), 1);
	assert_int_equal(tree_matches(&t, "include/linux/mm.h", "follow_pfn\\(", &err), 0);
	assert_int_equal(tree_matches(&t, "include/linux/absent.h", "x", &err), 0);
	assert_int_equal(tree_matches(&t, "include/linux/mm.h", "(", &err), -1);
}

// SUSE's kernel-default-devel has the configured tree, kernel-devel the sources.
static void test_suse(void **state)
{
	(void)state;
	static const char build[] = "usr/src/linux-6.4.0-150600.23.7-obj/x86_64/default";
	static const struct {
		const char *makefile, *gone, *said;
	} rows[] = {
		{ "# made by scripts\ninclude ../../../linux-6.4.0-150600.23.7/Makefile\n", NULL, NULL },
		{ "MAKEARGS := -C ../../../linux-6.4.0-150600.23.7\nMAKEARGS += O=x\n", NULL, NULL },
		{ "include ../../../linux-6.4.0-150600.23.7/Makefile\n", "usr/src/linux-6.4.0-150600.23.7",
		  "../linux-6.4.0-150600.23.7', which does not exist" },
		{ "MAKEARGS := -C ../../../linux-6.4.0-150600.23.7\n", "usr/src/linux-6.4.0-150600.23.7",
		  "needs '/lib/modules/6.4.0-150600.23.7-default/source'" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		auto_tree struct tree t = { .root = ROOT_NONE };
		struct err err;
		folder_make(&folder);
		put_config(&folder, build, "6.4.0-150600.23.7-default");
		put(&folder, build, "Makefile", rows[i].makefile);
		folder_dir(&folder, "usr/src/linux-6.4.0-150600.23.7-obj/x86_64/default/scripts");
		put(&folder, "usr/src/linux-6.4.0-150600.23.7", "scripts/x", "");
		folder_dir(&folder, "lib/modules/6.4.0-150600.23.7-default");
		folder_link(&folder, "/usr/src/linux-6.4.0-150600.23.7-obj/x86_64/default",
			    "lib/modules/6.4.0-150600.23.7-default/build");
		folder_link(&folder, "/usr/src/linux-6.4.0-150600.23.7",
			    "lib/modules/6.4.0-150600.23.7-default/source");
		if (rows[i].gone)
			assert_int_equal(root_rmtree(&folder.root, rows[i].gone, &err), 1);
		int r = tree_open(&folder.root, "6.4.0-150600.23.7-default", NULL, &t, &err);
		expect(r == (rows[i].said ? -1 : 0), rows[i].makefile);
		if (rows[i].said) {
			expect(err.code == E_HEADERS_NOT_FOUND && strstr(err.text, rows[i].said), err.text);
			continue;
		}
		assert_string_equal(t.build, "/usr/src/linux-6.4.0-150600.23.7-obj/x86_64/default");
		assert_string_equal(t.source, "/usr/src/linux-6.4.0-150600.23.7");
		assert_int_equal(t.dirs.count, 2);
	}
}

// R-A6: off by one build number, or the same release built twice.
static void test_mismatch(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_tree struct tree t = { .root = ROOT_NONE };
	struct err err;
	folder_make(&folder);
	put_debian(&folder, "6.1.0-9-amd64");
	folder_dir(&folder, "lib/modules/6.1.0-10-amd64");
	folder_link(&folder, "/usr/src/linux-headers-6.1.0-9-amd64", "lib/modules/6.1.0-10-amd64/build");
	assert_int_equal(tree_open(&folder.root, "6.1.0-10-amd64", NULL, &t, &err), -1);
	assert_int_equal(err.code, E_HEADERS_MISMATCH);
	assert_non_null(strstr(err.text, "6.1.0-9-amd64"));
	assert_non_null(strstr(err.text, "6.1.0-10-amd64"));
	assert_int_equal(tree_open(&folder.root, "6.1.0-9-amd64", BANNER "\n", &t, &err), 0);
	static const char other[] = "Linux version 6.1.0-9-amd64 (debian-kernel@lists.debian.org) (x) #2";
	auto_tree struct tree none = { .root = ROOT_NONE };
	assert_int_equal(tree_open(&folder.root, "6.1.0-9-amd64", other, &none, &err), -1);
	assert_int_equal(err.code, E_HEADERS_MISMATCH);
	auto_strv struct strv releases = { 0 };
	assert_int_equal(tree_releases(&folder.root, &releases, &err), 0);
	assert_int_equal(releases.count, 1);
	assert_string_equal(releases.items[0], "6.1.0-9-amd64");
}

static void test_half_trees(void **state)
{
	(void)state;
	static const struct {
		const char *gone, *text;
	} rows[] = {
		{ "usr/src/linux-headers-6.1.0-9-common", "linux-headers-6.1.0-9-common" },
		{ "usr/lib/linux-kbuild-6.1", "linux-kbuild" },
		{ "usr/src/linux-headers-6.1.0-9-amd64/.config", ".config" },
		{ "usr/src/linux-headers-6.1.0-9-amd64/Makefile", "Makefile" },
		{ "usr/src/linux-headers-6.1.0-9-amd64/include/generated/autoconf.h", "autoconf.h" },
		{ "usr/src/linux-headers-6.1.0-9-amd64", "does not exist" },
		{ "usr/src/linux-headers-6.1.0-9-amd64/include", "which kernel" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		auto_tree struct tree t = { .root = ROOT_NONE };
		struct err err;
		folder_make(&folder);
		put_debian(&folder, "6.1.0-9-amd64");
		assert_int_equal(root_rmtree(&folder.root, rows[i].gone, &err), 1);
		expect(tree_open(&folder.root, "6.1.0-9-amd64", NULL, &t, &err) == -1, rows[i].gone);
		expect(err.code == E_HEADERS_NOT_FOUND, err.text);
		expect(strstr(err.text, rows[i].text), err.text);
	}
}

static void test_other_layouts(void **state)
{
	(void)state;
	static const struct {
		const char *build, *link, *target;
	} rows[] = {
		{ "usr/src/kernels/5.14.0-1.el9", NULL, NULL },
		{ "usr/src/linux-headers-5.14.0-1.el9", NULL, NULL },
		{ "usr/src/kernels/5.14.0-1.el9", "lib/modules/5.14.0-1.el9/build",
		  "../../../usr/src/kernels/5.14.0-1.el9" },
		{ "lib/modules/5.14.0-1.el9/build", NULL, NULL },
		{ "usr/lib/modules/5.14.0-1.el9/build", NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		auto_tree struct tree t = { .root = ROOT_NONE };
		struct err err;
		folder_make(&folder);
		put_config(&folder, rows[i].build, "5.14.0-1.el9");
		put(&folder, rows[i].build, "Makefile", "VERSION = 5\n");
		put(&folder, rows[i].build, "scripts/x", "");
		folder_dir(&folder, "lib/modules/5.14.0-1.el9");
		put(&folder, rows[i].build, ".config", CONFIG "CONFIG_GENDWARFKSYMS=y\n");
		if (rows[i].link)
			folder_link(&folder, rows[i].target, rows[i].link);
		expect(tree_open(&folder.root, "5.14.0-1.el9", NULL, &t, &err) == 0, err.text);
		expect(str_eq(t.build + 1, rows[i].build), t.build);
		expect(str_eq(t.source, t.build) && t.dirs.count == 1 && t.has_dwarf_crcs, rows[i].build);
	}
}

// R-A1: each source says why it was of no use.
static void test_sources(void **state)
{
	(void)state;
	auto_folder struct folder host;
	auto_folder struct folder store;
	auto_tree struct tree t = { .root = ROOT_NONE };
	auto_str char *from = NULL, *name = NULL;
	struct err err;
	folder_make(&host);
	folder_make(&store);
	const struct headers_source sources[] = {
		{ .kind = HEADERS_ROOT, .name = "host", .root = &host.root },
		{ .kind = HEADERS_STORE, .name = "store" },
	};
	assert_int_equal(headers_find(sources, 2, "6.1.0-9-amd64", NULL, &store.root, &t, &from, &err), -1);
	assert_int_equal(err.code, E_HEADERS_NOT_FOUND);
	assert_non_null(strstr(err.text, "host: "));
	assert_non_null(strstr(err.text, "store: "));
	char hex[DIGEST_HEX + 1];
	digest_data("x", 1, hex);
	name = str_fmt("%s/%s", store.path, hex);
	auto_folder struct folder made;
	folder_make(&made);
	put_debian(&made, "6.1.0-9-amd64");
	assert_int_equal(rename(made.path, name), 0);
	assert_int_equal(headers_find(sources, 2, "6.1.0-9-amd64", BANNER, &store.root, &t, &from, &err), 0);
	assert_true(str_starts(from, "store: "));
	tree_done(&t);
	assert_int_equal(headers_find(sources, 2, "6.1.0-9-amd64", "Linux version other", &store.root, &t, &from, &err),
			 -1);
	assert_int_equal(err.code, E_HEADERS_MISMATCH);
}

struct bringer {             // into the header store
	const char *release; // of the tree; NULL = none
	int code;            // why there is none
	int asked;
};

static int bring(void *ctx, const char *release, const struct root *store, char ret_digest[DIGEST_HEX + 1],
		 struct err *err)
{
	struct bringer *b = ctx;
	b->asked++;
	if (!b->release)
		return err_set(err, b->code, "nobody has headers of %s", release);
	auto_folder struct folder made;
	folder_make(&made);
	put_debian(&made, b->release);
	digest_data(b->release, strlen(b->release), ret_digest);
	auto_str char *to = str_fmt("%s/%s", store->name, ret_digest);
	assert_int_equal(rename(made.path, to), 0);
	return 0;
}

// Asked last, and what is brought is looked at as everything else is.
static void test_offer(void **state)
{
	(void)state;
	static const struct {
		const char *brings;
		int why, code;
		const char *text;
	} rows[] = {
		{ "6.1.0-9-amd64", 0, 0, "offer: " },
		{ "6.1.0-10-amd64", 0, E_HEADERS_NOT_FOUND, "offer: " },
		{ NULL, E_HEADERS_NOT_FOUND, E_HEADERS_NOT_FOUND, "6.1.0-9-amd64: offer: nobody has headers of" },
		// Why it could not be asked decides; that there is nobody to ask does not, and comes last.
		{ NULL, E_NETWORK, E_NETWORK, "6.1.0-9-amd64: offer: nobody has headers of" },
		{ NULL, E_NOT_FOUND, E_HEADERS_NOT_FOUND, "; offer: nobody has headers of" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder store;
		auto_tree struct tree t = { .root = ROOT_NONE };
		auto_str char *from = NULL, *again = NULL;
		struct err err = { 0 };
		struct bringer b = { .release = rows[i].brings, .code = rows[i].why };
		struct headers_offer offer = { .bring = bring, .ctx = &b };
		const struct headers_source sources[] = {
			{ .kind = HEADERS_STORE, .name = "store" },
			{ .kind = HEADERS_OFFER, .name = "offer", .offer = &offer },
		};
		folder_make(&store);
		int r = headers_find(sources, 2, "6.1.0-9-amd64", BANNER, &store.root, &t, &from, &err);
		expect((r < 0 ? err.code : r) == rows[i].code, rows[i].text);
		expect(strstr(r < 0 ? err.text : from, rows[i].text), rows[i].text);
		assert_int_equal(b.asked, 1);
		if (r < 0)
			continue;
		tree_done(&t);
		assert_int_equal(headers_find(sources, 2, "6.1.0-9-amd64", BANNER, &store.root, &t, &again, &err), 0);
		assert_int_equal(b.asked, 1); // now the store has it
	}
}

static char *pack_debian(const struct folder *folder, const char *release)
{
	auto_folder struct folder made;
	char *file = str_fmt("%s/headers-%s.tar.gz", folder->path, release);
	struct err err;
	struct proc_end end;
	folder_make(&made);
	put_debian(&made, release);
	const char *argv[] = { "/bin/tar", "-czf", file, "-C", made.path, "lib", "usr", NULL };
	const char *env[] = { "PATH=/usr/bin:/bin", NULL };
	assert_int_equal(proc_must(&(struct proc){ .argv = argv, .env = env }, &end, &err), 0);
	return file;
}

static size_t count_entries(const struct folder *folder)
{
	auto_strv struct strv names = { 0 }, scratch = { 0 };
	struct err err;
	assert_int_equal(root_list(&folder->root, ".", &names, &err), 1);
	root_list(&folder->root, ".tmp", &scratch, &err);
	assert_int_equal(scratch.count, 0);
	return names.count - strv_has(&names, ".tmp");
}

static void test_files(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_folder struct folder store;
	auto_tree struct tree t = { .root = ROOT_NONE };
	auto_str char *from = NULL;
	auto_strv struct strv files = { 0 };
	struct err err;
	char digest[DIGEST_HEX + 1];
	folder_make(&folder);
	folder_make(&store);
	strv_add(&files, pack_debian(&folder, "6.1.0-9-amd64"));
	const struct headers_source source = { .kind = HEADERS_FILES, .name = "--headers", .files = &files };
	assert_int_equal(headers_find(&source, 1, "6.1.0-9-amd64", BANNER, &store.root, &t, &from, &err), 0);
	assert_int_equal(count_entries(&store), 1);
	assert_int_equal(headers_import(&files, &store.root, digest, &err), 0); // not unpacked again
	assert_true(root_exists(&store.root, digest));
	tree_done(&t);
	assert_int_equal(headers_find(&source, 1, "6.1.0-10-amd64", NULL, &store.root, &t, &from, &err), -1);
	assert_int_equal(err.code, E_HEADERS_MISMATCH);
	assert_non_null(strstr(err.text, "6.1.0-9-amd64"));
	assert_non_null(strstr(err.text, "6.1.0-10-amd64"));
}

static void test_damaged_files_leave_nothing(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_folder struct folder store;
	auto_strv struct strv files = { 0 };
	struct err err;
	char digest[DIGEST_HEX + 1];
	folder_make(&folder);
	folder_make(&store);
	strv_add(&files, pack_debian(&folder, "6.1.0-9-amd64"));
	assert_int_equal(truncate(files.items[0], 700), 0);
	assert_int_equal(headers_import(&files, &store.root, digest, &err), -1);
	assert_int_equal(err.code, E_ARCHIVE);
	assert_int_equal(count_entries(&store), 0);
}

// Two processes at the same moment: both succeed, one tree is there, whole.
static void test_two_imports_at_once(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_folder struct folder store;
	auto_strv struct strv files = { 0 };
	auto_tree struct tree t = { .root = ROOT_NONE };
	auto_root struct root stored = ROOT_NONE;
	struct err err;
	char digest[DIGEST_HEX + 1];
	pid_t pids[4];
	folder_make(&folder);
	folder_make(&store);
	strv_add(&files, pack_debian(&folder, "6.1.0-9-amd64"));
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(headers_import(&files, &store.root, digest, &err) < 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		int status = -1;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(headers_import(&files, &store.root, digest, &err), 0);
	assert_int_equal(count_entries(&store), 1);
	assert_int_equal(root_sub(&store.root, digest, &stored, &err), 0);
	assert_int_equal(tree_open(&stored, "6.1.0-9-amd64", NULL, &t, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_debian),
		cmocka_unit_test(test_suse),
		cmocka_unit_test(test_mismatch),
		cmocka_unit_test(test_half_trees),
		cmocka_unit_test(test_other_layouts),
		cmocka_unit_test(test_sources),
		cmocka_unit_test(test_offer),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_damaged_files_leave_nothing),
		cmocka_unit_test(test_two_imports_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
