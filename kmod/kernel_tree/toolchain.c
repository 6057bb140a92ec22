// SPDX-License-Identifier: Apache-2.0
#include "kmod/kernel_tree/toolchain.h"

#include "base/process/proc.h"
#include "kmod/kernel_tree/compiler.h"
#include "kmod/kernel_tree/programs.h"
#include "kmod/sandbox/sandbox.h"

#include <fcntl.h>

char *toolchain_wanted(const struct tree *tree)
{
	return tree->compiler_major ? str_fmt("%s-%u", tree->is_clang ? "clang" : "gcc", tree->compiler_major) : NULL;
}

// Links inside the root are resolved inside the root.
char *toolchain_program(const struct root *base, const char *path, const char *name)
{
	auto_strv struct strv dirs = { 0 };
	if (!base)
		return proc_find(path, name);
	strv_split(&dirs, path, ":");
	for (size_t i = 0; i < dirs.count; i++) {
		auto_str char *full = str_fmt("%s/%s", dirs.items[i], name);
		struct err ignored;
		struct stat st;
		auto_fd int fd = root_open(base, full, O_PATH, &ignored);
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_mode & 0111)
			return TAKE(full);
	}
	return NULL;
}

static char *ask_version(const char *cc, const char *path, const struct root *base)
{
	enum { DEADLINE_MS = 10000 };
	auto_str char *variable = str_fmt("PATH=%s", path);
	const char *argv[] = { cc, "--version", NULL }, *env[] = { variable, "LC_ALL=C", NULL };
	const struct proc here = { .argv = argv, .env = env, .timeout_ms = DEADLINE_MS };
	const struct sandbox inside = { .base = base, .argv = argv, .env = env, .timeout_ms = DEADLINE_MS };
	struct proc_end end;
	struct err failed;
	int r = base ? sandbox_run(&inside, &end, &failed) : proc_must(&here, &end, &failed);
	return r < 0 || end.status != 0 ? NULL : str_ndup(end.tail, strcspn(end.tail, "\n"));
}

static void add_candidate(struct strv *names, char *take)
{
	if (!*take || strv_has(names, take))
		free(take);
	else
		strv_add(names, take);
}

static void add_candidates(const struct tree *tree, const struct toolchain *t, struct strv *names)
{
	const char *family = tree->is_clang ? "clang" : "gcc";
	auto_str char *own = str_ndup(tree->compiler, strcspn(tree->compiler, " /")); // the kernel's own comes first
	if (str_starts(own, t->prefix))
		add_candidate(names, TAKE(own));
	add_candidate(names, str_fmt("%s%s-%u", t->prefix, family, tree->compiler_major));
	add_candidate(names, str_fmt("%s-linux-gnu-%s-%u", tree->arch, family, tree->compiler_major));
	add_candidate(names, str_fmt("%s%s", t->prefix, family));
	if (!*t->prefix)
		add_candidate(names, str_dup("cc"));
}

static int find_compiler(const struct tree *tree, struct toolchain *t, struct err *err)
{
	const char *family = tree->is_clang ? "clang" : "gcc";
	auto_strv struct strv names = { 0 };
	auto_str char *seen = NULL;
	add_candidates(tree, t, &names);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *cc = toolchain_program(t->base, t->path, names.items[i]);
		auto_str char *version = cc ? ask_version(cc, t->path, t->base) : NULL;
		if (!version)
			continue;
		struct compiler found = compiler_parse(version);
		if (found.is_clang == tree->is_clang &&
		    (!tree->compiler_major || found.major == tree->compiler_major)) {
			t->cc = TAKE(cc);
			t->version = TAKE(version);
			return 0;
		}
		str_add(&seen, "%s%s (%s)", seen ? ", " : "", cc, version);
	}
	return err_set(err, E_TOOLCHAIN, "kernel %s was built with '%s'; expected %s%s %u, found in %s: %s",
		       tree->release, *tree->compiler ? tree->compiler : "an unstated compiler", t->prefix, family,
		       tree->compiler_major, t->path, seen ? seen : "no compiler");
}

