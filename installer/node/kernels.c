// SPDX-License-Identifier: Apache-2.0
#include "node/kernels.h"

static const char DIR_NAME[] = "lib/modules";

// What a removed kernel leaves behind (built modules, empty directories) is no kernel.
static bool is_kernel(const struct root *host, const char *release)
{
	static const char *const marks[] = { "vmlinuz", "modules.dep" };
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		auto_str char *path = str_fmt("%s/%s/%s", DIR_NAME, release, marks[i]);
		if (root_exists(host, path))
			return true;
	}
	auto_str char *image = str_fmt("boot/vmlinuz-%s", release);
	return root_exists(host, image);
}

int kernels_list(const struct root *host, const char *running, struct strv *ret, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(host, DIR_NAME, &names, err) < 0)
		return -1;
	if (running && !strv_has(&names, running))
		strv_add(&names, str_dup(running));
	strv_sort(&names);
	for (size_t i = 0; i < names.count; i++)
		if (str_eq(names.items[i], running) || is_kernel(host, names.items[i]))
			strv_add(ret, str_dup(names.items[i]));
	return 0;
}
