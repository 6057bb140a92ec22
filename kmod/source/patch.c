// SPDX-License-Identifier: Apache-2.0
#include "kmod/source/patch.h"

#include "base/process/proc.h"
#include "kmod/kernel_tree/toolchain.h"
#include "kmod/kernel_tree/tree.h"
#include "kmod/sandbox/sandbox.h"

#include <errno.h>
#include <fnmatch.h>

// The files themselves are in the program. Names are joined to string literals, which parentheses would forbid.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define X(symbol, file)                                                                                 \
	__asm__(".pushsection .rodata\n" #symbol ": .incbin \"kmod/source/patches/" file "\"\n" #symbol \
		"_end:\n.popsection");                                                                  \
	extern const char symbol[] EMBEDDED, symbol##_end[] EMBEDDED;
#include "kmod/source/patches/patches.def"
#undef X
// NOLINTEND(bugprone-macro-parentheses)

static const struct {
	const char *name, *start, *end;
} builtin[] = {
#define X(symbol, file) { file, symbol, symbol##_end },
#include "kmod/source/patches/patches.def"
#undef X
};

static void patch_done(struct patch *p)
{
	free(p->name);
	free(p->text);
}

void patches_done(struct patches *patches)
{
	for (size_t i = 0; i < patches->count; i++)
		patch_done(&patches->items[i]);
	free(patches->items);
	*patches = (struct patches){ 0 };
}

static void add_patch(struct patches *list, const char *name, const char *text, size_t len)
{
	struct patch patch = { .name = str_dup(name), .text = str_ndup(text, len), .len = len };
	digest_data(text, len, patch.digest);
	for (size_t i = 0; i < list->count; i++) {
		if (!str_eq(list->items[i].name, name))
			continue;
		patch_done(&list->items[i]);
		list->items[i] = patch;
		return;
	}
	list->items = mem_grow(list->items, list->count + 1, sizeof(patch));
	list->items[list->count++] = patch;
}

static int bad_header(const struct patch *patch, const char *why, const char *what, struct err *err)
{
	return err_set(err, E_PATCH, "patch '%s': %s '%s'", patch->name, why, what);
}

struct target {
	const struct source *source; // NULL, like tree: only check the syntax
	enum module_type flavour;
	const struct tree *tree;
};

// "FILE ~ REGEX": 1 = it matches, in the tree or in the source.
static int check_condition(const struct patch *patch, char *value, const struct target *to, bool is_of_source,
			   struct err *err)
{
	char *regex = strstr(value, " ~ ");
	if (!regex)
		return bad_header(patch, "expected 'FILE ~ REGEX' in", value, err);
	*regex = '\0';
	regex += strlen(" ~ ");
	value = str_trim(value);
	regex = str_trim(regex);
	if (str_matches("", regex) < 0)
		return bad_header(patch, "not a regular expression:", regex, err);
	if (!to->tree)
		return 1;
	int r = is_of_source ? source_matches(to->source, to->flavour, value, regex, err) :
			       tree_matches(to->tree, value, regex, err);
	return r < 0 ? err_code(err, E_PATCH) : r;
}

// One "Key: value" line: 1 = holds or is not a condition, 0 = the patch is not for this target.
static int check_header_line(const struct patch *patch, char *line, const struct target *to, struct err *err)
{
	char *value = strchr(line, ':');
	if (!value)
		return 1;
	*value++ = '\0';
	value = str_trim(value);
	enum module_type flavour;
	if (str_eq(line, "Driver"))
		return !to->source || fnmatch(value, to->source->version, 0) == 0;
	if (str_eq(line, "When") || str_eq(line, "Source"))
		return check_condition(patch, value, to, str_eq(line, "Source"), err);
	if (str_eq(line, "Unless")) {
		int r = check_condition(patch, value, to, false, err);
		return r < 0 || !to->tree ? r : !r;
	}
	if (!str_eq(line, "Flavour") || str_eq(value, "both"))
		return 1;
	if (!module_type_parse(value, &flavour))
		return bad_header(patch, "unknown flavour", value, err);
	return !to->tree || flavour == to->flavour;
}

// Has the source the old lines of every hunk? A file that is not known counts as if it had.
static int has_old_lines(const struct patch *patch, const struct target *to, struct err *err)
{
	auto_strv struct strv lines = { 0 };
	auto_str char *text = NULL, *old = NULL;
	strv_split(&lines, strstr(patch->text, "--- "), "\n");
	for (size_t i = 0; i <= lines.count; i++) {
		const char *line = i < lines.count ? lines.items[i] : "@@";
		if (text && old && (str_starts(line, "@@") || str_starts(line, "--- ")) && !strstr(text, old))
			return 0;
		if (str_starts(line, "@@")) {
			free(TAKE(old));
		} else if (str_starts(line, "--- a/")) {
			free(TAKE(old));
			free(TAKE(text));
			if (source_read(to->source, to->flavour, line + strlen("--- a/"), &text, err) < 0)
				return -1;
		} else if (*line == ' ' || *line == '-') {
			str_add(&old, "%s\n", line + 1);
		}
	}
	return 1;
}

static int is_for_target(const struct patch *patch, const struct target *to, struct err *err)
{
	auto_strv struct strv lines = { 0 };
	bool has_driver = false;
	int r = 1;
	strv_split(&lines, patch->text, "\n");
	for (size_t i = 0; i < lines.count && !str_starts(lines.items[i], "--- ") && r > 0; i++) {
		has_driver |= str_starts(lines.items[i], "Driver:");
		r = check_header_line(patch, lines.items[i], to, err);
	}
	if (r > 0 && !has_driver)
		return bad_header(patch, "the header lacks", "Driver: GLOB", err);
	return r > 0 && to->source && patch->is_builtin ? has_old_lines(patch, to, err) : r;
}

