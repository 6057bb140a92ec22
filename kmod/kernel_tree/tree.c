// SPDX-License-Identifier: Apache-2.0
#include "kmod/kernel_tree/tree.h"

#include "kmod/kernel_tree/programs.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/utsname.h>

enum { LINKS_MAX = 40 };

// Where trees are, by distribution: /lib/modules/K/build is a link nearly everywhere (a directory on Flatcar), the
// others are Debian's, Ubuntu's and the Red Hat family's own places.
static const struct {
	const char *dir, *prefix, *suffix;
} places[] = {
	{ "/lib/modules", "", "/build" },
	{ "/usr/lib/modules", "", "/build" },
	{ "/usr/src", "linux-headers-", "" },
	{ "/usr/src/kernels", "", "" },
};

static const struct {
	const char *option, *name; // in .config; of `uname -m`
	unsigned machine;
} archs[] = { { "X86_64", "x86_64", EM_X86_64 }, { "ARM64", "aarch64", EM_AARCH64 }, { "PPC64", "ppc64le", EM_PPC64 } };

// The path with all links resolved, as the root's own programs would see it; NULL = it leads nowhere.
static char *link_free(const struct root *root, const char *path)
{
	auto_str char *left = str_dup(path), *done = str_dup("");
	for (int links = 0; *left && links <= LINKS_MAX;) {
		const char *part = left + strspn(left, "/");
		size_t len = strcspn(part, "/");
		auto_str char *name = str_ndup(part, len), *rest = str_dup(part + len), *target = NULL;
		struct err err;
		if (str_eq(name, "..")) {
			char *slash = strrchr(done, '/');
			*(slash ? slash : done) = '\0';
		} else if (*name && !str_eq(name, ".")) {
			auto_str char *here = str_fmt("%s/%s", done, name);
			if (root_readlink(root, here, &target, &err) < 0)
				return NULL;
			links += target ? 1 : 0;
			free(done);
			done = target && *target == '/' ? str_dup("") :
			       target                   ? str_ndup(here, strlen(here) - len - 1) :
							  TAKE(here);
		}
		free(left);
		left = target ? str_fmt("%s%s", target, rest) : TAKE(rest);
	}
	return !*left && root_exists(root, *done ? done : "/") ? TAKE(done) : NULL;
}

static int read_below(const struct root *root, const char *dir, const char *file, char **ret, struct err *err)
{
	auto_str char *path = str_fmt("%s/%s", dir, file);
	return root_read(root, path, ret, NULL, err);
}

// The text between start and the end of its line, without quotes; start must be at the beginning of a line.
static char *value_after(const char *text, const char *start)
{
	size_t len = strlen(start);
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (strncmp(line, start, len) != 0)
			continue;
		auto_str char *value = str_ndup(line + len, strcspn(line + len, "\n"));
		char *trimmed = str_trim(value);
		size_t end = strlen(trimmed);
		if (end >= 2 && *trimmed == '"' && trimmed[end - 1] == '"') {
			trimmed[end - 1] = '\0';
			trimmed++;
		}
		return str_dup(trimmed);
	}
	return NULL;
}

// Value of CONFIG_<name> without quotes ("y", "m", a number, a string); NULL = not set.
static char *config_value(const struct tree *tree, const char *name)
{
	auto_str char *start = str_fmt("CONFIG_%s=", name);
	return value_after(tree->config, start);
}

bool tree_is_set(const struct tree *tree, const char *name)
{
	auto_str char *value = config_value(tree, name);
	return str_eq(value, "y");
}

// Debian states the upstream version in include/config/kernel.release and the release in utsrelease.h, so that comes
// first.
static int find_release(const struct root *root, const char *build, char **ret, struct err *err)
{
	auto_str char *uts = NULL, *plain = NULL;
	if (read_below(root, build, "include/generated/utsrelease.h", &uts, err) < 0)
		return -1;
	char *release = uts ? value_after(uts, "#define UTS_RELEASE") : NULL;
	if (!release && read_below(root, build, "include/config/kernel.release", &plain, err) < 0)
		return -1;
	if (!release && plain)
		release = str_dup(str_trim(plain));
	*ret = release;
	return release ? 1 : 0;
}

