// SPDX-License-Identifier: Apache-2.0
#include "driver_root/withdraw.h"

#include "base/file/file.h"
#include "driver_root/generation.h"
#include "driver_root/generation_gc.h"
#include "driver_root/root_record.h"

#include <errno.h>

// Where the kernel looks when this export is gone.
static struct firmware_path path_without_root(const struct driver_root *e, const struct firmware_path *search,
					      struct strv *ret_dirs)
{
	struct firmware_path ret = *search;
	auto_str char *own = str_fmt("%s/", e->dir);
	for (size_t i = 0; i < search->dirs.count; i++) {
		const char *dir = search->dirs.items[i];
		if (!str_starts(dir + strspn(dir, "/"), own))
			strv_add(ret_dirs, str_dup(dir));
	}
	ret.dirs = *ret_dirs;
	return ret;
}

// What it has of the driver's firmware, and nobody else has. NULL = nothing.
static char *find_needed_firmware(const struct driver_root *e, const struct firmware_path *search, const char *driver)
{
	auto_str char *version = str_fmt("nvidia/%s", driver);
	auto_str char *dir = str_fmt("%s/" DRIVER_ROOT_FIRMWARE "/%s", e->dir, version);
	auto_strv struct strv names = { 0 }, dirs = { 0 };
	struct firmware_path others = path_without_root(e, search, &dirs);
	struct err ignored;
	root_list(e->host, dir, &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *name = str_fmt("%s/%s", version, names.items[i]);
		auto_str char *found = firmware_path_find(e->host, &others, name);
		if (!found)
			return TAKE(name);
	}
	return NULL;
}

// 1 = the kernel's path leads here, and may be unset; 0 = it does not.
static int check_firmware_path(const struct driver_root *e, const char *release, const char *driver, struct err *err)
{
	auto_firmware_path struct firmware_path search = { 0 };
	if (firmware_path(e->host, e->kern, release, &search, err) < 0)
		return -1;
	if (!search.path || !*search.path || !driver_root_is_firmware_path(e, search.path))
		return 0;
	auto_str char *needed = driver ? find_needed_firmware(e, &search, driver) : NULL;
	return needed ? err_set(err, E_FIRMWARE,
				"the kernel finds '%s' of the driver that is loaded only in the export /%s", needed,
				e->dir) :
			1;
}

// The directory may be bound by consumers and the kubelet.
static int clear_driver_root(const struct driver_root *e, struct err *err)
{
	auto_mount_ns struct mount_ns mount_ns = MOUNT_NS_NONE;
	auto_root struct root parent = ROOT_NONE;
	const struct overmount overmount = {
		.mount_ns = &mount_ns, .parent = &parent, .name = e->base, .source = GENERATION_SOURCE
	};
	if (!root_exists(e->host, e->dir))
		return 0;
	return mount_ns_open(e->host, e->kern, e->sys, &mount_ns, err) < 0 ||
			       root_sub(e->host, e->parent, &parent, err) < 0 || overmount_clear(&overmount, err) < 0 ?
		       -1 :
		       0;
}

// The record last: killed before, the next start sees that something is to be withdrawn.
int withdraw_driver_root(const struct driver_root *e, const char *release, const char *driver, bool is_last,
			 struct err *err)
{
	int has_path = is_last ? check_firmware_path(e, release, driver, err) : 0;
	if (has_path < 0)
		return -1;
	if (e->sys->record)
		return err_set(err, EOPNOTSUPP, "a recorded machine has no mounts, so nothing is withdrawn");
	if ((has_path > 0 && driver_root_unset_firmware_path(e, err) < 0) || clear_driver_root(e, err) < 0)
		return -1;
	int r = is_last ? root_record_restore(e->host, NULL, err) : root_record_drop_former(e->host, err);
	return r < 0 || generation_gc(e, err) < 0 ? -1 : 0;
}
