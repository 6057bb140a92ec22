// SPDX-License-Identifier: Apache-2.0
#include "precompiled/payload/payload.h"

#include "base/archive/archive.h"
#include "base/archive/embedded.h"
#include "base/file/file.h"
#include "base/linker/ldcache.h"
#include "precompiled/payload/install_path.h"
#include "precompiled/payload/merge_tree.h"
#include "precompiled/payload/runfile.h"
#include "precompiled/payload/version_check.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

static const char MANIFEST[] = ".manifest", SRC[] = "usr/src";

struct payload_build {
	const struct payload_request *request;
	struct version_check version;
	struct merge_tree tree;
	const struct root *work;
	struct root part; // the file being processed, unpacked
};

static char *package_install_path(const void *ctx, const char *path)
{
	const struct payload_build *l = ctx;
	return install_path_of(path, l->request->driver);
}

static char *base_install_path(const void *ctx, const char *path)
{
	(void)ctx;
	return install_path_usr_merged(path);
}

static int check_payload_file(const void *ctx, const struct root *root, const char *path, const char *place,
			      struct err *err)
{
	const struct payload_build *l = ctx;
	return version_check_file(&l->version, root, path, place, err);
}

static struct merge_tree_source source_of(const struct payload_build *l, const char *origin)
{
	return (struct merge_tree_source){
		.root = &l->part, .origin = origin, .place = package_install_path, .check = check_payload_file, .ctx = l
	};
}

// The machine that exports the tree provides these itself.
static bool is_wanted_of_base(void *ctx, const char *path)
{
	static const char *const others[] = { "dev/", "proc/", "sys/", "run/" };
	(void)ctx;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (str_starts(path, others[i]))
			return false;
	return true;
}

static int open_part_dir(struct payload_build *l, struct err *err)
{
	root_done(&l->part);
	return root_rmtree(l->work, "part", err) < 0 || root_mkdirs(l->work, "part", 0755, err) < 0 ||
			       root_sub(l->work, "part", &l->part, err) < 0 ?
		       -1 :
		       0;
}

static int add_base(struct payload_build *l, struct err *err)
{
	const char *name = l->request->base;
	auto_fd int fd = open_part_dir(l, err) < 0 ? -1 : file_open_arg(name, O_RDONLY, err);
	struct merge_tree_source part = source_of(l, name);
	part.place = base_install_path;
	part.check = NULL;
	part.is_whole = true;
	return fd < 0 || archive_unpack(fd, name, 0, &l->part, &(struct archive_options){ .select = is_wanted_of_base },
					err) < 0 ?
		       -1 :
		       merge_tree_all(&l->tree, &part, "", err);
}

// The archive has everything at its top, or in one directory named after it.
static int find_manifest(const struct payload_build *l, char **ret_dir, char **ret_text, struct err *err)
{
	auto_strv struct strv names = { 0 };
	int r = root_read(&l->part, MANIFEST, ret_text, NULL, err);
	if (r != 0 || root_list(&l->part, ".", &names, err) < 0) {
		*ret_dir = r > 0 ? str_dup("") : NULL;
		return r;
	}
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", names.items[i], MANIFEST);
		r = root_read(&l->part, path, ret_text, NULL, err);
		if (r > 0)
			*ret_dir = str_fmt("%s/", names.items[i]);
	}
	return r;
}

static int add_runfile(struct payload_build *l, const char *name, struct err *err)
{
	auto_str char *triplet = str_fmt("%s-linux-gnu", l->request->arch), *dir = NULL, *text = NULL;
	auto_runfile struct runfile run = { 0 };
	int r = find_manifest(l, &dir, &text, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_PAYLOAD, "'%s' has no %s: not an NVIDIA driver", name, MANIFEST);
	if (runfile_parse(text, name, triplet, &run, err) < 0)
		return -1;
	if (!str_eq(run.version, l->request->driver))
		return err_set(err, E_USAGE, "'%s' is for driver %s, %s was requested", name, run.version,
			       l->request->driver);
	struct merge_tree_source part = source_of(l, name);
	for (size_t i = 0; i < run.count; i++) {
		const struct runfile_entry *e = &run.items[i];
		auto_str char *path = e->file ? str_fmt("%s%s", dir, e->file) : NULL;
		r = path ? merge_tree_file(&l->tree, &part, path, e->place, err) :
			   merge_tree_link(&l->tree, &part, e->target, e->place, err);
		if (r < 0)
			return -1;
	}
	return 0;
}

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

// The first directory at most `depth` levels down that has a Kbuild and a conftest.sh.
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

static bool source_contains(const struct root *root, const char *dir, const char *file, const char *text)
{
	auto_str char *path = str_fmt("%s/%s", dir, file), *found = NULL;
	struct err ignored;
	return root_read(root, path, &found, NULL, &ignored) > 0 && strstr(found, text);
}

static char *place_below_source_dir(const void *ctx, const char *path)
{
	const struct source_tree *t = ctx;
	return str_fmt("%s/%s", t->to, path);
}

