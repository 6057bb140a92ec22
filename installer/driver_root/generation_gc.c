// SPDX-License-Identifier: Apache-2.0
#include "driver_root/generation_gc.h"

#include "driver_root/generation.h"
#include "driver_root/mount_users.h"
#include "driver_root/root_record.h"

// Looking at every process is not free, and mostly there is nothing to remove.
struct collecting {
	const struct export *e;
	struct space space;
	struct root parent;
	struct views views;
	bool has_views;
	size_t kept;
};

static void collecting_done(struct collecting *c)
{
	views_done(&c->views);
	root_done(&c->parent);
	space_done(&c->space);
}
#define auto_collecting __attribute__((cleanup(collecting_done)))

// 1 = somebody looks at it, or it cannot be told.
static int is_used(struct collecting *c, const struct root *parent, const char *name, struct err *err)
{
	auto_mounts struct mounts now = { 0 };
	auto_spot struct spot spot = { 0 };
	auto_str char *above = space_path(&c->space, parent->fd);
	if (!above)
		return 1;
	auto_str char *path = str_fmt("%s/%s", str_eq(above, "/") ? "" : above, name);
	if (!c->has_views && views_read(c->e->kern, &c->views, err) < 0)
		return -1;
	c->has_views = true;
	if (c->views.is_partial)
		return 1;
	if (space_mounts(&c->space, &now, err) < 0)
		return -1;
	mounts_spot(&now, path, &spot);
	return views_has(&c->views, &spot, path);
}

// What was prepared: it was never put in place, or a copy of it was. Nobody else has bound it.
static int collect_generations(struct collecting *c, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (generation_list(&c->parent, c->e->base, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (generation_remove(&c->space, &c->parent, names.items[i], err) < 0)
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
		int used = is_used(c, &store, names.items[i], err);
		if (used < 0 || (!used && root_rmtree(&store, names.items[i], err) < 0))
			return -1;
		c->kept += (size_t)used;
	}
	return 0;
}

int collect_unused(const struct export *e, struct err *err)
{
	auto_collecting struct collecting c = { .e = e, .space = SPACE_NONE, .parent = ROOT_NONE };
	auto_exported struct exported now = { 0 };
	if (!root_exists(e->host, e->parent))
		return 1;
	if (exported_record(e->host, e->boot, &now, err) < 0 ||
	    space_open(e->host, e->kern, e->sys, &c.space, err) < 0 ||
	    root_sub(e->host, e->parent, &c.parent, err) < 0 || collect_generations(&c, err) < 0 ||
	    collect_trees(&c, EXPORT_PAYLOADS, now.payload, err) < 0 ||
	    collect_trees(&c, EXPORT_MODULES, now.modules, err) < 0 ||
	    collect_trees(&c, EXPORT_SOURCES, now.sources, err) < 0)
		return -1;
	return !c.kept;
}