// One place: 1 = a tree of this release, 0 = nothing here, negative = half a tree or another kernel's.
static int try_build_dir(const struct root *root, const char *path, const char *release, char **ret_build,
			 struct err *err)
{
	auto_str char *build = link_free(root, path), *found = NULL;
	if (!build) {
		auto_str char *target = NULL;
		if (root_readlink(root, path, &target, err) < 0)
			return -1;
		return target ? err_set(err, E_HEADERS_NOT_FOUND, "'%s%s' points to '%s', which does not exist",
					root->name, path, target) :
				0;
	}
	int r = find_release(root, build, &found, err);
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, E_HEADERS_NOT_FOUND, "'%s%s' does not say which kernel it is for", root->name,
			       build);
	if (!str_eq(found, release))
		return err_set(err, E_HEADERS_MISMATCH, "'%s%s' belongs to kernel %s, expected %s", root->name, build,
			       found, release);
	*ret_build = TAKE(build);
	return 1;
}

static char *build_dir_candidate(size_t i, const char *release)
{
	return str_fmt("%s/%s%s%s", places[i].dir, places[i].prefix, release, places[i].suffix);
}

// The first good place wins; otherwise the most telling failure is kept: another kernel's tree before half a tree.
static int find_build(const struct root *root, const char *release, char **ret, struct err *err)
{
	struct err kept = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		auto_str char *path = build_dir_candidate(i, release);
		struct err this;
		int r = try_build_dir(root, path, release, ret, &this);
		if (r > 0)
			return 1;
		if (r < 0 && (!kept.code || (kept.code != E_HEADERS_MISMATCH && this.code == E_HEADERS_MISMATCH)))
			kept = this;
	}
	if (!kept.code)
		return err_set(err, E_HEADERS_NOT_FOUND,
			       "'%s' has none of /lib/modules/%s/build, /usr/src/linux-headers-%s, /usr/src/kernels/%s",
			       *root->name ? root->name : "/", release, release, release);
	*err = kept;
	return -1;
}

// What the configured tree's Makefile includes: an absolute path on Debian, one of the tree's neighbours on SUSE.
static char *included_dir(const struct tree *t, const char *makefile)
{
	auto_str char *include = value_after(makefile, "include ");
	if (!include || !str_ends(include, "/Makefile") || strpbrk(include, " $("))
		return NULL;
	include[strlen(include) - strlen("/Makefile")] = '\0';
	return *include == '/' ? TAKE(include) : str_fmt("%s/%s", t->build, include);
}

// Debian's and SUSE's configured trees have one line, "include SOURCE/Makefile"; others link `source`. SUSE's of older
// kernels say where it is in a line that only make understands, so there /lib/modules/RELEASE/source is asked, too.
static int find_source_dir(struct tree *t, struct err *err)
{
	auto_str char *makefile = NULL, *included = NULL;
	if (read_below(&t->root, t->build, "Makefile", &makefile, err) < 0)
		return -1;
	if (!makefile)
		return err_set(err, E_HEADERS_NOT_FOUND, "'%s%s' has no Makefile: incomplete tree", t->root.name,
			       t->build);
	included = included_dir(t, makefile);
	if (included) {
		t->source = link_free(&t->root, included);
		if (!t->source)
			return err_set(err, E_HEADERS_NOT_FOUND, "'%s%s' needs '%s', which does not exist",
				       t->root.name, t->build, included);
		return 0;
	}
	auto_str char *link = str_fmt("%s/source", t->build), *of_modules = NULL;
	t->source = link_free(&t->root, link);
	if (!t->source && strstr(makefile, "MAKEARGS := -C ")) {
		of_modules = str_fmt("/lib/modules/%s/source", t->release);
		t->source = link_free(&t->root, of_modules);
	}
	if (!t->source && of_modules)
		return err_set(err, E_HEADERS_NOT_FOUND, "'%s%s' needs '%s', which does not exist", t->root.name,
			       t->build, of_modules);
	if (!t->source)
		t->source = str_dup(t->build);
	return 0;
}

