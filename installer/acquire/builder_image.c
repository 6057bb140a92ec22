// SPDX-License-Identifier: Apache-2.0
// Builder roots: STATE/builders/HEX, the digest of the parcel. Each is some hundred megabytes, and only the last one is
// of use: who compiles on top of one holds a shared lock, STATE/locks/builder-HEX, and what nobody holds goes when
// another comes.
#include "acquire/acquire.h"

#include "base/file/lockfile.h"

#include <sys/file.h>

#define DIR "builders"

static int lock_builder_root(const struct root *state, const char *hex, int how, int wait_ms, struct err *err)
{
	auto_str char *name = str_fmt("builder-%s", hex);
	return lockfile_take(state, name, how, wait_ms, err);
}

// Held from before it is there: nobody takes it away in between.
static int unpack_builder_root(struct acquire *o, const struct root *trees, char ret_hex[DIGEST_HEX + 1],
			       struct err *err)
{
	struct asset_key want = { .kind = &ASSET_BUILDER, .arch = o->want.arch };
	if (acquire_asset(o, &want, E_NO_PACKAGE, ret_hex, err) < 0)
		return -1;
	close_fdp(&o->builder_use);
	o->builder_use = lock_builder_root(o->fetch.state, ret_hex, LOCK_SH, LOCKFILE_WAIT_MS, err);
	return o->builder_use < 0 ? -1 : asset_unpack(&o->store.layout, ret_hex, trees, err);
}

static int quarantine_builder_layer(const struct acquire *o, const char *hex, const struct err *damage, struct err *err)
{
	char layer[DIGEST_HEX + 1];
	if (o->progress)
		progress_note(o->progress, "%s; quarantined", damage->text);
	if (asset_layer(&o->store.layout, hex, layer, err) < 0)
		return -1;
	return store_quarantine(&o->store, layer, NULL, err);
}

// First out of sight, then away: a name of 64 digits is a whole tree.
static void collect_builder_roots(const struct root *state, const struct root *trees, const char *but)
{
	auto_strv struct strv names = { 0 };
	struct err ignored;
	root_list(trees, ".", &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *gone = str_fmt(".tmp/%s", names.items[i]);
		if (!digest_is_hex(names.items[i]) || str_eq(names.items[i], but))
			continue;
		auto_fd int fd = lock_builder_root(state, names.items[i], LOCK_EX, 0, &ignored);
		if (fd >= 0 && root_rename(trees, names.items[i], gone, &ignored) == 0)
			root_rmtree(trees, gone, &ignored);
	}
}

int acquire_builder(void *acquire, struct root *ret, struct err *err)
{
	struct acquire *o = acquire;
	auto_root struct root trees = ROOT_NONE;
	char hex[DIGEST_HEX + 1] = "";
	if (root_mkdirs(o->fetch.state, DIR, 0755, err) < 0 || root_sub(o->fetch.state, DIR, &trees, err) < 0)
		return -1;
	int r = unpack_builder_root(o, &trees, hex, err);
	if (r < 0 && err->code == E_STORE_CORRUPT) {
		struct err damage = *err;
		r = quarantine_builder_layer(o, hex, &damage, err) < 0 ? -1 : unpack_builder_root(o, &trees, hex, err);
	}
	if (r < 0 || root_sub(&trees, hex, ret, err) < 0)
		return -1;
	collect_builder_roots(o->fetch.state, &trees, hex);
	return 0;
}

bool acquire_has_builder(const struct root *state, const char *arch)
{
	const struct asset_key want = { .kind = &ASSET_BUILDER, .arch = arch };
	auto_root struct root dir = ROOT_NONE;
	auto_layout struct layout store = LAYOUT_NONE;
	auto_str char *why = NULL;
	char hex[DIGEST_HEX + 1];
	struct err ignored;
	return root_sub(state, "store", &dir, &ignored) == 0 && layout_open(&dir, &store, &ignored) == 0 &&
	       asset_find(&store, &want, hex, &why, &ignored) > 0;
}
