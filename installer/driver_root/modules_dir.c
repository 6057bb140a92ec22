// SPDX-License-Identifier: Apache-2.0
#include "driver_root/modules_dir.h"

#include "base/file/copy.h"
#include "host/module_set.h"
#include "kmod/load/depindex.h"
#include "kmod/load/load.h"

#include <errno.h>

// Of our modules, beside the kernel's own directories.
static const char DIR_NAME[] = "kmodsmith";
// A tree that another version of this file made is another tree.
static const char FORMAT[] = "3";

// Every distribution writes modules.dep anew when the tree changes.
int modules_dir_key(const struct package *p, const char *release, const struct root *host, char ret[DIGEST_HEX + 1],
		    struct err *err)
{
	auto_str char *path = str_fmt("lib/modules/%s/modules.dep", release), *text = NULL;
	struct digest *sum = digest_new();
	size_t len = 0;
	int r = root_read(host, path, &text, &len, err);
	digest_add(sum, FORMAT, strlen(FORMAT));
	digest_add(sum, p->manifest.digest, DIGEST_HEX);
	digest_add(sum, release, strlen(release));
	if (r > 0)
		digest_add(sum, text, len);
	digest_hex(sum, ret);
	return r < 0 ? -1 : 0;
}

struct making {
	const struct package *p;
	const char *tree; // of the kernel, below host
	const struct root *host, *into;
};

static char *line_path(const char *line)
{
	return str_ndup(line, strcspn(line, ":"));
}

// The line of a module; NULL = there is none.
static const char *find_module_line(const struct strv *lines, const char *module)
{
	for (size_t i = 0; i < lines->count; i++) {
		auto_str char *path = line_path(lines->items[i]), *name = depindex_name(path);
		if (module_name_eq(name, module))
			return lines->items[i];
	}
	return NULL;
}

// What a module needs and all that this needs: the paths of a line, itself first. modprobe loads from the end of a
// line, so what is needed again moves behind everything that needs it.
static void add_line_needs(const char *line, struct strv *ret)
{
	auto_strv struct strv paths = { 0 };
	strv_split(&paths, line, ": ");
	for (size_t i = 0; i < paths.count; i++) {
		size_t kept = 0;
		for (size_t k = 0; k < ret->count; k++)
			if (str_eq(ret->items[k], paths.items[i]))
				free(ret->items[k]);
			else
				ret->items[kept++] = ret->items[k];
		ret->count = kept;
		strv_add(ret, str_dup(paths.items[i]));
	}
}

// Lines of modules.dep. Modules come after those that they need, so the lines of these are there already. What the
// machine does not have is left out, as depmod does.
static int add_package_lines(const struct package *p, const struct module_set *set, const struct strv *kernel,
			     struct strv *ret, struct err *err)
{
	size_t *order = mem_alloc((set->count + 1) * sizeof(*order));
	int r = load_order(set->pointers, set->count, order, err);
	for (size_t i = 0; r == 0 && i < set->count; i++) {
		const struct strv *depends = &set->items[order[i]].depends;
		auto_strv struct strv needs = { 0 };
		for (size_t k = 0; k < depends->count; k++) {
			const char *own = find_module_line(ret, depends->items[k]);
			const char *line = own ? own : find_module_line(kernel, depends->items[k]);
			if (line)
				add_line_needs(line, &needs);
		}
		auto_str char *text = needs.count ? strv_join(&needs, " ") : str_dup("");
		strv_add(ret, str_fmt("%s/%s:%s%s", DIR_NAME, p->files[order[i]].name, *text ? " " : "", text));
	}
	free(order);
	return r;
}

static int write_dep_index(const struct root *into, const char *name, const struct strv *lines,
			   char *(*make)(const struct strv *, size_t *), struct err *err)
{
	size_t len = 0;
	auto_str char *joined = lines->count ? strv_join(lines, "\n") : str_dup(""), *index = make(lines, &len);
	auto_str char *bin = str_fmt("%s.bin", name);
	str_add(&joined, "\n");
	return root_write(into, name, joined, strlen(joined), 0644, err) < 0 ?
		       -1 :
		       root_write(into, bin, index, len, 0644, err);
}

static int read_kernel_lines(const struct making *k, const char *name, struct strv *ret, struct err *err)
{
	auto_str char *path = str_fmt("%s/%s", k->tree, name), *text = NULL;
	int r = root_read(k->host, path, &text, NULL, err);
	strv_split(ret, text ? text : "", "\n");
	return r;
}