static void add_dir(struct tree *t, const char *dir)
{
	for (size_t i = 0; i < t->dirs.count; i++) {
		size_t len = strlen(t->dirs.items[i]);
		if (str_starts(dir, t->dirs.items[i]) && (dir[len] == '/' || !dir[len]))
			return;
	}
	strv_add(&t->dirs, str_dup(dir));
}

// The directories a compile needs; scripts and tools are links to other packages on Debian, absent tools are normal.
static int find_dirs(struct tree *t, struct err *err)
{
	add_dir(t, t->build);
	add_dir(t, t->source);
	const char *from[] = { t->build, t->source };
	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		auto_str char *scripts = str_fmt("%s/scripts", from[i]), *tools = str_fmt("%s/tools", from[i]);
		auto_str char *scripts_at = link_free(&t->root, scripts), *tools_at = link_free(&t->root, tools);
		if (!scripts_at)
			return err_set(err, E_HEADERS_NOT_FOUND,
				       "'%s%s' is missing: incomplete tree (on Debian: linux-kbuild)", t->root.name,
				       scripts);
		add_dir(t, scripts_at);
		if (tools_at)
			add_dir(t, tools_at);
	}
	return 0;
}

// include/generated has every part of the line that init/version.c prints; since 6.1 UTS_VERSION has a file of its own.
static int derive_banner(struct tree *t, struct err *err)
{
	auto_str char *compile = NULL, *version = NULL;
	if (read_below(&t->root, t->build, "include/generated/compile.h", &compile, err) < 0 ||
	    read_below(&t->root, t->build, "include/generated/utsversion.h", &version, err) < 0)
		return -1;
	if (!compile)
		return 0;
	auto_str char *by = value_after(compile, "#define LINUX_COMPILE_BY");
	auto_str char *host = value_after(compile, "#define LINUX_COMPILE_HOST");
	auto_str char *compiler = value_after(compile, "#define LINUX_COMPILER");
	auto_str char *uts = value_after(version ? version : compile, "#define UTS_VERSION");
	if (!by || !host || !compiler || !uts)
		return 0;
	t->banner = str_fmt("Linux version %s (%s@%s) (%s) %s", t->release, by, host, compiler, uts);
	kernel_build_id(t->banner, t->build_id);
	return 0;
}

static int fill_tree(struct tree *t, struct err *err)
{
	int r = read_below(&t->root, t->build, ".config", &t->config, err);
	if (r == 0)
		r = read_below(&t->root, t->build, "include/config/auto.conf", &t->config, err);
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, E_HEADERS_NOT_FOUND, "'%s%s' has no .config: incomplete tree", t->root.name,
			       t->build);
	if (find_source_dir(t, err) < 0 || find_dirs(t, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(archs) && !t->arch; i++)
		if (tree_is_set(t, archs[i].option))
			t->arch = str_dup(archs[i].name);
	if (!t->arch)
		return err_set(err, E_ARCH, "'%s%s' is for none of x86_64, aarch64, ppc64le", t->root.name, t->build);
	if (derive_banner(t, err) < 0)
		return -1;
	auto_str char *autoconf = str_fmt("%s/include/generated/autoconf.h", t->build);
	if (!root_exists(&t->root, autoconf))
		return err_set(err, E_HEADERS_NOT_FOUND, "'%s%s' is missing: incomplete tree", t->root.name, autoconf);
	t->compiler = config_value(t, "CC_VERSION_TEXT");
	if (!t->compiler)
		t->compiler = str_dup("");
	t->is_clang = tree_is_set(t, "CC_IS_CLANG");
	t->is_rt = tree_is_set(t, "PREEMPT_RT");
	t->has_dwarf_crcs = tree_is_set(t, "GENDWARFKSYMS");
	auto_str char *number = config_value(t, t->is_clang ? "CLANG_VERSION" : "GCC_VERSION");
	uint64_t n = 0;
	if (number && str_u64(number, 10, &n))
		t->compiler_major = (unsigned)(n / 10000);
	auto_str char *symvers = str_fmt("%s/Module.symvers", t->build);
	if (root_exists(&t->root, symvers))
		t->symvers = TAKE(symvers);
	return programs_check_tree(t, err);
}