static int compare_patches(const void *a, const void *b)
{
	return strcmp(((const struct patch *)a)->name, ((const struct patch *)b)->name);
}

int patches_choose(const struct root *dir, const struct source *source, enum module_type flavour,
		   const struct tree *tree, struct patches *ret, struct err *err)
{
	const struct target to = { .source = source, .flavour = flavour, .tree = tree };
	auto_patches struct patches list = { 0 };
	auto_strv struct strv names = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(builtin); i++) {
		add_patch(&list, builtin[i].name, builtin[i].start, (size_t)(builtin[i].end - builtin[i].start));
		list.items[list.count - 1].is_builtin = true;
	}
	if (dir && root_list(dir, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *text = NULL;
		size_t len = 0;
		int r = str_ends(names.items[i], ".patch") ? root_read(dir, names.items[i], &text, &len, err) : 0;
		if (r < 0)
			return -1;
		if (r > 0)
			add_patch(&list, names.items[i], text, len);
	}
	qsort(list.items, list.count, sizeof(*list.items), compare_patches);
	// A mistake in a file is reported whether or not the file is for this target.
	for (size_t i = 0; i < list.count; i++)
		if (is_for_target(&list.items[i], &(struct target){ 0 }, err) < 0)
			return -1;
	size_t kept = 0;
	for (size_t i = 0; i < list.count; i++) {
		int r = is_for_target(&list.items[i], &to, err);
		if (r < 0)
			return -1;
		if (r > 0) {
			struct patch swap = list.items[kept];
			list.items[kept++] = list.items[i];
			list.items[i] = swap;
		}
	}
	for (size_t i = kept; i < list.count; i++)
		patch_done(&list.items[i]);
	list.count = kept;
	*ret = list;
	list = (struct patches){ 0 };
	return 0;
}

// In the sandbox: a source's own patches are as untrusted as the source. Standard input does not reach into it, so the
// text is written beside the source.
int patches_apply(const struct patches *patches, const struct root *source, const char *path, const struct root *base,
		  struct err *err)
{
	enum { DEADLINE_MS = 60000 };
	static const char TEXT[] = ".kmodsmith.patch";
	const char *env[] = { "LC_ALL=C", "PATH=/usr/bin:/bin", "TMPDIR=.", NULL };
	auto_str char *program = patches->count ? toolchain_program(base, path, "patch") : NULL;
	if (patches->count && !program)
		return err_set(err, E_TOOLCHAIN, "no patch(1) in %s", path);
	for (size_t i = 0; i < patches->count; i++) {
		const struct patch *patch = &patches->items[i];
		const char *argv[] = { program,
				       "-p1",
				       "--batch",
				       "--forward",
				       "--no-backup-if-mismatch",
				       "--reject-file=-",
				       "-i",
				       TEXT,
				       patch->is_builtin ? "--fuzz=0" : NULL,
				       NULL };
		const struct sandbox inside = {
			.base = base, .work = source, .argv = argv, .env = env, .timeout_ms = DEADLINE_MS
		};
		struct proc_end end;
		if (root_write(source, TEXT, patch->text, patch->len, 0644, err) < 0)
			return -1;
		int r = sandbox_run(&inside, &end, err);
		if (root_unlink(source, TEXT, err) < 0 || r < 0)
			return -1;
		if (end.status != 0)
			return err_set(err, E_PATCH, "patch '%s' does not apply: %.300s", patch->name, end.tail);
	}
	return 0;
}

int patches_series(const struct root *source, struct patches *ret, struct err *err)
{
	auto_patches struct patches list = { 0 };
	auto_str char *series = NULL;
	auto_strv struct strv names = { 0 };
	int r = root_read(source, "debian/patches/series", &series, NULL, err);
	if (r < 0)
		return -1;
	strv_split(&names, series ? series : "", "\n");
	for (size_t i = 0; i < names.count; i++) {
		char *name = str_trim(names.items[i]);
		auto_str char *path = str_fmt("debian/patches/%s", name), *text = NULL;
		size_t len = 0;
		if (!*name || *name == '#')
			continue;
		r = root_read(source, path, &text, &len, err);
		if (r <= 0)
			return r < 0 ? -1 :
				       err_set(err, E_PATCH, "the source lists '%s' but does not contain it", path);
		add_patch(&list, name, text, len);
	}
	*ret = list;
	list = (struct patches){ 0 };
	return 0;
}

int patches_check_removed(const struct root *dir, const struct source *source, enum module_type flavour,
			  const struct tree *tree, struct err *err)
{
	auto_patches struct patches needed = { 0 }, chosen = { 0 };
	if (!dir)
		return 0;
	if (patches_choose(NULL, source, flavour, tree, &needed, err) < 0 ||
	    patches_choose(dir, source, flavour, tree, &chosen, err) < 0)
		return -1;
	for (size_t i = 0; i < needed.count; i++) {
		const char *name = needed.items[i].name;
		size_t k = 0;
		while (k < chosen.count && !str_eq(chosen.items[k].name, name))
			k++;
		if (k == chosen.count)
			return err_set(err, E_SOURCE_KERNEL,
				       "driver %s (%s) does not compile for kernel %s without %s, and the file of that "
				       "name in '%s' is for another driver or kernel",
				       source->version, module_type_name(flavour), tree->release, name, dir->name);
	}
	return 0;
}
