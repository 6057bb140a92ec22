// SPDX-License-Identifier: Apache-2.0
#include "driver_root/generation.h"

#include "base/file/file.h"
#include "base/file/subtree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

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

// The id of the mount through which a file was opened.
static int read_mount_id(const struct mount_ns *s, int fd, unsigned *ret, struct err *err)
{
	char path[32];
	auto_str char *text = NULL;
	snprintf(path, sizeof(path), "self/fdinfo/%d", fd);
	auto_fd int info = openat(s->proc, path, O_RDONLY | O_CLOEXEC);
	if (info < 0 || file_read(info, path, &text, NULL, err) < 0)
		return info < 0 ? file_fail("open", path, err) : -1;
	const char *line = strstr(text, "mnt_id:");
	if (!line || sscanf(line, "mnt_id: %u", ret) != 1)
		return err_set(err, E_RIGHTS, "proc does not show the id of a mount");
	return 0;
}

// A path as mountinfo names it.
static int open_mount_path(const struct mount_ns *s, const char *path, struct err *err)
{
	auto_str char *below = str_fmt("self/root%s", path);
	int fd = openat(s->proc, below, O_PATH | O_CLOEXEC);
	return fd < 0 ? file_fail("open", path, err) : fd;
}

static int mount_refused(const char *what, const char *name, struct err *err)
{
	bool is_right = errno == EPERM || errno == EACCES;
	file_fail(what, name, err);
	return is_right ? err_code(err, E_RIGHTS) : -1;
}

static int entry_refused(const char *what, const struct root_entry *p, struct err *err)
{
	auto_str char *source = root_path(p->from, p->source);
	return mount_refused(what, source, err);
}

// A directory or an empty file for something to be mounted on.
static int make_mount_point(const struct root *root, const char *path, bool is_dir, struct err *err)
{
	if (is_dir)
		return root_mkdirs(root, path, 0755, err);
	auto_fd int fd = root_create(root, path, err);
	return fd < 0 ? -1 : 0;
}

