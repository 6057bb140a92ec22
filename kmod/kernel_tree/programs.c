// SPDX-License-Identifier: Apache-2.0
#include "kmod/kernel_tree/programs.h"

#include "base/file/file.h"
#include "base/linker/soname.h"

#include <fcntl.h>

// As scripts/Makefile.build, Makefile.modpost and Makefile.lib run them. objtool is asked for by CONFIG_OBJTOOL since
// 5.19, before that by the options beside it, and not at all where make finds no libelf. ".real-*" are what Debian's
// own programs of these names start.
static const struct {
	const char *path;
	const char *option;  // runs only with this one set; NULL = always
	const char *without; // and never with this one; NULL = none
	bool is_optional;    // runs if it is there
} programs[] = {
	{ "scripts/basic/fixdep", NULL, NULL, false },
	{ "scripts/mod/modpost", NULL, NULL, false },
	{ "scripts/mod/modpost.real-lsb-64", NULL, NULL, true },
	{ "scripts/genksyms/genksyms", "MODVERSIONS", "GENDWARFKSYMS", false },
	{ "scripts/gendwarfksyms/gendwarfksyms", "GENDWARFKSYMS", NULL, false },
	{ "tools/objtool/objtool", "OBJTOOL", NULL, false },
	{ "tools/objtool/objtool.real-x86", "OBJTOOL", NULL, true },
	{ "tools/objtool/objtool", "UNWINDER_ORC", NULL, true },
	{ "scripts/recordmcount", "FTRACE_MCOUNT_USE_RECORDMCOUNT", NULL, true },
};

// Who has the libraries that kbuild's programs are linked with.
static const struct {
	const char *library, *debian, *fedora;
} packages[] = {
	{ "libdw.so.1", "libdw1", "elfutils-libs" },
	{ "libelf.so.1", "libelf1", "elfutils-libelf" },
	{ "libz.so.1", "zlib1g", "zlib" },
	{ "libzstd.so.1", "libzstd1", "libzstd" },
	{ "libxxhash.so.0", "libxxhash0", "xxhash-libs" },
	{ "libcrypto.so.3", "libssl3", "openssl-libs" },
	{ "libstdc++.so.6", "libstdc++6", "libstdc++" },
};

static bool is_run(const struct tree *tree, size_t i)
{
	return (!programs[i].option || tree_is_set(tree, programs[i].option)) &&
	       !(programs[i].without && tree_is_set(tree, programs[i].without));
}

static int missing_part(const struct tree *tree, const char *path, struct err *err)
{
	return err_set(err, E_HEADERS_NOT_FOUND,
		       "'%s%s/%s' is missing: incomplete tree (`make modules_prepare` makes it)", tree->root.name,
		       tree->build, path);
}

static bool has_file(const struct tree *tree, const char *dir, const char *path)
{
	auto_str char *full = str_fmt("%s/%s", dir, path);
	return root_exists(&tree->root, full);
}

// Since 5.10; Debian has it where the architecture's own one was before. Older kernels have it among their sources.
static int check_linker_script(const struct tree *tree, struct err *err)
{
	static const char *const places[] = { "scripts/module.lds", "arch/x86/module.lds", "arch/arm64/module.lds",
					      "arch/powerpc/module.lds" };
	int is_wanted = tree_matches(tree, "scripts/Makefile.modfinal", "scripts/module[.]lds", err);
	if (is_wanted <= 0)
		return is_wanted;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (has_file(tree, tree->build, places[i]) || has_file(tree, tree->source, places[i]))
			return 0;
	return missing_part(tree, places[0], err);
}

// What scripts/Makefile.gcc-plugins and Makefile.randstruct give the compiler, for the options that are set.
static void find_plugins(const struct tree *tree, struct strv *ret)
{
	static const struct {
		const char *option, *name;
	} plugins[] = { { "GCC_PLUGIN_RANDSTRUCT", "randomize_layout_plugin" },
			{ "GCC_PLUGIN_LATENT_ENTROPY", "latent_entropy_plugin" },
			{ "GCC_PLUGIN_STRUCTLEAK", "structleak_plugin" },
			{ "GCC_PLUGIN_STACKLEAK", "stackleak_plugin" },
			{ "GCC_PLUGIN_SANCOV", "sancov_plugin" } };
	for (size_t i = 0; i < ARRAY_SIZE(plugins) && !tree->is_clang; i++)
		if (tree_is_set(tree, plugins[i].option))
			strv_add(ret, str_fmt("scripts/gcc-plugins/%s.so", plugins[i].name));
}

