// SPDX-License-Identifier: Apache-2.0
#include "driver_root/selinux.h"

#include "base/file/file.h"

#include <errno.h>

// What container-selinux lets each container read, whatever its categories.
static const char CONTEXT[] = "system_u:object_r:container_file_t:s0", TYPE[] = "selinuxfs", DEV[] = "dev";

int selinux_is_enabled(const struct root *kern, struct err *err)
{
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	int r = root_read(kern, "proc/1/mounts", &text, NULL, err);
	if (r <= 0)
		return r;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		auto_strv struct strv fields = { 0 };
		strv_split(&fields, lines.items[i], " ");
		if (fields.count > 2 && str_eq(fields.items[2], TYPE))
			return 1;
	}
	return 0;
}

// A file system without such labels has one for all of it, given when it was mounted.
static int label_file(const struct sys *sys, const struct root *root, const char *path, struct err *err)
{
	auto_str char *name = NULL;
	auto_fd int dir = root_parent(root, path, &name, err);
	if (dir < 0)
		return -1;
	return sys->label_set(sys, dir, name, CONTEXT) == 0 || errno == EOPNOTSUPP ? 0 : file_fail("label", path, err);
}

int selinux_label_tree(const struct sys *sys, const struct root *root, const char *path, struct err *err)
{
	auto_strv struct strv names = { 0 };
	struct stat st;
	int r = root_stat(root, path, &st, err);
	if (r <= 0)
		return r;
	if (S_ISDIR(st.st_mode) && root_list(root, path, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *below = str_fmt("%s/%s", path, names.items[i]);
		if (selinux_label_tree(sys, root, below, err) < 0)
			return -1;
	}
	return label_file(sys, root, path, err);
}

int selinux_label_nodes(const struct sys *sys, const struct root *host, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(host, DEV, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", DEV, names.items[i]);
		if (str_starts(names.items[i], "nvidia") && selinux_label_tree(sys, host, path, err) < 0)
			return -1;
	}
	return 0;
}
