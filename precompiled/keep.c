// SPDX-License-Identifier: Apache-2.0
// The packages that a node keeps on its disk, so that the next start needs neither compiler nor network (R-A2).
#include "precompiled/package.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>

static const char DIR_NAME[] = "packages";

static int try_one(const struct root *packages, const char *name, const struct package_want *want, struct package *ret,
		   struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	auto_package struct package p = { .dir = ROOT_NONE };
	auto_str char *why = NULL;
	// A damaged or half-written neighbour must not hide a good package.
	if (name[0] == '.' || root_sub(packages, name, &dir, err) < 0 || package_open(&dir, &p, err) < 0 ||
	    package_fits(&p, want, &why) == 0)
		return 0;
	package_done(ret);
	*ret = p;
	p = (struct package){ .dir = ROOT_NONE };
	return 1;
}

int package_find(const struct root *state, const struct package_want *want, struct package *ret, struct err *err)
{
	auto_strv struct strv names = { 0 };
	int r = root_list(state, DIR_NAME, &names, err);
	if (r <= 0)
		return r;
	auto_root struct root packages = ROOT_NONE;
	if (root_sub(state, DIR_NAME, &packages, err) < 0)
		return -1;
	auto_package struct package best = { .dir = ROOT_NONE };
	for (size_t i = 0; i < names.count; i++) {
		auto_package struct package p = { .dir = ROOT_NONE };
		if (try_one(&packages, names.items[i], want, &p, err) > 0 &&
		    (!best.count || str_version_cmp(p.key.driver, best.key.driver) > 0)) {
			package_done(&best);
			best = p;
			p = (struct package){ .dir = ROOT_NONE };
		}
	}
	if (!best.count)
		return 0;
	*ret = best;
	best = (struct package){ .dir = ROOT_NONE };
	return 1;
}

static int copy_file(const struct root *from, const struct root *to, const char *name, struct err *err)
{
	auto_fd int in = root_open(from, name, O_RDONLY | O_NOFOLLOW, err);
	auto_fd int dir = in < 0 ? -1 : root_open(to, ".", O_PATH | O_DIRECTORY, err);
	if (dir < 0)
		return -1;
	auto_fd int out = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (out < 0)
		return err_set(err, errno, "create '%s/%s'", to->name, name);
	if (file_copy(in, out, name, err) < 0)
		return -1;
	return fsync(out) < 0 ? err_set(err, errno, "write '%s/%s'", to->name, name) : 0;
}

static int copy_all(const struct package *p, const struct root *to, struct err *err)
{
	for (size_t i = 0; i < p->count; i++)
		if (copy_file(&p->dir, to, p->files[i].name, err) < 0)
			return -1;
	if (copy_file(&p->dir, to, "package.json", err) < 0)
		return -1;
	auto_package struct package copy = { .dir = ROOT_NONE };
	return package_open(to, &copy, err) < 0 || package_verify(&copy, err) < 0 ? -1 : 0;
}

static int place(const struct package *p, const struct root *state, const char *temporary, const char *final,
		 struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	if (root_rmtree(state, temporary, err) < 0 || root_mkdirs(state, temporary, 0755, err) < 0 ||
	    root_sub(state, temporary, &dir, err) < 0 || copy_all(p, &dir, err) < 0)
		return -1;
	return root_rmtree(state, final, err) < 0 || root_rename(state, temporary, final, err) < 0 ? -1 : 0;
}

static bool is_equal(const struct package *a, const struct package *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!str_eq(a->files[i].name, b->files[i].name) || !str_eq(a->files[i].sha256, b->files[i].sha256))
			return false;
	return true;
}

int package_keep(const struct root *state, const struct package *p, struct package *ret, struct err *err)
{
	auto_str char *name = package_name(&p->key), *final = str_fmt("%s/%s", DIR_NAME, name),
		      *temporary = str_fmt("%s/.%s.%d.tmp", DIR_NAME, name, (int)getpid());
	auto_root struct root dir = ROOT_NONE;
	auto_package struct package there = { .dir = ROOT_NONE };
	bool is_there = root_exists(state, final) && root_sub(state, final, &dir, err) == 0 &&
			package_open(&dir, &there, err) == 0 && is_equal(&there, p) && package_verify(&there, err) == 0;
	if (!is_there && package_verify(p, err) < 0)
		return -1;
	if (!is_there && place(p, state, temporary, final, err) < 0) {
		struct err ignored;
		root_rmtree(state, temporary, &ignored);
		return err_wrap(err, "keep the package");
	}
	auto_root struct root kept = ROOT_NONE;
	return root_sub(state, final, &kept, err) < 0 ? -1 : package_open(&kept, ret, err);
}
