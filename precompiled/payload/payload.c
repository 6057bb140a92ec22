// SPDX-License-Identifier: Apache-2.0
// What belongs together is told by names alone: NVIDIA puts the version into the name of each library that only works
// with the modules of the same one. Libraries with a version of their own (libnvidia-egl-wayland.so.1.1.13) ship beside
// them; a driver version differs from theirs in a first number of three digits.
#include "precompiled/payload/payload.h"

#include "base/archive/archive.h"
#include "base/archive/embedded.h"
#include "base/file/file.h"
#include "base/linker/ldcache.h"
#include "precompiled/payload/install_path.h"
#include "precompiled/payload/merge_tree.h"
#include "precompiled/payload/runfile.h"
#include "precompiled/payload/sources.h"
#include "precompiled/payload/version_check.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

static size_t count_digits(const char *p)
{
	size_t n = 0;
	while (isdigit((unsigned char)p[n]))
		n++;
	return n;
}

// How long the version at p is: 535.261.03, 560.35; 0 = there is none.
static size_t version_len(const char *p)
{
	size_t major = count_digits(p), len = major;
	if (major < 3 || p[major] != '.' || !count_digits(p + major + 1))
		return 0;
	while (p[len] == '.' && count_digits(p + len + 1))
		len += 1 + count_digits(p + len + 1);
	return len;
}

static const char *library_version(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *so = strstr(name, ".so.");
	bool is_ours = str_starts(name, "libcuda") || str_starts(name, "libnv") || strstr(name, "nvidia");
	return so && is_ours ? so + strlen(".so.") : NULL;
}

static const char *firmware_version(const char *path)
{
	static const char DIR[] = "lib/firmware/nvidia/";
	const char *at = strstr(path, DIR);
	return at ? at + strlen(DIR) : NULL;
}

char *payload_version(const char *path)
{
	const char *library = library_version(path), *firmware = firmware_version(path);
	size_t len = library ? version_len(library) : 0;
	if (len && !library[len])
		return str_ndup(library, len);
	len = firmware ? version_len(firmware) : 0;
	return len && (!firmware[len] || firmware[len] == '/') ? str_ndup(firmware, len) : NULL;
}

static const char MANIFEST[] = ".manifest", SRC[] = "usr/src";

struct payload_build {
	const struct payload_request *request;
	struct version_check belong;
	struct merge_tree lay;
	const struct root *work;
	struct root part; // of the file that is being looked at
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
	return version_check_file(&l->belong, root, path, place, err);
}

static struct merge_tree_source source_of(const struct payload_build *l, const char *origin)
{
	return (struct merge_tree_source){
		.root = &l->part, .origin = origin, .place = package_install_path, .check = check_payload_file, .ctx = l
	};
}

// What the machine that exports the tree has of its own.
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
	return fd < 0 || archive_unpack(fd, name, 0, &l->part, NULL, is_wanted_of_base, NULL, err) < 0 ?
		       -1 :
		       merge_tree_all(&l->lay, &part, err);
}

// The archive has everything in its own directory, or in one that is named after it.
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

static int add_runfile_entries(struct payload_build *l, const char *name, const char *dir, const struct runfile *run,
			       struct err *err)
{
	struct merge_tree_source part = source_of(l, name);
	for (size_t i = 0; i < run->count; i++) {
		const struct runfile_entry *e = &run->items[i];
		auto_str char *path = e->file ? str_fmt("%s%s", dir, e->file) : NULL;
		int r = path ? merge_tree_file(&l->lay, &part, path, e->place, err) :
			       merge_tree_link(&l->lay, &part, e->target, e->place, err);
		if (r < 0)
			return -1;
	}
	return 0;
}

static int add_runfile(struct payload_build *l, const char *name, struct err *err)
{
	auto_str char *triplet = install_path_triplet(l->request->arch), *dir = NULL, *text = NULL;
	auto_runfile struct runfile run = { 0 };
	int r = find_manifest(l, &dir, &text, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_PAYLOAD, "'%s' has no %s: not a driver of NVIDIA", name, MANIFEST);
	if (runfile_parse(text, name, triplet, &run, err) < 0)
		return -1;
	if (!str_eq(run.version, l->request->driver))
		return err_set(err, E_USAGE, "'%s' is of driver %s, wanted is %s", name, run.version,
			       l->request->driver);
	return add_runfile_entries(l, name, dir, &run, err);
}

// Debian's packages of source have an archive in them.
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
		if (fd < 0 || root_unlink(&l->part, path, err) < 0 ||
		    sources_add(&l->lay, fd, name, l->request->driver, l->work, err) < 0)
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
	    archive_unpack(fd, name, found.offset, &l->part, NULL, NULL, NULL, err) < 0)
		return -1;
	if (found.kind == EMBEDDED_RUN)
		return add_runfile(l, name, err);
	return add_debian_sources(l, name, err) < 0 ? -1 : merge_tree_all(&l->lay, &part, err);
}

// Relative, because from outside of the root an absolute one would lead to the machine's own files.
static int link_merged(const struct root *into, struct err *err)
{
	static const char *const always[] = { "bin", "lib", "lib64", "sbin" };
	for (size_t i = 0; i < ARRAY_SIZE(always); i++) {
		auto_str char *target = str_fmt("usr/%s", always[i]);
		if (root_mkdirs(into, target, 0755, err) < 0 || root_symlink(into, target, always[i], err) < 0)
			return -1;
	}
	return 0;
}

static int write_links_and_ldcache(struct payload_build *l, struct err *err)
{
	auto_str char *triplet = install_path_triplet(l->request->arch), *libraries = str_fmt("usr/lib/%s", triplet);
	auto_strv struct strv dirs = { 0 };
	const struct root *into = &l->lay.into;
	strv_add(&dirs, TAKE(libraries));
	strv_add(&dirs, str_fmt("usr/lib/%s/vdpau", triplet));
	strv_add(&dirs, str_dup("usr/lib64"));
	if (link_merged(into, err) < 0 || ldcache_links(into, &dirs, err) < 0)
		return -1;
	strv_done(&dirs);
	return ldcache_write(into, &dirs, err);
}

static int merge_payload_files(struct payload_build *l, struct err *err)
{
	if (l->request->base && add_base(l, err) < 0)
		return -1;
	for (size_t i = 0; i < l->request->files->count; i++)
		if (add_package_file(l, l->request->files->items[i], err) < 0)
			return -1;
	root_done(&l->part);
	return root_rmtree(l->work, "part", err) < 0 ? -1 : write_links_and_ldcache(l, err);
}

int payload_make(const struct payload_request *request, const struct root *work, const char *name, struct err *err)
{
	struct payload_build l = { .request = request,
				   .belong = { .driver = request->driver, .arch = request->arch },
				   .lay = { .into = ROOT_NONE },
				   .work = work,
				   .part = ROOT_NONE };
	int r = root_mkdirs(work, name, 0755, err) < 0 ? -1 : root_sub(work, name, &l.lay.into, err);
	if (r == 0)
		r = merge_payload_files(&l, err);
	root_done(&l.part);
	merge_tree_done(&l.lay);
	return r;
}
