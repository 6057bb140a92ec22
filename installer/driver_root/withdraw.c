// SPDX-License-Identifier: Apache-2.0
#include "driver_root/withdraw.h"

#include "base/file/file.h"
#include "driver_root/generation.h"
#include "driver_root/generation_gc.h"
#include "driver_root/root_record.h"

#include <errno.h>

// Where the kernel looks when this export is gone.
static struct firmware_search search_without(const struct export *e, const struct firmware_search *search,
					     struct strv *ret_dirs)
{
	struct firmware_search ret = *search;
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
static char *needed_file(const struct export *e, const struct firmware_search *search, const char *driver)
{
	auto_str char *version = str_fmt("nvidia/%s", driver);
	auto_str char *dir = str_fmt("%s/" EXPORT_FIRMWARE "/%s", e->dir, version);
	auto_strv struct strv names = { 0 }, dirs = { 0 };
	struct firmware_search others = search_without(e, search, &dirs);
	struct err ignored;
	root_list(e->host, dir, &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *name = str_fmt("%s/%s", version, names.items[i]);
		auto_str char *found = firmware_find(e->host, &others, name);
		if (!found)
			return TAKE(name);
	}
	return NULL;
}

// 1 = the kernel's path leads here, and may be unset; 0 = it does not.
static int check_path(const struct export *e, const char *release, const char *driver, struct err *err)
{
	auto_firmware_search struct firmware_search search = { 0 };
	if (firmware_search(e->host, e->kern, release, &search, err) < 0)
		return -1;
	if (!search.path || !*search.path || !export_is_path(e, search.path))
		return 0;
	auto_str char *needed = driver ? needed_file(e, &search, driver) : NULL;
	return needed ? err_set(err, E_FIRMWARE,
				"the kernel finds '%s' of the driver that is loaded only in the export /%s", needed,
				e->dir) :
			1;
}

// The directory may be bound by consumers and the kubelet.
static int clear_place(const struct export *e, struct err *err)
{
	auto_space struct space space = SPACE_NONE;
	auto_root struct root parent = ROOT_NONE;
	const struct stack stack = { .space = &space, .parent = &parent, .name = e->base, .source = GENERATION_SOURCE };
	if (!root_exists(e->host, e->dir))
		return 0;
	return space_open(e->host, e->kern, e->sys, &space, err) < 0 ||
			       root_sub(e->host, e->parent, &parent, err) < 0 || stack_clear(&stack, err) < 0 ?
		       -1 :
		       0;
}

// The record last: killed before, the next start sees that something is to be withdrawn.
int withdraw_export(const struct export *e, const char *release, const char *driver, bool is_last, struct err *err)
{
	int has_path = is_last ? check_path(e, release, driver, err) : 0;
	if (has_path < 0)
		return -1;
	if (e->sys->record)
		return err_set(err, EOPNOTSUPP, "a recorded machine has no mounts, so nothing is withdrawn");
	if ((has_path > 0 && export_unset_path(e, err) < 0) || clear_place(e, err) < 0)
		return -1;
	int r = is_last ? exported_restore(e->host, NULL, err) : exported_forget(e->host, err);
	return r < 0 || collect_unused(e, err) < 0 ? -1 : 0;
}
