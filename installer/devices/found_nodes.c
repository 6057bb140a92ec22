// SPDX-License-Identifier: Apache-2.0
#include "devices/found_nodes.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>

static bool has_number(const char *name, const char *prefix, uint64_t *ret)
{
	return str_starts(name, prefix) && str_u64(name + strlen(prefix), 10, ret);
}

// Adds the node at a path below dev/ if it is there with this number.
static void add_found(const struct node *node, const char *path, unsigned major, unsigned minor, struct devices *d)
{
	struct err ignored;
	struct stat st;
	auto_str char *full = str_fmt("dev/%s", path), *name = NULL;
	auto_fd int dir = root_parent(node->dev_root, full, &name, &ignored);
	if (dir < 0 || node->sys->node_look(node->sys, dir, name, &st) < 0 || !S_ISCHR(st.st_mode) ||
	    st.st_rdev != makedev(major, minor))
		return;
	d->items = mem_grow(d->items, d->count + 1, sizeof(*d->items));
	d->items[d->count++] = (struct device_node){ .path = str_dup(path),
						     .major = major,
						     .minor = minor,
						     .mode = st.st_mode & 0777,
						     .uid = st.st_uid,
						     .gid = st.st_gid,
						     .verdict = NODE_OK };
}

int found_drm_nodes(const struct node *node, const char *address, struct devices *ret, struct err *err)
{
	auto_devices struct devices d = { 0 };
	auto_strv struct strv names = { 0 };
	auto_str char *dir = str_fmt("sys/bus/pci/devices/%s/drm", address);
	if (root_list(node->kern, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		unsigned major, minor;
		uint64_t number;
		auto_str char *file = str_fmt("%s/%s/dev", dir, names.items[i]), *line = NULL;
		if (!has_number(names.items[i], "card", &number) && !has_number(names.items[i], "renderD", &number))
			continue;
		int r = root_line(node->kern, file, &line, err);
		if (r < 0)
			return -1;
		auto_str char *path = str_fmt("dri/%s", names.items[i]);
		if (r > 0 && sscanf(line, "%u:%u", &major, &minor) == 2)
			add_found(node, path, major, minor, &d);
	}
	*ret = d;
	d = (struct devices){ 0 };
	return 0;
}

int found_imex_channels(const struct node *node, struct devices *ret, struct err *err)
{
	auto_devices struct devices d = { 0 };
	auto_strv struct strv names = { 0 };
	auto_str char *table = NULL;
	int r = root_read(node->kern, "proc/devices", &table, NULL, err);
	if (r < 0 || root_list(node->dev_root, "dev/" IMEX_DIR, &names, err) < 0)
		return -1;
	unsigned major = r > 0 ? devices_major(table, IMEX_DIR) : 0;
	for (size_t i = 0; i < names.count && major; i++) {
		uint64_t minor;
		auto_str char *path = str_fmt(IMEX_DIR "/%s", names.items[i]);
		if (has_number(names.items[i], "channel", &minor) && minor < IMEX_CHANNELS)
			add_found(node, path, major, (unsigned)minor, &d);
	}
	devices_sort(&d);
	*ret = d;
	d = (struct devices){ 0 };
	return 0;
}