static int bind_entry(const struct mount_ns *s, const struct root *gen, const struct root_entry *p, struct err *err)
{
	struct stat st;
	auto_fd int source = root_open(p->from, p->source, O_PATH, err);
	if (source < 0)
		return -1;
	if (fstat(source, &st) < 0)
		return entry_refused("look at", p, err);
	bool is_dir = S_ISDIR(st.st_mode);
	if (make_mount_point(gen, STAGE, is_dir, err) < 0 || make_mount_point(gen, p->path, is_dir, err) < 0)
		return -1;
	auto_fd int at = root_open(gen, p->path, O_PATH, err), under = at < 0 ? -1 : root_open(gen, STAGE, O_PATH, err);
	if (under < 0)
		return -1;
	if (s->sys->mount_bind(s->sys, source, under, p->is_whole) < 0)
		return entry_refused("mount", p, err);
	// Opened again: a descriptor from before the mount stands for what lies under it.
	auto_fd int stage = root_open(gen, STAGE, O_PATH, err);
	if (stage < 0)
		return -1;
	if (s->sys->mount_private(s->sys, stage) < 0 || (p->is_read_only && s->sys->mount_read_only(s->sys, stage) < 0))
		return entry_refused("mount", p, err);
	auto_fd int dir = root_open(gen, ".", O_PATH, err);
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

int generation_begin(const struct mount_ns *s, const struct root *parent, const char *name, struct err *err)
{
	auto_fd int at = root_mkdirs(parent, name, 0755, err) < 0 ? -1 : root_open(parent, name, O_PATH, err);
	if (at < 0)
		return -1;
	return s->sys->mount_tmpfs(s->sys, at, GENERATION_SOURCE, LIMITS) < 0 ?
		       mount_refused("mount a tmpfs on", name, err) :
		       0;
}

int generation_make(const struct mount_ns *s, const struct root *parent, const char *name, const struct root_layout *p,
		    struct err *err)
{
	auto_root struct root gen = ROOT_NONE;
	if (root_sub(parent, name, &gen, err) < 0)
		return -1;
	for (size_t i = 0; i < p->count; i++) {
		const struct root_entry *e = &p->items[i];
		int r = e->is_own  ? make_own_dir(&gen, e->path, err) :
			e->is_link ? root_symlink(&gen, e->source, e->path, err) :
				     bind_entry(s, &gen, e, err);
		if (r < 0)
			return err_wrap(err, "make the driver root '%s'", gen.name);
	}
	return 0;
}

// 1 = what is seen there is what was meant, and for a mount it is seen through one.
static int check_entry(const struct mount_ns *s, const struct root *gen, const struct mountinfo *now,
		       const struct root_entry *p, char **ret_why, struct err *err)
{
	const char *problem = NULL;
	struct stat st;
	if (p->is_link) {
		auto_str char *target = NULL;
		if (root_readlink(gen, p->path, &target, err) < 0)
			return -1;
		problem = str_eq(target, p->source) ? NULL : "is not the expected link";
	} else if (p->is_own) {
		int r = root_stat(gen, p->path, &st, err);
		if (r < 0)
			return -1;
		problem = r > 0 && S_ISDIR(st.st_mode) ? NULL : "is not a directory";
	} else {
		struct err ignored;
		auto_fd int at = root_open(gen, p->path, O_PATH, &ignored);
		auto_str char *point = at < 0 ? NULL : mount_ns_path(s, at, NULL);
		const struct mount *m = point ? mountinfo_at(now, point) : NULL;
		problem = !m || fstat(at, &st) < 0                          ? "is not mounted" :
			  st.st_dev != p->dev || st.st_ino != p->ino        ? "is of something else" :
			  p->is_read_only && !mountinfo_has_option(m, "ro") ? "can be written" :
									      NULL;
	}
	if (problem)
		*ret_why = str_fmt("%s %s", p->path, problem);
	return !problem;
}

int generation_check(const struct mount_point *s, const struct root_layout *p, char **ret_why, struct err *err)
{
	auto_root struct root gen = ROOT_NONE;
	auto_mountinfo struct mountinfo now = { 0 };
	if (mount_ns_mounts(s->mount_ns, &now, err) < 0)
		return -1;
	auto_str char *point = mount_ns_path(s->mount_ns, s->parent->fd, s->name);
	const struct mount *top = point ? mountinfo_at(&now, point) : NULL;
	if (!top || !str_eq(top->source, GENERATION_SOURCE)) {
		*ret_why = str_dup(top ? "a mount that is not ours is there" : "there is none yet");
		return 0;
	}
	if (root_sub(s->parent, s->name, &gen, err) < 0)
		return -1;
	for (size_t i = 0; i < p->count; i++) {
		int r = check_entry(s->mount_ns, &gen, &now, &p->items[i], ret_why, err);
		if (r <= 0)
			return r;
	}
	return 1;
}

// The shortest path on which something is mounted, path or below it; NULL = nothing. What is mounted deeper is detached
// with it, or was hidden by it.
static const char *outermost_mount(const struct mountinfo *now, const char *path)
{
	const char *ret = NULL;
	for (size_t i = 0; i < now->count; i++)
		if (mountinfo_path_is_below(now->items[i].point, path) &&
		    (!ret || strlen(now->items[i].point) < strlen(ret)))
			ret = now->items[i].point;
	return ret;
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

static int detach_generation(const struct mount_ns *s, const struct root *parent, const char *name, struct err *err)
{
	auto_str char *dir = mount_ns_path(s, parent->fd, NULL), *path = mount_ns_path(s, parent->fd, name);
	if (!dir || !path)
		return err_set(err, E_RIGHTS, "proc does not show where '%s' is", parent->name);
	for (;;) {
		auto_mountinfo struct mountinfo now = { 0 };
		auto_fs_dir struct fs_dir above = { 0 }, fs_dir = { 0 };
		auto_fd int at = -1, holder = -1;
		auto_str char *last = NULL;
		if (mount_ns_mounts(s, &now, err) < 0)
			return -1;
		mountinfo_locate(&now, dir, &above);
		fs_dir = (struct fs_dir){ above.major, above.minor, str_fmt("%s/%s", above.path, name) };
		const char *point = outermost_mount(&now, path), *shown = point;
		if (point) {
			shown = point + strlen(path) - strlen(name);
			at = root_open(parent, shown, O_PATH, err);
			holder = at < 0 ? -1 : root_parent(parent, shown, &last, err);
		} else if ((shown = mounted_elsewhere(&now, &fs_dir))) {
			last = str_dup(strrchr(shown, '/') + 1);
			auto_str char *outer = str_ndup(shown, strlen(shown) - strlen(last));
			at = open_mount_path(s, shown, err);
			holder = at < 0 ? -1 : open_mount_path(s, outer, err);
		} else {
			return 0;
		}
		if (holder < 0)
			return -1;
		// Private first, because what is not of our making may share its events with the machine's own mounts.
		if (s->sys->mount_private(s->sys, at) < 0 || s->sys->mount_detach(s->sys, holder, last) < 0)
			return file_fail("detach", shown, err);
	}
}

// No mount is entered. In other namespaces the kernel detaches what is still mounted on the directory.
int generation_remove(const struct mount_ns *s, const struct root *parent, const char *name, struct err *err)
{
	auto_fd int dir = root_open(parent, ".", O_PATH, err);
	if (dir < 0 || detach_generation(s, parent, name, err) < 0)
		return -1;
	int r = subtree_remove(dir, name);
	return r < 0 ? file_fail("remove", name, err) : r;
}

static int read_mount_point(const struct mount_point *s, struct mountinfo *ret_now, char **ret_point, struct err *err)
{
	*ret_point = mount_ns_path(s->mount_ns, s->parent->fd, s->name);
	if (!*ret_point)
		return err_set(err, E_RIGHTS, "proc does not show where '%s' is", s->parent->name);
	return mount_ns_mounts(s->mount_ns, ret_now, err);
}

bool generation_is_settled(const struct mount_point *s, const struct mountinfo *now)
{
	auto_str char *point = mount_ns_path(s->mount_ns, s->parent->fd, s->name);
	return !point || mountinfo_depth(now, point) <= 1;
}

static bool is_mounted_in(const struct mountinfo *now, const struct mount *m, unsigned id)
{
	size_t steps = 0;
	for (; m && steps < now->count; m = mountinfo_find(now, m->parent), steps++)
		if (m->id == id)
			return true;
	return false;
}

static unsigned peers_of_parent(const struct mountinfo *now, const struct mount *m)
{
	const struct mount *parent = mountinfo_find(now, m->parent);
	return parent ? parent->peers : 0;
}

// A peer that one of the two got by way of what they are mounted on does not count: it is detached with the other.
static bool has_peer_elsewhere(const struct mountinfo *now, const struct mount *m, const char *point)
{
	unsigned above = peers_of_parent(now, m);
	for (size_t i = 0; m->peers && i < now->count; i++) {
		const struct mount *other = &now->items[i];
		auto_fs_dir struct fs_dir here = { 0 }, there = { 0 };
		if (other->peers != m->peers || mountinfo_path_is_below(other->point, point))
			continue;
		bool is_copy = above && above == peers_of_parent(now, other) && mountinfo_under(now, m, &here) &&
			       mountinfo_under(now, other, &there) && mountinfo_fs_dir_same(&here, &there);
		if (!is_copy)
			return true;
	}
	return false;
}

// It is not ours, and it or a mount in it propagates to other mounts of the machine, as after "mount --rbind /
// PLACE": detaching it as it is would unmount the machine's own mounts, too.
static bool is_entangled(const struct mountinfo *now, const char *point)
{
	const struct mount *top = mountinfo_at(now, point);
	for (size_t i = 0; !str_eq(top->source, GENERATION_SOURCE) && i < now->count; i++) {
		const struct mount *m = &now->items[i];
		if (mountinfo_path_is_below(m->point, point) && is_mounted_in(now, m, top->id) &&
		    has_peer_elsewhere(now, m, point))
			return true;
	}
	return false;
}

static int pop_topmost(const struct mount_point *s, const struct mountinfo *now, const char *point, struct err *err)
{
	const struct sys *sys = s->mount_ns->sys;
	auto_fd int dir = root_open(s->parent, ".", O_PATH, err),
		    at = dir < 0 ? -1 : root_open(s->parent, s->name, O_PATH, err);
	if (at < 0)
		return -1;
	if (is_entangled(now, point) && sys->mount_private(sys, at) < 0)
		return mount_refused("make private", s->name, err);
	return sys->mount_detach(sys, dir, s->name) < 0 ? mount_refused("detach", s->name, err) : 0;
}

int generation_pop(const struct mount_point *s, struct err *err)
{
	auto_mountinfo struct mountinfo now = { 0 };
	auto_str char *point = NULL;
	if (read_mount_point(s, &now, &point, err) < 0)
		return -1;
	return mountinfo_at(&now, point) ? pop_topmost(s, &now, point, err) : 0;
}

int generation_clear(const struct mount_point *s, bool is_one_kept, struct err *err)
{
	for (;;) {
		auto_mountinfo struct mountinfo now = { 0 };
		auto_str char *point = NULL;
		if (read_mount_point(s, &now, &point, err) < 0)
			return -1;
		size_t depth = mountinfo_depth(&now, point);
		if (!depth ||
		    (is_one_kept && depth == 1 && str_eq(mountinfo_at(&now, point)->source, GENERATION_SOURCE)))
			return (int)depth;
		if (pop_topmost(s, &now, point, err) < 0)
			return -1;
	}
}

int generation_push(const struct mount_point *s, const char *made, int *ret_below, struct err *err)
{
	auto_fd int from = root_open(s->parent, made, O_PATH, err);
	if (from < 0 || root_mkdirs(s->parent, s->name, 0755, err) < 0)
		return -1;
	int depth = generation_clear(s, true, err);
	auto_fd int at = depth < 0 ? -1 : root_open(s->parent, s->name, O_PATH, err);
	if (at < 0)
		return -1;
	if (s->mount_ns->sys->mount_bind(s->mount_ns->sys, from, at, true) < 0)
		return mount_refused("mount the driver root on", s->name, err);
	*ret_below = depth ? TAKE_FD(at) : -1;
	return 0;
}

// Everything mounted in it, except what is mounted on it.
static int detach_children(const struct mount_point *s, int below, unsigned id, struct err *err)
{
	for (;;) {
		auto_mountinfo struct mountinfo now = { 0 };
		auto_str char *point = NULL;
		const struct mount *child = NULL;
		if (read_mount_point(s, &now, &point, err) < 0)
			return -1;
		for (size_t i = 0; i < now.count && !child; i++)
			if (now.items[i].parent == id && !str_eq(now.items[i].point, point))
				child = &now.items[i];
		if (!child)
			return 0;
		if (!mountinfo_path_is_below(child->point, point))
			return err_set(err, EBUSY, "'%s' was moved", point);
		if (s->mount_ns->sys->mount_detach(s->mount_ns->sys, below, child->point + strlen(point) + 1) < 0)
			return mount_refused("detach the mounts in the former driver root on", s->name, err);
	}
}

// Unmounts propagate only between shared mounts. With systemd, and where there is a kubelet, all are shared.
static int share_parent(const struct mount_point *s, struct err *err)
{
	auto_mountinfo struct mountinfo now = { 0 };
	unsigned id;
	if (read_mount_id(s->mount_ns, s->parent->fd, &id, err) < 0 || mount_ns_mounts(s->mount_ns, &now, err) < 0)
		return -1;
	const struct mount *m = mountinfo_find(&now, id);
	if (!m)
		return err_set(err, E_RIGHTS, "proc does not show the mount of '%s'", s->parent->name);
	if (m->peers)
		return 0;
	auto_fd int at = open_mount_path(s->mount_ns, m->point, err);
	if (at < 0)
		return -1;
	return s->mount_ns->sys->mount_shared(s->mount_ns->sys, at) < 0 ?
		       mount_refused("share the mount that holds", s->name, err) :
		       0;
}

int generation_remove_lower(const struct mount_point *s, int below, struct err *err)
{
	const struct sys *sys = s->mount_ns->sys;
	auto_mount_ns struct mount_ns copy = MOUNT_NS_NONE;
	auto_mountinfo struct mountinfo now = { 0 };
	auto_str char *point = NULL;
	unsigned id;
	if (read_mount_id(s->mount_ns, below, &id, err) < 0 || read_mount_point(s, &now, &point, err) < 0)
		return -1;
	const struct mount *former = mountinfo_find(&now, id), *top = mountinfo_at(&now, point);
	if (!former || !top || former == top) // all of them, or the upper one, were detached by another process
		return 0;
	if (top->parent != id)
		return err_set(err, EBUSY, "something else was mounted on '%s'", point);
	if (detach_children(s, below, id, err) < 0 || share_parent(s, err) < 0 ||
	    mount_ns_copy(s->mount_ns, below, &copy, err) < 0)
		return -1;
	// Both calls reach the topmost mount: first the upper one, which no longer propagates from this namespace, then
	// the lower.
	auto_fd int at = openat(s->mount_ns->proc, "self/cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0 || sys->mount_private(sys, at) < 0 || sys->mount_detach(sys, at, ".") < 0 ||
	    sys->mount_detach(sys, at, ".") < 0)
		return mount_refused("detach the former driver root on", s->name, err);
	return 0;
}
