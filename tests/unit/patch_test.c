// SPDX-License-Identifier: Apache-2.0
// R-B2: what is known not to compile is refused, what a patch repairs is repaired, and nothing else is touched.
#include "tests/unit/test.h"

#include "base/process/proc.h"
#include "kmod/kernel_tree/toolchain.h"
#include "kmod/sandbox/sandbox.h"
#include "kmod/source/patch.h"

#define WITH_EXCLUDE \
	"int __must_check pci_resize_resource(struct pci_dev *dev, int i, int size,\n\t\t\t int exclude_bars);\n"
#define RESIZE "    /* Attempt to resize BAR1 to the largest supported size */\n"
#define CALL "    r = pci_resize_resource(pci_dev, NV_GPU_BAR1, requested_size"
#define CALL3 RESIZE CALL ");\n\n"
#define CALL4 RESIZE CALL ", 0);\n\n"
#define CALL_BOTH RESIZE "#ifdef HAS_EXCLUDE_BARS\n" CALL ", 0);\n#else\n" CALL ");\n#endif\n\n"
#define CALL_OTHER RESIZE "    r = pci_resize_resource(pci_dev, NV_GPU_BAR1, size);\n\n"
#define WITHOUT "int __must_check pci_resize_resource(struct pci_dev *dev, int i, int size);\nint exclude_bars(void);\n"

static void put(const struct folder *folder, const char *file, const char *text)
{
	auto_str char *parent = str_dup(file);
	*strrchr(parent, '/') = '\0';
	folder_dir(folder, parent);
	folder_file(folder, file, text);
}

// The parts of a tree that conditions look at.
static void tree_make(struct tree *tree, const struct folder *folder)
{
	folder_dir(folder, "src");
	static char release[] = "6.1.0-9-amd64", source[] = "/src";
	*tree = (struct tree){ .root = folder->root, .release = release, .source = source, .build = source };
}

// A source as it is once opened; NULL = folder: as it is when only the beginning of the archive was read.
static struct source source_make(const struct folder *folder, const char *version)
{
	struct source s = { .root = ROOT_NONE, .version = str_dup(version), .flavours = MODULE_TYPE_OPEN };
	struct err err;
	if (folder) {
		folder_dir(folder, "source");
		assert_int_equal(root_sub(&folder->root, "source", &s.root, &err), 0);
	}
	for (size_t i = 1; i < ARRAY_SIZE(s.dirs); i++)
		s.dirs[i] = str_dup(".");
	return s;
}

static void test_builtin_patch(void **state)
{
	(void)state;
	static const struct {
		const char *header, *call, *version;
		size_t count;
	} rows[] = {
		{ WITH_EXCLUDE, CALL3, "535.261.03", 1 },    { WITH_EXCLUDE, CALL3, "550.163.01", 1 },
		{ WITH_EXCLUDE, CALL4, "535.261.03", 0 }, // of a distribution that repaired it
		{ WITH_EXCLUDE, "", "535.261.03", 0 },       { WITH_EXCLUDE, NULL, "535.261.03", 0 }, // not read yet
		{ WITHOUT, CALL3, "535.261.03", 0 },         { "", CALL3, "535.261.03", 0 },
		{ WITH_EXCLUDE, CALL_BOTH, "595.45.04", 0 }, // knows both
		{ WITH_EXCLUDE, CALL_OTHER, "600.10", 0 },   // the patch would not apply
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		auto_patches struct patches patches = { 0 };
		struct tree tree;
		struct err err;
		folder_make(&folder);
		tree_make(&tree, &folder);
		put(&folder, "src/include/linux/pci.h", rows[i].header);
		put(&folder, "source/nvidia/nv-pci.c", rows[i].call ? rows[i].call : "");
		auto_source struct source source = source_make(rows[i].call ? &folder : NULL, rows[i].version);
		assert_int_equal(patches_choose(NULL, &source, MODULE_TYPE_OPEN, &tree, &patches, &err), 0);
		expect(patches.count == rows[i].count, rows[i].version);
		expect(!patches.count || str_eq(patches.items[0].name, "pci_resize_resource.patch"), rows[i].version);
	}
}

