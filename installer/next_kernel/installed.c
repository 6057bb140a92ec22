// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/installed.h"

#include "next_kernel/boot_loader.h"

static const char DIR_NAME[] = "lib/modules";

// Leftovers of a removed kernel (built modules, empty directories) do not count.
static bool is_installed_kernel(const struct root *host, const char *release)
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

// Of deployments of an image-based host: the next one, and those that the machine could go back to.
static void add_deployment_kernels(const struct root *host, struct strv *names)
{
	auto_ostree_deployments struct ostree_deployments all = { 0 };
	boot_ostree_read(host, host, &all);
	for (size_t i = 0; i < all.count; i++) {
		struct err ignored;
		auto_strv struct strv found = { 0 };
		auto_str char *dir = str_fmt("%s/usr/lib/modules", all.items[i].path);
		root_list(host, dir, &found, &ignored);
		for (size_t k = 0; k < found.count; k++)
			if (!strv_has(names, found.items[k]))
				strv_add(names, str_dup(found.items[k]));
	}
}

int installed_kernels(const struct root *host, const char *running, struct strv *ret, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(host, DIR_NAME, &names, err) < 0)
		return -1;
	if (running && !strv_has(&names, running))
		strv_add(&names, str_dup(running));
	for (size_t i = 0; i < names.count; i++)
		if (str_eq(names.items[i], running) || is_installed_kernel(host, names.items[i]))
			strv_add(ret, str_dup(names.items[i]));
	add_deployment_kernels(host, ret);
	strv_sort(ret);
	return 0;
}