static int write_dependencies(const struct making *k, const struct module_set *set, struct err *err)
{
	auto_strv struct strv kernel = { 0 }, own = { 0 }, all = { 0 };
	if (read_kernel_lines(k, "modules.dep", &kernel, err) < 0 ||
	    add_package_lines(k->p, set, &kernel, &own, err) < 0)
		return -1;
	for (size_t i = 0; i < own.count; i++)
		strv_add(&all, str_dup(own.items[i]));
	for (size_t i = 0; i < kernel.count; i++) {
		auto_str char *path = line_path(kernel.items[i]), *name = depindex_name(path);
		// A driver that the host has, too, is not the one of this root.
		if (!str_starts(name, "nvidia") || !find_module_line(&own, name))
			strv_add(&all, str_dup(kernel.items[i]));
	}
	return write_dep_index(k->into, "modules.dep", &all, depindex_make, err);
}

// "alias PATTERN MODULE"
static bool is_package_alias(const char *line, const struct module_set *set)
{
	const char *module = strrchr(line, ' ');
	for (size_t i = 0; module && i < set->count; i++)
		if (module_name_eq(module + 1, set->items[i].name))
			return true;
	return false;
}

// The devices of our modules beside those of the kernel's own. A machine that has only the index, and not the text that
// it was made from, keeps that: the kernel's own are the more.
static int write_aliases(const struct making *k, const struct module_set *set, struct err *err)
{
	auto_strv struct strv kernel = { 0 }, all = { 0 };
	int r = read_kernel_lines(k, "modules.alias", &kernel, err);
	if (r < 0 || (r == 0 && root_exists(k->into, "modules.alias.bin")))
		return r;
	for (size_t i = 0; i < kernel.count; i++)
		if (!is_package_alias(kernel.items[i], set))
			strv_add(&all, str_dup(kernel.items[i]));
	for (size_t i = 0; i < set->count; i++)
		for (size_t j = 0; j < set->items[i].aliases.count; j++)
			strv_add(&all, str_fmt("alias %s %s", set->items[i].aliases.items[j], set->items[i].name));
	return write_dep_index(k->into, "modules.alias", &all, depindex_aliases, err);
}

// Its directories become places to mount them on; its other indexes name modules, not files, so they hold here, too.
// The links build and source say where its headers would be.
static int add_kernel_entry(const struct making *k, const char *name, struct err *err)
{
	auto_str char *path = str_fmt("%s/%s", k->tree, name);
	struct stat st;
	int r = root_stat(k->host, path, &st, err);
	if (r <= 0 || str_starts(name, "modules.dep"))
		return r < 0 ? -1 : 0;
	if (S_ISDIR(st.st_mode))
		return root_mkdirs(k->into, name, 0755, err);
	if (S_ISLNK(st.st_mode) && (str_eq(name, "build") || str_eq(name, "source")))
		return copy_entry(k->host, path, k->into, name, err);
	return S_ISREG(st.st_mode) && str_starts(name, "modules.") ? copy_entry(k->host, path, k->into, name, err) : 0;
}

static int fill_modules_dir(const struct making *k, struct err *err)
{
	auto_strv struct strv names = { 0 }, files = { 0 };
	auto_module_set struct module_set set = { 0 };
	if (root_list(k->host, k->tree, &names, err) < 0 || root_mkdirs(k->into, DIR_NAME, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (!str_eq(names.items[i], DIR_NAME) && add_kernel_entry(k, names.items[i], err) < 0)
			return -1;
	for (size_t i = 0; i < k->p->count; i++) {
		auto_str char *path = str_fmt("%s/%s", DIR_NAME, k->p->files[i].name);
		if (copy_entry(&k->p->dir, k->p->files[i].name, k->into, path, err) < 0)
			return -1;
		strv_add(&files, str_dup(k->p->files[i].name));
	}
	return module_set_read(&k->p->dir, &files, &set, err) < 0 || write_dependencies(k, &set, err) < 0 ?
		       -1 :
		       write_aliases(k, &set, err);
}

int modules_dir_make(const struct package *p, const char *release, const struct root *host, const struct root *store,
		     const char *key, struct err *err)
{
	auto_scratch struct scratch into = SCRATCH_NONE;
	auto_str char *tree = str_fmt("lib/modules/%s", release);
	const struct making k = { .p = p, .tree = tree, .host = host, .into = &into.root };
	if (root_exists(store, key))
		return 0;
	if (scratch_make(store, "modules", &into, err) < 0 || fill_modules_dir(&k, err) < 0)
		return err_wrap(err, "make the modules directory");
	return scratch_keep(&into, key, err);
}
