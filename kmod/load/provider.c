// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/provider.h"

#include "kmod/load/depindex.h"
#include "kmod/load/host_modules.h"
#include "kmod/load/load.h"

#include <fcntl.h>

// "kernel/drivers/gpu/drm/drm.ko.xz" is the need "drivers/gpu/drm/drm" as well as "drm".
static bool is_need(const char *path, const char *need)
{
	size_t len = strlen(path);
	const char *end = strstr(path, ".ko");
	if (end)
		len = (size_t)(end - path);
	auto_str char *stem = str_ndup(path, len);
	if (str_starts(stem, "kernel/") && str_eq(stem + strlen("kernel/"), need))
		return true;
	const char *slash = strrchr(stem, '/');
	return !strchr(need, '/') && module_name_eq(slash ? slash + 1 : stem, need);
}

// Paths of the module and of all it depends on, the module first: a line of modules.dep without the colon. 1 = found,
// 0 = not listed.
static int find_dep_line(const struct root *host, const char *release, const char *need, struct strv *ret,
			 struct err *err)
{
	auto_str char *path = str_fmt("lib/modules/%s/modules.dep", release);
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	if (root_read(host, path, &text, NULL, err) < 0)
		return -1;
	strv_split(&lines, text ? text : "", "\n");
	for (size_t i = 0; i < lines.count; i++) {
		auto_strv struct strv words = { 0 };
		strv_split(&words, lines.items[i], ": ");
		if (words.count && is_need(words.items[0], need)) {
			*ret = words;
			words = (struct strv){ 0 };
			return 1;
		}
	}
	return 0;
}

// The kernel has it already, or will have it when its init function has returned.
static bool is_file_loaded(const struct root *kern, const char *file)
{
	auto_str char *name = depindex_name(file), *path = str_fmt("sys/module/%s", name);
	return root_exists(kern, path);
}

char *provider_path(const char *release, const char *file)
{
	return *file == '/' ? str_dup(file + 1) : str_fmt("lib/modules/%s/%s", release, file);
}

// The files that have to be loaded for a need, in reverse order of loading.
static int find_needed_files(const struct root *host, const struct root *kern, const char *release, const char *need,
			     struct strv *ret, struct err *err)
{
	auto_strv struct strv files = { 0 }, forbidden = { 0 };
	int r = find_dep_line(host, release, need, &files, err);
	if (r < 0)
		return err_code(err, E_HOST_MODULES);
	if (r == 0 && is_file_loaded(kern, need))
		return 0;
	if (r == 0) {
		auto_str char *list = str_fmt("lib/modules/%s/modules.dep", release);
		return err_set(err, E_HOST_MODULES, "the kernel's module '%s' is needed, and '%s/%s' %s", need,
			       host->name, list, root_exists(host, list) ? "does not list it" : "is not there");
	}
	if (host_modules_forbidden(kern, &forbidden, err) < 0)
		return -1;
	for (size_t i = 0; i < files.count; i++) {
		auto_str char *path = provider_path(release, files.items[i]), *name = depindex_name(files.items[i]);
		if (is_file_loaded(kern, files.items[i]))
			continue;
		if (strv_has(&forbidden, name)) {
			err_set(err, E_HOST_MODULES,
				"the kernel's module '%s' is needed, and the kernel command line forbids %s: "
				"module_blacklist= of /proc/cmdline",
				need, name);
			return host_modules_next(err);
		}
		if (!root_exists(host, path))
			return err_set(err, E_HOST_MODULES,
				       "the kernel's module '%s' is needed, modules.dep lists it, and its file "
				       "'%s/%s' is not there",
				       need, host->name, path);
		strv_add(ret, TAKE(path));
	}
	return 0;
}

int provider_check(const struct root *host, const struct root *kern, const char *release, const char *need,
		   struct err *err)
{
	auto_strv struct strv paths = { 0 };
	return find_needed_files(host, kern, release, need, &paths, err);
}

bool provider_has(const struct root *host, const char *release, const char *need)
{
	struct err ignored;
	auto_strv struct strv files = { 0 };
	if (find_dep_line(host, release, need, &files, &ignored) <= 0)
		return false;
	for (size_t i = 0; i < files.count; i++) {
		auto_str char *path = provider_path(release, files.items[i]);
		if (!root_exists(host, path))
			return false;
	}
	return true;
}

// Argument of a module's load: "debug=1 name=\"a b\""; "" = none.
static char *argument_of(const struct host_modules *m, const char *module)
{
	char *ret = str_dup("");
	for (size_t i = 0; i < m->count; i++) {
		const char *word = m->params[i].word, *value = strchr(word, '=');
		if (!module_name_eq(m->params[i].module, module))
			continue;
		const char *quote = value && strpbrk(value, " \t") ? "\"" : "";
		value = value ? value + 1 : word + strlen(word);
		str_add(&ret, "%s%.*s%s%s%s", *ret ? " " : "", (int)(value - word), word, quote, value, quote);
	}
	return ret;
}

int provider_load(const struct root *host, const struct root *kern, const struct sys *sys, const char *release,
		  const char *need, int timeout_ms, struct err *err)
{
	auto_strv struct strv paths = { 0 };
	auto_host_modules struct host_modules options = { 0 };
	int changed = 0;
	if (find_needed_files(host, kern, release, need, &paths, err) < 0 ||
	    (paths.count && host_modules_read(host, kern, &options, err) < 0))
		return -1;
	for (size_t i = paths.count; i-- > 0;) {
		auto_module struct module m = MODULE_NONE;
		auto_fd int fd = root_open(host, paths.items[i], O_RDONLY, err);
		int r = fd < 0 ? -1 : module_read(fd, paths.items[i], &m, err);
		if (r == 0) {
			auto_str char *argument = argument_of(&options, m.name);
			r = load_module(sys, kern, &m, argument, timeout_ms, err);
		}
		if (r < 0) {
			// A fault of the host's module is not the fault of the driver that needs it.
			if (err->code != E_WEDGED && !err_info(err->code)->retryable)
				err_code(err, E_HOST_MODULES);
			return err_wrap(err, "the kernel's module '%s' is needed", need);
		}
		changed |= r;
	}
	return changed;
}