static int check_scripts(const struct tree *tree, struct err *err)
{
	const char *own = tree_own_arch(), *arch = tree_scripts_arch(tree);
	if (!arch || str_eq(arch, own))
		return 0;
	return err_set(err, E_TOOLCHAIN,
		       "the programs in '%s%s/scripts' are for %s and cannot run on %s: give headers whose scripts are "
		       "for %s (on Debian: linux-kbuild of that architecture in place of the kernel's own, in the same "
		       "version)",
		       tree->root.name, tree->build, arch, own, own);
}

static int find_tool(const struct toolchain *t, const char *name, const char *other, char **ret, struct err *err)
{
	*ret = toolchain_program(t->base, t->path, name);
	if (!*ret)
		*ret = toolchain_program(t->base, t->path, other);
	return *ret ? 0 : err_set(err, E_TOOLCHAIN, "no %s in %s", name, t->path);
}

// LLVM=1 names these, and Kbuild runs them late: a linker that is missing would be noticed after the first objects.
static int check_llvm(const struct toolchain *t, const struct tree *tree, struct err *err)
{
	static const char *const names[] = { "ld.lld", "llvm-nm", "llvm-objcopy", "llvm-ar" };
	auto_str char *missing = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(names) && t->is_clang; i++) {
		auto_str char *found = toolchain_program(t->base, t->path, names[i]);
		if (!found)
			str_add(&missing, "%s%s", missing ? ", " : "", names[i]);
	}
	return !missing ? 0 :
			  err_set(err, E_TOOLCHAIN,
				  "no %s in %s, which modules of kernel %s need: it was built with clang", missing,
				  t->path, tree->release);
}

int toolchain_find(const struct tree *tree, const char *path, const struct root *base, struct toolchain *ret,
		   struct err *err)
{
	bool is_cross = !tree->is_clang && !str_eq(tree->arch, tree_own_arch());
	auto_toolchain struct toolchain t = { .path = str_dup(path ? path : PROC_PATH),
					      .prefix = is_cross ? str_fmt("%s-linux-gnu-", tree->arch) : str_dup(""),
					      .is_clang = tree->is_clang,
					      .base = base };
	auto_str char *strip = str_fmt("%sstrip", t.prefix);
	if (find_compiler(tree, &t, err) < 0 || check_scripts(tree, err) < 0 ||
	    find_tool(&t, "make", "gmake", &t.make, err) < 0 ||
	    find_tool(&t, t.is_clang ? "llvm-strip" : strip, strip, &t.strip, err) < 0 ||
	    check_llvm(&t, tree, err) < 0 || programs_check(tree, base, t.version, err) < 0)
		return -1;
	t.ccache = toolchain_program(t.base, t.path, "ccache");
	*ret = t;
	t = (struct toolchain){ 0 };
	return 0;
}

void toolchain_binutils(const struct toolchain *t, struct strv *argv)
{
	static const struct {
		const char *variable, *program;
	} gnu[] = { { "LD", "ld" },           { "AR", "ar" },           { "NM", "nm" },      { "OBJCOPY", "objcopy" },
		    { "OBJDUMP", "objdump" }, { "READELF", "readelf" }, { "STRIP", "strip" } };
	if (t->is_clang) {
		strv_add(argv, str_dup("LLVM=1"));
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(gnu); i++)
		strv_add(argv, str_fmt("%s=%s%s", gnu[i].variable, t->prefix, gnu[i].program));
	if (*t->prefix)
		strv_add(argv, str_fmt("CROSS_COMPILE=%s", t->prefix));
}

void toolchain_done(struct toolchain *t)
{
	free(t->cc);
	free(t->version);
	free(t->make);
	free(t->strip);
	free(t->prefix);
	free(t->ccache);
	free(t->path);
	*t = (struct toolchain){ 0 };
}
