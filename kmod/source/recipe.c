// SPDX-License-Identifier: Apache-2.0
#include "kmod/source/recipe.h"

#include "kmod/kernel_tree/tree.h"
#include "kmod/source/source.h"

#include <fnmatch.h>

// In load order.
static const struct {
	const char *name, *needs;
} modules[] = {
	{ "nvidia", NULL },
	{ "nvidia-uvm", "nvidia" },
	{ "nvidia-modeset", "nvidia" },
	{ "nvidia-drm", "nvidia-modeset" },
	{ "nvidia-peermem", "nvidia" },
};

enum { ANY = MODULE_TYPE_OPEN | MODULE_TYPE_PROPRIETARY };

// Found by compiling every pair. The tree decides, not the kernel's version, because distributions backport.
static const struct known_bad {
	const char *driver; // glob
	unsigned flavours;
	const char *module;       // that fails; NULL = every one
	const char *file, *regex; // the pair fails when the tree has the file and it does not match, or when it does
	bool is_new;
	const char *probe; // unless this is in the source's probes: it knows both ways, or the new one
	const char *why, *good;
} bad[] = {
#define DRM_FORMAT                                                                                               \
	"nvidia-drm", "include/drm/drm_mode_config.h", "\\(\\*fb_create\\)\\([^;]*struct drm_format_info", true, \
		"drm_fb_create_takes_format_info",                                                               \
		"its framebuffers look up their format, which this kernel hands to them (since Linux 6.17)"
#define MAKE_FLAGS                                                                               \
	NULL, "scripts/Makefile.lib", "EXTRA_CFLAGS", false, "ccflags-y += -I$(src)/common/inc", \
		"its makefiles give their flags to EXTRA_CFLAGS, which this kernel no longer reads (since Linux 6.15)"
// The first open releases that know folios. Branch 590 ended before them, and 580 did not.
#define OPEN_FOLIOS "580.126.09 or later of branch 580, or 595.45.04"
	{ "4*", MODULE_TYPE_PROPRIETARY, NULL, "include/linux/mm_types.h", "vma_flags_set_word\\(", true,
	  "vma_flags_set_word", "it sets the flags of a memory area as they were kept before Linux 6.19",
	  "535.309.01" },
	{ "4*", MODULE_TYPE_PROPRIETARY, NULL, "include/linux/mm.h", "[^_a-z]follow_pfn\\(", false,
	  "conftest_follow_pfn", "it calls follow_pfn(), which this kernel no longer has (removed in Linux 6.12)",
	  "535.216.03" },
	{ "5[45]*", MODULE_TYPE_OPEN, "nvidia-uvm", "include/linux/iommu.h", "iommu_dev_enable_feature\\(", false,
	  "drm_fb_create_takes_format_info", // which Debian added when it took the calls out
	  "it calls iommu_dev_enable_feature(), which this kernel no longer has (removed in Linux 6.16)", OPEN_FOLIOS },
	{ "5[6-9]*", MODULE_TYPE_OPEN, "nvidia-uvm", "include/linux/memremap.h", "\\(\\*page_free\\)\\(", false,
	  "folio_free", "it frees pages of a GPU one by one, and this kernel knows only folios (since Linux 6.19)",
	  OPEN_FOLIOS },
	{ "[45][0-3]*", ANY, MAKE_FLAGS, "535.261.03" },
	{ "4[4-9]*", ANY, MAKE_FLAGS, "535.261.03" },
	{ "5[4-9]*", MODULE_TYPE_PROPRIETARY, MAKE_FLAGS, "580.105.08" },
	{ "5[4-9]*", MODULE_TYPE_OPEN, MAKE_FLAGS, OPEN_FOLIOS },
	{ "[45][0-3]*", ANY, DRM_FORMAT, "535.274.02" },
	{ "4[4-9]*", ANY, DRM_FORMAT, "535.274.02" },
	{ "5[4-9]*", ANY, DRM_FORMAT, "580.105.08" },
#undef DRM_FORMAT
#undef MAKE_FLAGS
#undef OPEN_FOLIOS
};

static size_t module_index(const char *requested)
{
	auto_str char *full = str_starts(requested, "nvidia") ? str_dup(requested) : str_fmt("nvidia-%s", requested);
	size_t i = 0;
	while (i < ARRAY_SIZE(modules) && !str_eq(modules[i].name, full))
		i++;
	return i;
}

static void want_module(bool *wanted, size_t i)
{
	wanted[i] = true;
	if (modules[i].needs)
		want_module(wanted, module_index(modules[i].needs));
}