// Two builds of one release differ in their banners (R-A6).
static int check_banner(const struct tree *tree, const char *banner, struct err *err)
{
	size_t len = strcspn(banner, "\n");
	if (!tree->banner || (strlen(tree->banner) == len && strncmp(tree->banner, banner, len) == 0))
		return 0;
	return err_set(err, E_HEADERS_MISMATCH, "'%s%s' is for the build \"%s\", the kernel is \"%.*s\"",
		       tree->root.name, tree->build, tree->banner, (int)len, banner);
}

int tree_open(const struct root *root, const char *release, const char *banner, struct tree *ret, struct err *err)
{
	auto_tree struct tree t = { .root = ROOT_NONE, .release = str_dup(release) };
	if (find_build(root, release, &t.build, err) < 0 || root_sub(root, ".", &t.root, err) < 0)
		return -1;
	free(t.root.name);
	t.root.name = str_dup(root->name);
	if (fill_tree(&t, err) < 0 || (banner && check_banner(&t, banner, err) < 0))
		return -1;
	*ret = t;
	t = (struct tree){ .root = ROOT_NONE };
	return 0;
}

void tree_done(struct tree *t)
{
	root_done(&t->root);
	free(t->release);
	free(t->arch);
	free(t->build);
	free(t->source);
	strv_done(&t->dirs);
	free(t->config);
	free(t->compiler);
	free(t->banner);
	free(t->symvers);
	*t = (struct tree){ .root = ROOT_NONE };
}

int tree_releases(const struct root *root, struct strv *ret, struct err *err)
{
	struct strv found = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		auto_strv struct strv names = { 0 };
		if (root_list(root, places[i].dir, &names, err) < 0) {
			strv_done(&found);
			return -1;
		}
		for (size_t n = 0; n < names.count; n++) {
			const char *release = names.items[n] + strlen(places[i].prefix);
			if (!str_starts(names.items[n], places[i].prefix) || strv_has(&found, release))
				continue;
			auto_str char *path = build_dir_candidate(i, release), *build = NULL;
			struct err miss;
			if (try_build_dir(root, path, release, &build, &miss) > 0)
				strv_add(&found, str_dup(release));
		}
	}
	strv_sort(&found);
	strv_done(ret);
	*ret = found;
	return 0;
}

void kernel_build_id(const char *banner, char ret[DIGEST_HEX + 1])
{
	auto_str char *copy = str_dup(banner);
	const char *line = str_trim(copy);
	digest_data(line, strlen(line), ret);
}

int tree_matches(const struct tree *tree, const char *file, const char *regex, struct err *err)
{
	const char *dirs[] = { tree->source, tree->build };
	int r = str_matches("", regex) < 0 ? err_set(err, EINVAL, "'%s' is not a regular expression", regex) : 0;
	for (size_t i = 0; i < ARRAY_SIZE(dirs) && r == 0; i++) {
		auto_str char *text = NULL;
		r = read_below(&tree->root, dirs[i], file, &text, err);
		if (r > 0)
			r = str_matches(text, regex);
	}
	return r;
}

const char *tree_file_arch(const struct root *root, const char *path)
{
	struct err ignored;
	Elf64_Ehdr head;
	auto_fd int fd = root_open(root, path, O_RDONLY, &ignored);
	if (fd < 0 || read(fd, &head, sizeof(head)) != sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(archs); i++)
		if (archs[i].machine == head.e_machine)
			return archs[i].name;
	return NULL;
}

const char *tree_scripts_arch(const struct tree *tree)
{
	auto_str char *path = str_fmt("%s/scripts/basic/fixdep", tree->build);
	return tree_file_arch(&tree->root, path);
}

const char *tree_own_arch(void)
{
	static struct utsname u;
	return uname(&u) < 0 ? "" : u.machine;
}