// Kernel module sources from the archive inside one of Debian's nvidia-*-kernel-source packages. A directory with a
// Kbuild and a conftest.sh becomes usr/src/nvidia-DRIVER/kernel or kernel-open, by the licence its module states.
static int add_source_archive(struct payload_build *l, int fd, const char *origin, struct err *err)
{
	static const char LICENCE[] = "MODULE_LICENSE(\"Dual MIT/GPL\")";
	const char *driver = l->request->driver;
	auto_root struct root part = ROOT_NONE;
	auto_source_tree struct source_tree t = { .root = ROOT_NONE };
	if (root_rmtree(l->work, "source", err) < 0 || root_mkdirs(l->work, "source", 0755, err) < 0 ||
	    root_sub(l->work, "source", &part, err) < 0 || archive_unpack(fd, origin, 0, &part, NULL, err) < 0)
		return -1;
	int r = find_kbuild_dir(&part, ".", DEPTH, &t.dir, err);
	if (r <= 0)
		return r < 0 ? -1 :
			       err_set(err, E_PAYLOAD, "'%s' has no directory with Kbuild and conftest.sh", origin);
	auto_str char *version = str_fmt("NV_VERSION_STRING=\\\"%s\\\"", driver);
	if (!source_contains(&part, t.dir, "Kbuild", version))
		return err_set(err, E_USAGE, "'%s' has the sources of another driver, %s was requested", origin,
			       driver);
	// The licence tells the module type, whatever the distribution calls the directory.
	bool is_open = source_contains(&part, t.dir, "nvidia/nv.c", LICENCE) ||
		       source_contains(&part, t.dir, "nvidia/nv-frontend.c", LICENCE);
	t.to = str_fmt("usr/src/nvidia-%s/kernel%s", driver, is_open ? "-open" : "");
	if (root_sub(&part, t.dir, &t.root, err) < 0)
		return -1;
	const struct merge_tree_source tree = {
		.root = &t.root, .origin = origin, .place = place_below_source_dir, .ctx = &t
	};
	return merge_tree_all(&l->tree, &tree, "", err) < 0 || root_rmtree(l->work, "source", err) < 0 ? -1 : 0;
}

// Debian's source packages contain an archive.
static int add_debian_sources(struct payload_build *l, const char *name, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(&l->part, SRC, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		if (!strstr(names.items[i], ".tar."))
			continue;
		auto_str char *path = str_fmt("%s/%s", SRC, names.items[i]);
		auto_fd int fd = root_open(&l->part, path, O_RDONLY | O_NOFOLLOW, err);
		if (fd < 0 || root_unlink(&l->part, path, err) < 0 || add_source_archive(l, fd, name, err) < 0)
			return -1;
	}
	return 0;
}

static int add_package_file(struct payload_build *l, const char *name, struct err *err)
{
	struct embedded found;
	struct merge_tree_source part = source_of(l, name);
	auto_fd int fd = open_part_dir(l, err) < 0 ? -1 : file_open_arg(name, O_RDONLY, err);
	if (fd < 0 || embedded_find(fd, name, &found, err) < 0 ||
	    archive_unpack(fd, name, found.offset, &l->part, NULL, err) < 0)
		return -1;
	if (found.kind == EMBEDDED_RUN)
		return add_runfile(l, name, err);
	return add_debian_sources(l, name, err) < 0 ? -1 : merge_tree_all(&l->tree, &part, "", err);
}

static int write_links_and_ldcache(const struct payload_build *l, struct err *err)
{
	static const char *const merged[] = { "bin", "lib", "lib64", "sbin" };
	const struct root *into = &l->tree.into;
	auto_strv struct strv dirs = { 0 };
	strv_add(&dirs, str_fmt("usr/lib/%s-linux-gnu", l->request->arch));
	strv_add(&dirs, str_fmt("usr/lib/%s-linux-gnu/vdpau", l->request->arch));
	strv_add(&dirs, str_dup("usr/lib64"));
	for (size_t i = 0; i < ARRAY_SIZE(merged); i++) {
		// Relative: seen from outside the root, an absolute link would lead to the machine's own files.
		auto_str char *target = str_fmt("usr/%s", merged[i]);
		if (root_mkdirs(into, target, 0755, err) < 0 || root_symlink(into, target, merged[i], err) < 0)
			return -1;
	}
	if (ldcache_links(into, &dirs, err) < 0)
		return -1;
	strv_done(&dirs);
	return ldcache_write(into, &dirs, err);
}

static void payload_build_done(struct payload_build *l)
{
	root_done(&l->part);
	merge_tree_done(&l->tree);
}
#define auto_payload_build __attribute__((cleanup(payload_build_done)))

int payload_make(const struct payload_request *request, const struct root *work, const char *name, struct err *err)
{
	auto_payload_build struct payload_build l = { .request = request,
						      .version = { .driver = request->driver, .arch = request->arch },
						      .tree = { .into = ROOT_NONE },
						      .work = work,
						      .part = ROOT_NONE };
	if (root_mkdirs(work, name, 0755, err) < 0 || root_sub(work, name, &l.tree.into, err) < 0 ||
	    (request->base && add_base(&l, err) < 0))
		return -1;
	for (size_t i = 0; i < request->files->count; i++)
		if (add_package_file(&l, request->files->items[i], err) < 0)
			return -1;
	root_done(&l.part);
	return root_rmtree(work, "part", err) < 0 ? -1 : write_links_and_ldcache(&l, err);
}