int programs_check_tree(const struct tree *tree, struct err *err)
{
	auto_strv struct strv plugins = { 0 };
	if (!tree_scripts_arch(tree)) // nothing is known of a tree whose first program is of an unknown kind
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (!programs[i].is_optional && is_run(tree, i) && !has_file(tree, tree->build, programs[i].path))
			return missing_part(tree, programs[i].path, err);
	find_plugins(tree, &plugins);
	for (size_t i = 0; i < plugins.count; i++)
		if (!has_file(tree, tree->build, plugins.items[i]))
			return missing_part(tree, plugins.items[i], err);
	return check_linker_script(tree, err);
}

static char *package_hint(const char *library)
{
	for (size_t i = 0; library && i < ARRAY_SIZE(packages); i++)
		if (str_eq(packages[i].library, library))
			return str_fmt(": install %s (Debian, Ubuntu) or %s (Fedora, RHEL)", packages[i].debian,
				       packages[i].fedora);
	return str_dup(library ? ": install the package that has it" :
				 ": the headers are of a newer distribution, or another one, than the compiler's");
}

// 0 also where there is no such file, or one that no linker is needed for.
static int check_libraries(const struct tree *tree, const struct root *in, const char *path, struct err *err)
{
	auto_str char *full = str_fmt("%s/%s", tree->build, path), *missing = NULL;
	auto_needs struct needs needs = { 0 };
	const char *library = NULL;
	struct err unread;
	auto_fd int fd = root_open(&tree->root, full, O_RDONLY, &unread);
	if (fd < 0 || linker_needs_read(fd, full, &needs, &unread) <= 0 ||
	    linker_missing(in, &needs, &missing, &library, &unread) < 0 || !missing)
		return 0;
	auto_str char *hint = package_hint(library);
	return err_set(err, E_TOOLCHAIN, "the headers' %s needs %s, which %s does not have%s", path, missing,
		       *in->name ? in->name : "this machine", hint);
}

// Of " 11.4.1 20231218 (Red Hat 11.4.1-3)" each word stands somewhere in a plugin of that gcc, the first by itself.
static bool has_words(const void *data, size_t len, const char *text)
{
	auto_strv struct strv words = { 0 };
	strv_split(&words, text, " ()");
	for (size_t i = 0; i < words.count; i++)
		if (!memmem(data, len, words.items[i], strlen(words.items[i]) + (i == 0)))
			return false;
	return true;
}

// gcc loads a plugin only if its own version and configuration are the ones that the plugin was compiled with, to the
// letter (plugin_default_version_check in gcc's plugin.c). The plugin has them as text, and --version says them:
// "gcc-12 (PKGVERSION) 12.2.0".
static int check_plugin(const struct tree *tree, const char *path, const char *version, struct err *err)
{
	static const char flag[] = "--with-pkgversion=";
	auto_str char *full = str_fmt("%s/%s", tree->build, path), *by = NULL;
	const char *open = strchr(version, '('), *close = open ? strchr(open, ')') : NULL;
	struct err unread;
	const void *map = NULL;
	size_t len = 0;
	auto_fd int fd = root_open(&tree->root, full, O_RDONLY, &unread);
	if (fd < 0 || !close || file_map(fd, full, &map, &len, &unread) < 0 || !map)
		return 0;
	const char *end = (const char *)map + len, *said = memmem(map, len, flag, strlen(flag));
	if (said) {
		said += strlen(flag);
		said += said < end && (*said == '\'' || *said == '"') ? 1 : 0;
		by = str_ndup(said, strnlen(said, (size_t)(end - said)));
		by[strcspn(by, "'\"")] = '\0';
	}
	auto_str char *own = str_ndup(open + 1, (size_t)(close - open - 1));
	bool is_same = has_words(map, len, close + 1) && (!by || str_starts(by, own));
	file_unmap(map, len);
	return is_same ? 0 :
			 err_set(err, E_TOOLCHAIN,
				 "the compiler is %s, and the headers' %s was compiled with another gcc%s%s%s: "
				 "plugins of its own build",
				 version, path, by ? " ('" : "", by ? by : "", by ? "')" : "");
}

int programs_check(const struct tree *tree, const struct root *base, const char *version, struct err *err)
{
	auto_strv struct strv plugins = { 0 };
	auto_root struct root own = ROOT_NONE;
	if (!base && root_init(&own, "/", err) < 0)
		return -1;
	const struct root *in = base ? base : &own;
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (is_run(tree, i) && check_libraries(tree, in, programs[i].path, err) < 0)
			return -1;
	find_plugins(tree, &plugins);
	for (size_t i = 0; i < plugins.count; i++)
		if (check_libraries(tree, in, plugins.items[i], err) < 0 ||
		    check_plugin(tree, plugins.items[i], version, err) < 0)
			return -1;
	return 0;
}
