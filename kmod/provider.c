// SPDX-License-Identifier: Apache-2.0
#include "kmod/provider.h"

#include "kmod/load.h"

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
static int find_line(const struct root *host, const char *release, const char *need, struct strv *ret, struct err *err)
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

int provider_has(const struct root *host, const char *release, const char *need, struct err *err)
{
	auto_strv struct strv files = { 0 };
	return find_line(host, release, need, &files, err);
}

static int load_one(const struct root *host, const struct root *kern, const struct sys *sys, const char *release,
		    const char *file, int timeout_ms, struct err *err)
{
	auto_str char *path = str_fmt("lib/modules/%s/%s", release, file);
	auto_module struct module m = MODULE_NONE;
	auto_fd int fd = root_open(host, path, O_RDONLY, err);
	if (fd < 0 || module_read(fd, path, &m, err) < 0)
		return -1;
	return load_module(sys, kern, &m, NULL, timeout_ms, err);
}

int provider_load(const struct root *host, const struct root *kern, const struct sys *sys, const char *release,
		  const char *need, int timeout_ms, struct err *err)
{
	auto_strv struct strv files = { 0 };
	int changed = 0;
	int r = find_line(host, release, need, &files, err);
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, E_SYMBOL,
			       "module '%s' is needed and '%s/lib/modules/%s/modules.dep' does not list it", need,
			       host->name, release);
	for (size_t i = files.count; i-- > 0;) {
		r = load_one(host, kern, sys, release, files.items[i], timeout_ms, err);
		if (r < 0)
			return err_wrap(err, "load what the driver needs");
		changed |= r;
	}
	return changed;
}