int recipe_modules(const struct root *dir, const struct strv *requested, struct strv *ret, struct err *err)
{
	bool wanted[ARRAY_SIZE(modules)] = { false };
	for (size_t i = 0; requested && i < requested->count; i++) {
		size_t m = module_index(requested->items[i]);
		if (m == ARRAY_SIZE(modules))
			return err_set(err, E_USAGE,
				       "unknown module '%s'; known are nvidia, uvm, modeset, drm, peermem",
				       requested->items[i]);
		want_module(wanted, m);
	}
	bool is_all = !requested || !requested->count;
	struct strv found = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++) {
		auto_str char *kbuild = str_fmt("%s/%s.Kbuild", modules[i].name, modules[i].name);
		bool is_there = root_exists(dir, kbuild);
		if (is_there && (is_all || wanted[i]))
			strv_add(&found, str_dup(modules[i].name));
		if (is_there || !wanted[i])
			continue;
		strv_done(&found);
		return err_set(err, E_USAGE, "the source '%s' has no module '%s'", dir->name, modules[i].name);
	}
	strv_done(ret);
	*ret = found;
	return 0;
}

static size_t count_sources(const struct root *dir, const char *module, const char *suffix)
{
	auto_str char *path = str_fmt("%s/%s%s.Kbuild", module, module, suffix), *text = NULL;
	struct err absent;
	if (root_read(dir, path, &text, NULL, &absent) <= 0)
		return 0;
	size_t count = 0;
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++)
		count += strstr(lines.items[i], "_SOURCES") && str_ends(str_trim(lines.items[i]), ".c") &&
			 lines.items[i][0] != '#';
	return count;
}

size_t recipe_objects(const struct root *dir, const struct strv *set)
{
	size_t count = 0;
	for (size_t i = 0; i < set->count; i++)
		count += count_sources(dir, set->items[i], "") + count_sources(dir, set->items[i], "-sources");
	return count;
}

// Of a kernel without DRM nvidia-drm is an empty shell.
static bool is_made(const char *module, const struct strv *set, const struct tree *tree)
{
	if (str_eq(module, "nvidia-drm") && !(tree->config && str_matches(tree->config, "CONFIG_DRM=[my]") > 0))
		return false;
	bool is_wanted = !set || !set->count;
	for (size_t i = 0; set && i < set->count; i++)
		is_wanted |= module_index(set->items[i]) == module_index(module);
	return is_wanted;
}

int recipe_check(const struct source *source, enum module_type flavour, const struct strv *set, const struct tree *tree,
		 struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (!(bad[i].flavours & flavour) || fnmatch(bad[i].driver, source->version, 0) != 0)
			continue;
		if (source->probes && strstr(source->probes, bad[i].probe))
			continue;
		if (bad[i].module && !is_made(bad[i].module, set, tree))
			continue;
		int is_there = tree_matches(tree, bad[i].file, "", err);
		int r = is_there <= 0 ? is_there : tree_matches(tree, bad[i].file, bad[i].regex, err);
		if (r < 0)
			return -1;
		if (is_there && r == bad[i].is_new)
			return err_set(err, E_SOURCE_KERNEL,
				       "driver %s (%s) does not compile for kernel %s: %s; %s or later works",
				       source->version, module_type_name(flavour), tree->release, bad[i].why,
				       bad[i].good);
	}
	return 0;
}

// The newest series that each branch was compiled for (docs/drivers.md). Of 570, 580 and 590 these were the interface
// files, which are what a kernel breaks. A branch that is not here is measured by the newest kernel of all.
static const struct {
	const char *driver; // glob
	unsigned major, minor;
} newest[] = { { "418.*", 6, 12 }, { "450.*", 6, 12 }, { "460.*", 6, 12 }, { "470.*", 6, 12 },
	       { "525.*", 7, 2 },  { "570.*", 6, 12 }, { "590.*", 6, 12 }, { "*", 7, 3 } };

char *recipe_newer_kernel(const char *driver, const char *release)
{
	uint64_t major = 0, minor = 0;
	const char *dot = strchr(release, '.');
	auto_str char *first = str_ndup(release, strspn(release, "0123456789")),
		      *second = str_ndup(dot ? dot + 1 : "", dot ? strspn(dot + 1, "0123456789") : 0);
	if (!str_u64(first, 10, &major) || !str_u64(second, 10, &minor))
		return NULL;
	size_t i = driver ? 0 : ARRAY_SIZE(newest) - 1;
	while (driver && fnmatch(newest[i].driver, driver, 0) != 0)
		i++;
	if (major < newest[i].major || (major == newest[i].major && minor <= newest[i].minor))
		return NULL;
	return str_fmt("newer than any kernel %s driver was compiled for here: %u.%u", driver ? "this" : "a",
		       newest[i].major, newest[i].minor);
}