static void test_known_bad_pairs(void **state)
{
	(void)state;
	enum { BLOB, OPEN };
	static const char MM[] = "include/linux/mm.h", TYPES[] = "include/linux/mm_types.h",
			  LIB[] = "scripts/Makefile.lib";
	static const char MAP[] = "include/linux/memremap.h", MODE[] = "include/drm/drm_mode_config.h";
	static const char PFNMAP[] = "int follow_pfnmap_start(struct follow_pfnmap_args *args);\n";
	static const char UNSAFE[] = "int unsafe_follow_pfn(int x);\n", WORD[] = "void vma_flags_set_word(";
	static const char BEFORE[] = "EXTRA_CFLAGS += -I$(src)/common/inc",
			  SINCE[] = "ccflags-y += -I$(src)/common/inc";
	static const char FOLIO[] = "void (*folio_free)(struct folio *folio);\n",
			  PAGE[] = "void (*page_free)(struct page *page);\n";
	static const char FOLIOS[] = "580.126.09 or later of branch 580, or 595.45.04 or later works";
	static const char FORMAT[] = "*(*fb_create)(struct drm_device *dev,\n\tconst struct drm_format_info *info);\n";
	static const struct {
		const char *file, *text; // of the kernel
		const char *version;
		bool is_open;
		const char *probes;
		const char *good;   // the driver that is named; NULL = not refused
		const char *module; // the only one that is wanted; NULL = all
		const char *config;
	} rows[] = {
		{ MM, "int follow_pfn(struct vm_area_struct *vma, unsigned long address,\n", "470.256.02", BLOB, "",
		  NULL, NULL, "" },
		{ MM, PFNMAP, "470.256.02", BLOB, "", "535.216.03", NULL, "" },
		{ MM, UNSAFE, "470.256.02", BLOB, NULL, "535.216.03", NULL, "" },
		{ MM, UNSAFE, "470.256.02", BLOB, "void conftest_unsafe_follow_pfn(void)", "535.216.03", NULL, "" },
		{ MM, PFNMAP, "470.256.02", BLOB, "void conftest_follow_pfn(void) {", NULL, NULL,
		  "" }, // Debian's knows both
		{ MM, PFNMAP, "535.261.03", BLOB, "", NULL, NULL, "" },
		{ TYPES, WORD, "470.256.02", BLOB, "conftest_follow_pfn", "535.309.01", NULL, "" },
		{ TYPES, WORD, "470.256.02", BLOB, "conftest_follow_pfn vma_flags_set_word", NULL, NULL, "" },
		{ LIB, "ccflags-y :=\n", "535.216.03", BLOB, BEFORE, "535.261.03", NULL, "" },
		{ LIB, "ccflags-y :=\n", "535.261.03", BLOB, SINCE, NULL, NULL, "" },
		{ LIB, "ccflags-y :=\n", "470.256.02", BLOB, BEFORE, "535.261.03", NULL, "" },
		{ LIB, "ccflags-y :=\n", "550.90.07", BLOB, BEFORE, "580.105.08", NULL, "" },
		{ LIB, "ccflags-y :=\n", "550.90.07", OPEN, BEFORE, FOLIOS, NULL, "" },
		{ LIB, "ccflags-y += $(EXTRA_CFLAGS)\n", "535.216.03", BLOB, BEFORE, NULL, NULL, "" },
		{ LIB, NULL, "535.216.03", BLOB, BEFORE, NULL, NULL, "" }, // headers without makefiles: nobody knows
		{ MAP, FOLIO, "580.105.08", OPEN, "", FOLIOS, NULL, "" },
		{ MAP, FOLIO, "595.45.04", OPEN, "dev_pagemap_ops_has_folio_free", NULL, NULL, "" },
		{ MAP, FOLIO, "580.126.09", OPEN, "dev_pagemap_ops_has_folio_free", NULL, NULL, "" },
		{ MAP, PAGE, "580.105.08", OPEN, "", NULL, NULL, "" },
		{ MAP, FOLIO, "580.105.08", BLOB, "", NULL, NULL, "" },
		{ "include/linux/iommu.h", "iommu_sva_bind_device(", "550.163.01", OPEN, "", FOLIOS, NULL, "" },
		{ "include/linux/iommu.h", "int iommu_dev_enable_feature(", "550.163.01", OPEN, "", NULL, NULL, "" },
		{ "include/linux/iommu.h", "iommu_sva_bind_device(", "535.261.03", OPEN, "", NULL, NULL, "" },
		{ MODE, FORMAT, "535.261.03", BLOB, "", "535.274.02", NULL, "CONFIG_DRM=m\n" },
		{ MODE, FORMAT, "550.163.01", BLOB, "", "580.105.08", NULL, "CONFIG_DRM=y\n" },
		{ MODE, FORMAT, "550.163.01", BLOB, "drm_fb_create_takes_format_info", NULL, NULL, "CONFIG_DRM=y\n" },
		{ MODE, FORMAT, "550.163.01", BLOB, "", NULL, NULL, "# CONFIG_DRM is not set\n" }, // a cloud kernel
		{ MODE, FORMAT, "550.163.01", BLOB, "", NULL, "uvm", "CONFIG_DRM=y\n" },
		{ MODE, FORMAT, "550.163.01", BLOB, "", "580.105.08", "nvidia-drm", "CONFIG_DRM=y\n" },
		{ MAP, FOLIO, "580.105.08", OPEN, "", NULL, "nvidia", "" },
		{ LIB, "ccflags-y :=\n", "535.216.03", BLOB, BEFORE, "535.261.03", "nvidia", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		struct tree tree;
		struct err err = { 0 };
		folder_make(&folder);
		tree_make(&tree, &folder);
		auto_str char *config = str_dup(rows[i].config), *path = str_fmt("src/%s", rows[i].file);
		tree.config = config;
		if (rows[i].text)
			put(&folder, path, rows[i].text);
		auto_source struct source source = source_make(NULL, rows[i].version);
		source.probes = rows[i].probes ? str_dup(rows[i].probes) : NULL;
		auto_str char *row =
			str_fmt("%s %s for %s", rows[i].file, rows[i].version, rows[i].good ? rows[i].good : "all");
		auto_strv struct strv set = { 0 };
		if (rows[i].module)
			strv_add(&set, str_dup(rows[i].module));
		int r = recipe_check(&source, rows[i].is_open ? MODULE_TYPE_OPEN : MODULE_TYPE_PROPRIETARY, &set, &tree,
				     &err);
		expect(r == (rows[i].good ? -1 : 0), row);
		expect(!rows[i].good || (err.code == E_SOURCE_KERNEL && strstr(err.text, rows[i].good)), err.text);
	}
}

#define CHANGE "--- a/dir/file\n+++ b/dir/file\n@@ -1 +1 @@\n-old\n+new\n"

static void test_user_patches(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int code;
		size_t count; // chosen, the built-in ones not needed
	} rows[] = {
		{ "Driver: 535.*\n" CHANGE, 0, 1 },
		{ "Driver: 5*\nFlavour: both\nWhen: include/x.h ~ present\n\nWhy: because\n" CHANGE, 0, 1 },
		{ "Driver: 535.*\nUnless: include/x.h ~ present\n" CHANGE, 0, 0 },
		{ "Driver: 535.*\nUnless: include/gone.h ~ present\n" CHANGE, 0, 1 },
		{ "Driver: 550.*\n" CHANGE, 0, 0 },
		{ "Driver: *\nSource: nvidia/nv.c ~ old\\(\n" CHANGE, 0, 1 },
		{ "Driver: *\nSource: nvidia/nv.c ~ new\\(\n" CHANGE, 0, 0 },
		{ "Driver: *\nSource: nvidia/gone.c ~ old\\(\n" CHANGE, 0, 0 },
		{ "Driver: *\nSource: nvidia/own.c ~ old\\(\n" CHANGE, 0, 0 }, // the source's own patch changes it
		{ "Driver: *\nSource: nvidia/owner.c ~ old\\(\n" CHANGE, 0, 1 },
		{ "Driver: 535.*\nFlavour: proprietary\n" CHANGE, 0, 0 },
		{ CHANGE "Driver: 535.*\n", E_PATCH, 0 },
		{ "Driver: 535.*\nFlavour: nouveau\n" CHANGE, E_PATCH, 0 },
		{ "Driver: 535.*\nWhen: include/x.h\n" CHANGE, E_PATCH, 0 },
		{ "Driver: 535.*\nSource: nvidia/nv.c\n" CHANGE, E_PATCH, 0 },
		{ "Driver: 550.*\nSource: nvidia/nv.c ~ (\n" CHANGE, E_PATCH, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		auto_root struct root dir = ROOT_NONE;
		auto_patches struct patches patches = { 0 };
		struct tree tree;
		struct err err = { 0 };
		folder_make(&folder);
		tree_make(&tree, &folder);
		put(&folder, "src/include/x.h", "present");
		put(&folder, "patches/a.patch", rows[i].text);
		put(&folder, "patches/readme", "no patch");
		put(&folder, "source/nvidia/nv.c", "old();\n");
		put(&folder, "source/nvidia/own.c", "old();\n");
		put(&folder, "source/nvidia/owner.c", "old();\n");
		put(&folder, "source/debian/patches/series", "# none\n\nfix.patch\n");
		put(&folder, "source/debian/patches/fix.patch", "--- a/nvidia/own.c\n+++ b/nvidia/own.c\n");
		auto_source struct source source = source_make(&folder, "535.261.03");
		assert_int_equal(root_sub(&folder.root, "patches", &dir, &err), 0);
		int r = patches_choose(&dir, &source, MODULE_TYPE_OPEN, &tree, &patches, &err);
		expect((r < 0 ? err.code : 0) == rows[i].code, rows[i].text);
		expect(patches.count == rows[i].count, rows[i].text);
	}
}

static void test_switched_off(void **state)
{
	(void)state;
	static const char NAME[] = "pci_resize_resource.patch";
	static const struct {
		const char *header, *name, *text; // of the user's patch; NULL = there is not a directory
		const char *version;
		int code;
	} rows[] = {
		{ WITH_EXCLUDE, NAME, "Driver: none\n", "535.261.03", E_SOURCE_KERNEL },
		{ WITH_EXCLUDE, NAME, "Driver: 535.*\nFlavour: proprietary\n" CHANGE, "535.261.03", E_SOURCE_KERNEL },
		{ WITH_EXCLUDE, NAME, "Driver: 535.*\n" CHANGE, "535.261.03", 0 }, // the user's own way
		{ WITH_EXCLUDE, "other.patch", "Driver: none\n", "535.261.03", 0 },
		{ WITH_EXCLUDE, NULL, NULL, "535.261.03", 0 },
		{ WITHOUT, NAME, "Driver: none\n", "535.261.03", 0 }, // this kernel needs no patch
		{ WITH_EXCLUDE, NAME, "Driver: none\n", "550.90.07", E_SOURCE_KERNEL },
		{ WITH_EXCLUDE, NAME, "nothing\n", "535.261.03", E_PATCH },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		auto_root struct root dir = ROOT_NONE;
		struct tree tree;
		struct err err = { 0 };
		folder_make(&folder);
		tree_make(&tree, &folder);
		put(&folder, "src/include/linux/pci.h", rows[i].header);
		put(&folder, "source/nvidia/nv-pci.c", CALL3);
		auto_source struct source source = source_make(&folder, rows[i].version);
		auto_source struct source peeked = source_make(NULL, rows[i].version);
		auto_str char *path = str_fmt("patches/%s", rows[i].name ? rows[i].name : "readme");
		put(&folder, path, rows[i].text ? rows[i].text : "");
		assert_int_equal(root_sub(&folder.root, "patches", &dir, &err), 0);
		int r = patches_check_removed(rows[i].name ? &dir : NULL, &source, MODULE_TYPE_OPEN, &tree, &err);
		expect((r < 0 ? err.code : 0) == rows[i].code, err.text);
		expect(rows[i].code != E_SOURCE_KERNEL || strstr(err.text, NAME), err.text);
		r = patches_check_removed(rows[i].name ? &dir : NULL, &peeked, MODULE_TYPE_OPEN, &tree, &err);
		expect((r < 0 ? err.code : 0) == (rows[i].code == E_PATCH ? E_PATCH : 0), err.text); // refused later
	}
}

static void test_apply(void **state)
{
	(void)state;
	needs_seccomp();
	auto_folder struct folder folder;
	auto_root struct root source = ROOT_NONE, dir = ROOT_NONE;
	auto_patches struct patches patches = { 0 };
	struct tree tree;
	struct err err = { 0 };
	folder_make(&folder);
	tree_make(&tree, &folder);
	put(&folder, "source/dir/file", "old\n");
	put(&folder, "patches/a.patch", "Driver: *\n" CHANGE);
	assert_int_equal(root_sub(&folder.root, "source", &source, &err), 0);
	assert_int_equal(root_sub(&folder.root, "patches", &dir, &err), 0);
	auto_source struct source driver = source_make(NULL, "535.261.03");
	assert_int_equal(patches_choose(&dir, &driver, MODULE_TYPE_OPEN, &tree, &patches, &err), 0);
	assert_int_equal(patches.count, 1);
	assert_int_equal(strlen(patches.items[0].digest), DIGEST_HEX);
	assert_int_equal(patches_apply(&patches, &source, PROC_PATH, NULL, &err), 0);
	folder_expect(&folder, "source/dir/file", "new\n");
	assert_int_equal(patches_apply(&patches, &source, PROC_PATH, NULL, &err), -1);
	assert_int_equal(err.code, E_PATCH);
	assert_non_null(strstr(err.text, "a.patch"));
	assert_int_equal(patches_apply(&patches, &source, "/nowhere", NULL, &err), -1);
	assert_int_equal(err.code, E_TOOLCHAIN);
}

static void put_tool(const struct folder *folder, const char *name, const char *version)
{
	auto_str char *path = str_fmt("bin/%s", name), *text = str_fmt("#!/bin/sh\necho '%s'\n", version);
	put(folder, path, text);
	auto_str char *full = str_fmt("%s/%s", folder->path, path);
	assert_int_equal(chmod(full, 0755), 0);
}

// R-B1: the tree decides.
static void test_toolchains(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned major;
		bool is_clang;
		const char *cc; // NULL = E_TOOLCHAIN
	} rows[] = {
		{ "gcc-12 (Debian 12.2.0-14) 12.2.0", 12, false, "gcc-12" },
		{ "x86_64-linux-gnu-gcc-12 (Debian 12.2.0-14) 12.2.0", 12, false, "gcc-12" },
		{ "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", 11, false, "gcc" },
		{ "gcc-13 (Debian 13.2.0) 13.2.0", 13, false, NULL },
		{ "gcc-14 (Debian 14.2.0) 14.2.0", 14, false, NULL },
		{ "Debian clang version 16.0.6", 16, true, "clang" },
		{ "Debian clang version 17.0.6", 17, true, NULL },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	put_tool(&folder, "gcc-12", "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0");
	put_tool(&folder, "gcc", "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)");
	put_tool(&folder, "gcc-13", "gcc-13 (lies) 12.1.0");
	put_tool(&folder, "clang", "Debian clang version 16.0.6 (15~deb12u1)");
	put_tool(&folder, "make", "");
	put_tool(&folder, "strip", "");
	put_tool(&folder, "ld.lld", "");
	put_tool(&folder, "llvm-nm", "");
	put_tool(&folder, "llvm-objcopy", "");
	put_tool(&folder, "llvm-ar", "");
	auto_str char *path = str_fmt("%s/bin", folder.path), *own = str_dup(tree_own_arch());
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *text = str_dup(rows[i].text),
			      *cc = rows[i].cc ? str_fmt("%s/bin/%s", folder.path, rows[i].cc) : NULL;
		const struct tree tree = { .compiler = text,
					   .compiler_major = rows[i].major,
					   .is_clang = rows[i].is_clang,
					   .release = (char[]){ "6.1.0-9-amd64" },
					   .arch = own };
		auto_toolchain struct toolchain t = { 0 };
		struct err err = { 0 };
		int r = toolchain_find(&tree, path, NULL, &t, &err);
		expect(cc ? r == 0 && str_eq(t.cc, cc) : r < 0 && err.code == E_TOOLCHAIN, rows[i].text);
		expect(cc || (strstr(err.text, rows[i].text) &&
			      strstr(err.text, rows[i].is_clang ? "16.0.6" : "11.4.1")),
		       rows[i].text);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && str_eq(argv[1], SANDBOX_ARG))
		return sandbox_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_builtin_patch), cmocka_unit_test(test_known_bad_pairs),
		cmocka_unit_test(test_user_patches),  cmocka_unit_test(test_switched_off),
		cmocka_unit_test(test_apply),         cmocka_unit_test(test_toolchains),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
