// SPDX-License-Identifier: Apache-2.0
#include "precompiled/payload/sources.h"

#include "base/archive/archive.h"
#include "precompiled/payload/install_path.h"

enum { DEPTH = 2 }; // modules/nvidia-kernel

struct source_tree {
	struct root root;
	char *dir, *to;
};

static void source_tree_done(struct source_tree *t)
{
	root_done(&t->root);
	free(t->dir);
	free(t->to);
}
#define auto_source_tree __attribute__((cleanup(source_tree_done)))

// The first directory at most `depth` levels down that can be compiled.
static int find_kbuild_dir(const struct root *root, const char *dir, unsigned depth, char **ret, struct err *err)
{
	auto_str char *kbuild = str_fmt("%s/Kbuild", dir), *conftest = str_fmt("%s/conftest.sh", dir);
	auto_strv struct strv names = { 0 };
	if (root_exists(root, kbuild) && root_exists(root, conftest)) {
		*ret = str_dup(dir);
		return 1;
	}
	int r = depth ? root_list(root, dir, &names, err) : 0;
	for (size_t i = 0; r >= 0 && !*ret && i < names.count; i++) {
		auto_str char *below = str_fmt("%s/%s", dir, names.items[i]);
		r = find_kbuild_dir(root, below, depth - 1, ret, err);
	}
	return r < 0 ? -1 : *ret != NULL;
}

static bool has_text(const struct root *root, const char *dir, const char *file, const char *text)
{
	auto_str char *path = str_fmt("%s/%s", dir, file), *found = NULL;
	struct err ignored;
	return root_read(root, path, &found, NULL, &ignored) > 0 && strstr(found, text);
}

// What a module says of its own licence is the flavour, whatever a distribution calls the directory.
static bool is_open_licence(const struct root *root, const char *dir)
{
	static const char LICENCE[] = "MODULE_LICENSE(\"Dual MIT/GPL\")";
	return has_text(root, dir, "nvidia/nv.c", LICENCE) || has_text(root, dir, "nvidia/nv-frontend.c", LICENCE);
}

static char *place_below_source_dir(const void *ctx, const char *path)
{
	const struct source_tree *t = ctx;
	return str_fmt("%s/%s", t->to, path);
}

static int add_source_tree(struct merge_tree *lay, const struct root *part, const char *origin, const char *driver,
			   struct err *err)
{
	auto_source_tree struct source_tree t = { .root = ROOT_NONE };
	int r = find_kbuild_dir(part, ".", DEPTH, &t.dir, err);
	if (r <= 0)
		return r < 0 ? -1 :
			       err_set(err, E_PAYLOAD, "'%s' has no directory with Kbuild and conftest.sh", origin);
	auto_str char *version = str_fmt("NV_VERSION_STRING=\\\"%s\\\"", driver);
	if (!has_text(part, t.dir, "Kbuild", version))
		return err_set(err, E_USAGE, "'%s' has the sources of another driver, wanted is %s", origin, driver);
	t.to = install_path_source(driver, is_open_licence(part, t.dir));
	if (root_sub(part, t.dir, &t.root, err) < 0)
		return -1;
	const struct merge_tree_source tree = {
		.root = &t.root, .origin = origin, .place = place_below_source_dir, .ctx = &t
	};
	return merge_tree_all(lay, &tree, err);
}

int sources_add(struct merge_tree *lay, int fd, const char *origin, const char *driver, const struct root *work,
		struct err *err)
{
	auto_root struct root part = ROOT_NONE;
	if (root_rmtree(work, "source", err) < 0 || root_mkdirs(work, "source", 0755, err) < 0 ||
	    root_sub(work, "source", &part, err) < 0 ||
	    archive_unpack(fd, origin, 0, &part, NULL, NULL, NULL, err) < 0 ||
	    add_source_tree(lay, &part, origin, driver, err) < 0)
		return -1;
	return root_rmtree(work, "source", err) < 0 ? -1 : 0;
}
