// SPDX-License-Identifier: Apache-2.0
#include "driver_root/generation_gc.h"

#include "driver_root/generation.h"
#include "driver_root/mount_users.h"
#include "driver_root/root_record.h"

// Looking at every process is not free, and mostly there is nothing to remove.
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

// 1 = somebody looks at it, or it cannot be told.
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

// What was prepared: it was never put in place, or a copy of it was. Nobody else has bound it.
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

int generation_gc(const struct driver_root *e, struct err *err)
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
