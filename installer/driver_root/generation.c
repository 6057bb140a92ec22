// SPDX-License-Identifier: Apache-2.0
#include "driver_root/generation.h"

#include "base/file/file.h"
#include "base/file/subtree.h"

#include <errno.h>
#include <fcntl.h>

// Below the generation while a mount is made. Only here a mount may be the peer of its source.
static const char STAGE[] = ".stage";

// What programs leave in its tmp, too, after a chroot.
static const char LIMITS[] = "mode=0755,size=4m,nr_inodes=1k";

char *generation_name(const char *base, unsigned number)
{
	return str_fmt(".%s.%u", base, number);
}

unsigned generation_number(const char *base, const char *name)
{
	uint64_t number;
	auto_str char *prefix = str_fmt(".%s.", base);
	if (!str_starts(name, prefix) || !str_u64(name + strlen(prefix), 10, &number) || number >= UINT32_MAX)
		return 0;
	return (unsigned)number;
}

int generation_list(const struct root *parent, const char *base, struct strv *ret, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(parent, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (generation_number(base, names.items[i]))
			strv_add(ret, str_dup(names.items[i]));
	return 0;
}

static int open_generation_path(const struct root *root, const char *path, struct err *err)
{
	return root_open(root, path, O_PATH, err);
}

// A directory or an empty file for something to be mounted on.
static int make_mount_point(const struct root *root, const char *path, bool is_dir, struct err *err)
{
	if (is_dir)
		return root_mkdirs(root, path, 0755, err);
	auto_fd int fd = root_create(root, path, err);
	return fd < 0 ? -1 : 0;
}

static int entry_refused(const char *what, const struct root_entry *p, struct err *err)
{
	auto_str char *source = root_path(p->from, p->source);
	bool is_right = errno == EPERM || errno == EACCES;
	file_fail(what, source, err);
	return is_right ? err_code(err, E_RIGHTS) : -1;
}

// A descriptor that was opened before the mount was made stands for what lies under it.
static int bind_entry_staged(const struct mount_ns *s, const struct root *gen, const struct root_entry *p, int source,
			     struct err *err)
{
	auto_fd int under = open_generation_path(gen, STAGE, err);
	if (under < 0)
		return -1;
	if (s->sys->mount_bind(s->sys, source, under, p->is_whole) < 0)
		return entry_refused("mount", p, err);
	auto_fd int stage = open_generation_path(gen, STAGE, err);
	if (stage < 0)
		return -1;
	if (s->sys->mount_private(s->sys, stage) < 0 || (p->is_read_only && s->sys->mount_read_only(s->sys, stage) < 0))
		return entry_refused("mount", p, err);
	return TAKE_FD(stage);
}

static int bind_entry(const struct mount_ns *s, const struct root *gen, const struct root_entry *p, int source,
		      bool is_dir, struct err *err)
{
	if (make_mount_point(gen, STAGE, is_dir, err) < 0 || make_mount_point(gen, p->path, is_dir, err) < 0)
		return -1;
	auto_fd int at = open_generation_path(gen, p->path, err),
		    stage = at < 0 ? -1 : bind_entry_staged(s, gen, p, source, err);
	auto_fd int dir = stage < 0 ? -1 : open_generation_path(gen, ".", err);
	if (dir < 0)
		return -1;
	if (s->sys->mount_bind(s->sys, stage, at, p->is_whole) < 0 || s->sys->mount_detach(s->sys, dir, STAGE) < 0)
		return entry_refused("mount", p, err);
	return unlinkat(dir, STAGE, is_dir ? AT_REMOVEDIR : 0) < 0 ? entry_refused("clean up after", p, err) : 0;
}

static int make_own_dir(const struct root *gen, const char *path, struct err *err)
{
	auto_fd int fd = root_mkdirs(gen, path, 0755, err) < 0 ? -1 : root_open(gen, path, O_RDONLY | O_DIRECTORY, err);
	return fd < 0 ? -1 : fchmod(fd, 01777) < 0 ? file_fail("open to all", path, err) : 0;
}

static int make_root_entry(const struct mount_ns *s, const struct root *gen, const struct root_entry *p,
			   struct err *err)
{
	struct stat st;
	if (p->is_own)
		return make_own_dir(gen, p->path, err);
	if (p->is_link)
		return root_symlink(gen, p->source, p->path, err);
	auto_fd int source = open_generation_path(p->from, p->source, err);
	if (source < 0)
		return -1;
	if (fstat(source, &st) < 0)
		return entry_refused("look at", p, err);
	return bind_entry(s, gen, p, source, S_ISDIR(st.st_mode), err);
}

int generation_begin(const struct mount_ns *s, const struct root *parent, const char *name, struct err *err)
{
	auto_fd int at = root_mkdirs(parent, name, 0755, err) < 0 ? -1 : open_generation_path(parent, name, err);
	if (at < 0)
		return -1;
	if (s->sys->mount_tmpfs(s->sys, at, GENERATION_SOURCE, LIMITS) == 0)
		return 0;
	bool is_right = errno == EPERM || errno == EACCES;
	file_fail("mount a tmpfs on", name, err);
	return is_right ? err_code(err, E_RIGHTS) : -1;
}

int generation_make(const struct mount_ns *s, const struct root *parent, const char *name, const struct root_layout *p,
		    struct err *err)
{
	auto_root struct root gen = ROOT_NONE;
	if (root_sub(parent, name, &gen, err) < 0)
		return -1;
	for (size_t i = 0; i < p->count; i++)
		if (make_root_entry(s, &gen, &p->items[i], err) < 0)
			return err_wrap(err, "make the driver root '%s'", gen.name);
	return 0;
}

static char *entry_problem(const char *what, const struct root_entry *p)
{
	return str_fmt("%s %s", p->path, what);
}

static int check_link(const struct root *gen, const struct root_entry *p, char **ret_why, struct err *err)
{
	auto_str char *target = NULL;
	if (root_readlink(gen, p->path, &target, err) < 0)
		return -1;
	if (str_eq(target, p->source))
		return 1;
	*ret_why = entry_problem("is not the expected link", p);
	return 0;
}

static int check_own_dir(const struct root *gen, const struct root_entry *p, char **ret_why, struct err *err)
{
	struct stat st;
	int r = root_stat(gen, p->path, &st, err);
	if (r > 0 && S_ISDIR(st.st_mode))
		return 1;
	*ret_why = entry_problem("is not a directory", p);
	return r < 0 ? -1 : 0;
}

// What is seen there is what was meant, and through a mount.
static bool check_entry_mount(const struct mount_ns *s, const struct root *gen, const struct mountinfo *now,
			      const struct root_entry *p, char **ret_why)
{
	struct err ignored;
	struct stat st;
	auto_fd int at = open_generation_path(gen, p->path, &ignored);
	auto_str char *point = at < 0 ? NULL : mount_ns_path(s, at);
	const struct mount *m = point ? mountinfo_at(now, point) : NULL;
	if (!m || fstat(at, &st) < 0)
		*ret_why = entry_problem("is not mounted", p);
	else if (st.st_dev != p->dev || st.st_ino != p->ino)
		*ret_why = entry_problem("is of something else", p);
	else if (p->is_read_only && !mountinfo_has_option(m, "ro"))
		*ret_why = entry_problem("can be written", p);
	return !*ret_why;
}

int generation_check(const struct mount_ns *s, const struct root *parent, const char *name, const struct root_layout *p,
		     char **ret_why, struct err *err)
{
	auto_root struct root gen = ROOT_NONE;
	auto_mountinfo struct mountinfo now = { 0 };
	const struct overmount overmount = {
		.mount_ns = s, .parent = parent, .name = name, .source = GENERATION_SOURCE
	};
	if (mount_ns_mounts(s, &now, err) < 0)
		return -1;
	if (!overmount_is_ours(&overmount, &now, ret_why))
		return 0;
	if (root_sub(parent, name, &gen, err) < 0)
		return -1;
	for (size_t i = 0; i < p->count; i++) {
		const struct root_entry *root_entry = &p->items[i];
		int r = root_entry->is_link ? check_link(&gen, root_entry, ret_why, err) :
			root_entry->is_own  ? check_own_dir(&gen, root_entry, ret_why, err) :
					      check_entry_mount(s, &gen, &now, root_entry, ret_why);
		if (r <= 0)
			return r;
	}
	return 1;
}

// The shortest path on which something is mounted, path or below it; NULL = nothing. What is mounted deeper goes with
// it, or was hidden by it.
static const char *outermost_mount(const struct mountinfo *now, const char *path)
{
	const char *ret = NULL;
	for (size_t i = 0; i < now->count; i++)
		if (mountinfo_path_is_below(now->items[i].point, path) &&
		    (!ret || strlen(now->items[i].point) < strlen(ret)))
			ret = now->items[i].point;
	return ret;
}

// Private first, because what is not of our making may share its events with the machine's own mounts.
static int detach_mount(const struct mount_ns *s, const struct root *parent, const char *path, struct err *err)
{
	auto_str char *last = NULL;
	auto_fd int at = open_generation_path(parent, path, err),
		    dir = at < 0 ? -1 : root_parent(parent, path, &last, err);
	if (dir < 0)
		return -1;
	if (s->sys->mount_private(s->sys, at) < 0 || s->sys->mount_detach(s->sys, dir, last) < 0)
		return file_fail("detach", path, err);
	return 0;
}

// Where else it is mounted: the place has another name in this namespace, too, as where the root of a container is
// prepared. (In other namespaces the kernel takes it off when the directory is removed.) NULL = nowhere.
static const char *mounted_elsewhere(const struct mountinfo *now, const struct fs_dir *fs_dir)
{
	for (size_t i = 0; i < now->count; i++) {
		auto_fs_dir struct fs_dir under = { 0 };
		if (mountinfo_under(now, &now->items[i], &under) && mountinfo_fs_dir_same(&under, fs_dir))
			return now->items[i].point;
	}
	return NULL;
}

static int detach_foreign_copy(const struct mount_ns *s, const char *point, struct err *err)
{
	const char *last = strrchr(point, '/') + 1;
	auto_str char *above = str_ndup(point, (size_t)(last - point));
	auto_fd int at = mount_ns_open_path(s, point, err), dir = at < 0 ? -1 : mount_ns_open_path(s, above, err);
	if (dir < 0)
		return -1;
	if (s->sys->mount_private(s->sys, at) < 0 || s->sys->mount_detach(s->sys, dir, last) < 0)
		return file_fail("detach", point, err);
	return 0;
}

static int detach_generation(const struct mount_ns *s, const struct root *parent, const char *name, struct err *err)
{
	auto_str char *dir = mount_ns_path(s, parent->fd);
	if (!dir)
		return err_set(err, E_RIGHTS, "proc does not show where '%s' is", parent->name);
	auto_str char *path = str_fmt("%s/%s", str_eq(dir, "/") ? "" : dir, name);
	for (;;) {
		auto_mountinfo struct mountinfo now = { 0 };
		auto_fs_dir struct fs_dir above = { 0 }, fs_dir = { 0 };
		if (mount_ns_mounts(s, &now, err) < 0)
			return -1;
		mountinfo_locate(&now, dir, &above);
		fs_dir = (struct fs_dir){ above.major, above.minor, str_fmt("%s/%s", above.path, name) };
		const char *point = outermost_mount(&now, path),
			   *copy = point ? NULL : mounted_elsewhere(&now, &fs_dir);
		if (!point && !copy)
			return 0;
		int r = copy ? detach_foreign_copy(s, copy, err) :
			       detach_mount(s, parent, point + strlen(path) - strlen(name), err);
		if (r < 0)
			return -1;
	}
}

// No mount is entered. In other namespaces whatever is left on the directory goes with it.
int generation_remove(const struct mount_ns *s, const struct root *parent, const char *name, struct err *err)
{
	auto_fd int dir = open_generation_path(parent, ".", err);
	if (dir < 0 || detach_generation(s, parent, name, err) < 0)
		return -1;
	int r = subtree_remove(dir, name);
	return r < 0 ? file_fail("remove", name, err) : r;
}
