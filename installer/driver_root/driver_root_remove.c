// SPDX-License-Identifier: Apache-2.0
#include "driver_root/driver_root.h"

#include "base/file/file.h"
#include "driver_root/generation.h"
#include "driver_root/mount_users.h"
#include "driver_root/root_record.h"

#include <errno.h>

// Looking at every process is expensive, and mostly there is nothing to remove.
struct collecting {
	const struct driver_root *e;
	struct mount_ns mount_ns;
	struct root parent;
	struct mount_users mount_users;
	bool has_mount_users;
	size_t kept;
};

static void collecting_done(struct collecting *c)
{
	mount_users_done(&c->mount_users);
	root_done(&c->parent);
	mount_ns_done(&c->mount_ns);
}
#define auto_collecting __attribute__((cleanup(collecting_done)))

// 1 = in use, or unknown.
static int is_tree_used(struct collecting *c, const struct root *parent, const char *name, struct err *err)
{
	auto_mountinfo struct mountinfo now = { 0 };
	auto_fs_dir struct fs_dir fs_dir = { 0 };
	auto_str char *above = mount_ns_path(&c->mount_ns, parent->fd);
	if (!above)
		return 1;
	auto_str char *path = str_fmt("%s/%s", str_eq(above, "/") ? "" : above, name);
	if (!c->has_mount_users && mount_users_read(c->e->kern, &c->mount_users, err) < 0)
		return -1;
	c->has_mount_users = true;
	if (c->mount_users.is_partial)
		return 1;
	if (mount_ns_mounts(&c->mount_ns, &now, err) < 0)
		return -1;
	mountinfo_locate(&now, path, &fs_dir);
	return mount_users_has(&c->mount_users, &fs_dir, path);
}

// Prepared generations: never put in place, or only as a copy. No other process has bound them.
static int collect_generations(struct collecting *c, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (generation_list(&c->parent, c->e->base, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (generation_remove(&c->mount_ns, &c->parent, names.items[i], err) < 0)
			return -1;
	return 0;
}

// After the generations, because each of them shows its trees.
static int collect_trees(struct collecting *c, const char *kind, const char *present, struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	if (!root_exists(c->e->state, kind))
		return 0;
	if (root_sub(c->e->state, kind, &store, err) < 0 || root_list(&store, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		if (!digest_is_hex(names.items[i]) || str_eq(names.items[i], present))
			continue;
		int used = is_tree_used(c, &store, names.items[i], err);
		if (used < 0 || (!used && root_rmtree(&store, names.items[i], err) < 0))
			return -1;
		c->kept += (size_t)used;
	}
	return 0;
}

int driver_root_gc(const struct driver_root *e, struct err *err)
{
	auto_collecting struct collecting c = { .e = e, .mount_ns = MOUNT_NS_NONE, .parent = ROOT_NONE };
	auto_root_record struct root_record now = { 0 };
	if (!root_exists(e->host, e->parent))
		return 1;
	if (root_record_read(e->host, e->boot, &now, err) < 0 ||
	    mount_ns_open(e->host, e->kern, e->sys, &c.mount_ns, err) < 0 ||
	    root_sub(e->host, e->parent, &c.parent, err) < 0 || collect_generations(&c, err) < 0 ||
	    collect_trees(&c, DRIVER_ROOT_PAYLOADS, now.payload, err) < 0 ||
	    collect_trees(&c, DRIVER_ROOT_MODULES, now.modules, err) < 0 ||
	    collect_trees(&c, DRIVER_ROOT_SOURCES, now.sources, err) < 0)
		return -1;
	return !c.kept;
}

// Where the kernel will look once this export is gone.
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

// A firmware file of the driver that is only in this export. NULL = none.
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
	return needed ? err_set(err, E_FIRMWARE, "the loaded driver's firmware '%s' is only in the export /%s", needed,
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

// The record goes last: after a kill before that, the next start removes the rest.
int driver_root_withdraw(const struct driver_root *e, const char *release, const char *driver, bool is_last,
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
	return r < 0 || driver_root_gc(e, err) < 0 ? -1 : 0;
}
