// SPDX-License-Identifier: Apache-2.0
#include "driver_root/overmount.h"

#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int open_overmount_path(const struct root *root, const char *path, struct err *err)
{
	return root_open(root, path, O_PATH, err);
}

static int overmount_refused(const char *what, const struct overmount *s, struct err *err)
{
	bool is_right = errno == EPERM || errno == EACCES;
	file_fail(what, s->name, err);
	return is_right ? err_code(err, E_RIGHTS) : -1;
}

static char *mount_point_path(const struct overmount *s)
{
	auto_str char *dir = mount_ns_path(s->mount_ns, s->parent->fd);
	return dir ? str_fmt("%s/%s", str_eq(dir, "/") ? "" : dir, s->name) : NULL;
}

static int read_overmount(const struct overmount *s, struct mountinfo *ret_now, char **ret_point, struct err *err)
{
	*ret_point = mount_point_path(s);
	if (!*ret_point)
		return err_set(err, E_RIGHTS, "proc does not show where '%s' is", s->parent->name);
	return mount_ns_mounts(s->mount_ns, ret_now, err);
}

bool overmount_is_ours(const struct overmount *s, const struct mountinfo *now, char **ret_why)
{
	auto_str char *point = mount_point_path(s);
	const struct mount *m = point ? mountinfo_at(now, point) : NULL;
	if (!m)
		*ret_why = str_dup("there is none yet");
	else if (!str_eq(m->source, s->source))
		*ret_why = str_dup("a mount that is not ours is there");
	return !*ret_why;
}

bool overmount_is_settled(const struct overmount *s, const struct mountinfo *now)
{
	auto_str char *point = mount_point_path(s);
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

// It came, or the other did, by way of what they lie on, and goes with the other.
static bool is_propagated_copy(const struct mountinfo *now, const struct mount *a, const struct mount *b)
{
	auto_fs_dir struct fs_dir one = { 0 }, other = { 0 };
	unsigned above = peers_of_parent(now, a);
	return above && above == peers_of_parent(now, b) && mountinfo_under(now, a, &one) &&
	       mountinfo_under(now, b, &other) && mountinfo_fs_dir_same(&one, &other);
}

static bool has_peer_elsewhere(const struct mountinfo *now, const struct mount *m, const char *point)
{
	for (size_t i = 0; m->peers && i < now->count; i++) {
		const struct mount *other = &now->items[i];
		if (other->peers == m->peers && !mountinfo_path_is_below(other->point, point) &&
		    !is_propagated_copy(now, m, other))
			return true;
	}
	return false;
}

// It is not ours, and it or a mount in it propagates to other mounts of the machine, as after "mount --rbind /
// PLACE": detaching it as it is would unmount the machine's own mounts, too.
static bool is_entangled(const struct overmount *s, const struct mountinfo *now, const char *point)
{
	const struct mount *top = mountinfo_at(now, point);
	for (size_t i = 0; !str_eq(top->source, s->source) && i < now->count; i++) {
		const struct mount *m = &now->items[i];
		if (mountinfo_path_is_below(m->point, point) && is_mounted_in(now, m, top->id) &&
		    has_peer_elsewhere(now, m, point))
			return true;
	}
	return false;
}

static int pop_topmost(const struct overmount *s, const struct mountinfo *now, const char *point, struct err *err)
{
	auto_fd int dir = open_overmount_path(s->parent, ".", err),
		    at = dir < 0 ? -1 : open_overmount_path(s->parent, s->name, err);
	if (at < 0)
		return -1;
	if (is_entangled(s, now, point) && s->mount_ns->sys->mount_private(s->mount_ns->sys, at) < 0)
		return overmount_refused("make private", s, err);
	return s->mount_ns->sys->mount_detach(s->mount_ns->sys, dir, s->name) < 0 ?
		       overmount_refused("detach", s, err) :
		       0;
}

int overmount_pop(const struct overmount *s, struct err *err)
{
	auto_mountinfo struct mountinfo now = { 0 };
	auto_str char *point = NULL;
	if (read_overmount(s, &now, &point, err) < 0)
		return -1;
	return mountinfo_at(&now, point) ? pop_topmost(s, &now, point, err) : 0;
}

// Until at most one is left, and that is ours; or none.
static int pop_extra(const struct overmount *s, bool is_one_kept, struct err *err)
{
	for (;;) {
		auto_mountinfo struct mountinfo now = { 0 };
		auto_str char *point = NULL;
		if (read_overmount(s, &now, &point, err) < 0)
			return -1;
		size_t depth = mountinfo_depth(&now, point);
		if (!depth || (is_one_kept && depth == 1 && str_eq(mountinfo_at(&now, point)->source, s->source)))
			return (int)depth;
		if (pop_topmost(s, &now, point, err) < 0)
			return -1;
	}
}

int overmount_clear(const struct overmount *s, struct err *err)
{
	return pop_extra(s, false, err);
}

int overmount_push(const struct overmount *s, const char *made, int *ret_below, struct err *err)
{
	auto_fd int from = open_overmount_path(s->parent, made, err);
	if (from < 0 || root_mkdirs(s->parent, s->name, 0755, err) < 0)
		return -1;
	int depth = pop_extra(s, true, err);
	auto_fd int at = depth < 0 ? -1 : open_overmount_path(s->parent, s->name, err);
	if (at < 0)
		return -1;
	if (s->mount_ns->sys->mount_bind(s->mount_ns->sys, from, at, true) < 0)
		return overmount_refused("mount the driver root on", s, err);
	*ret_below = depth ? TAKE_FD(at) : -1;
	return 0;
}

// Everything mounted in it, except what is mounted on it.
static int detach_children(const struct overmount *s, int below, unsigned id, struct err *err)
{
	for (;;) {
		auto_mountinfo struct mountinfo now = { 0 };
		auto_str char *point = NULL;
		const struct mount *child = NULL;
		if (read_overmount(s, &now, &point, err) < 0)
			return -1;
		for (size_t i = 0; i < now.count && !child; i++)
			if (now.items[i].parent == id && !str_eq(now.items[i].point, point))
				child = &now.items[i];
		if (!child)
			return 0;
		if (!mountinfo_path_is_below(child->point, point))
			return err_set(err, EBUSY, "'%s' was moved", point);
		if (s->mount_ns->sys->mount_detach(s->mount_ns->sys, below, child->point + strlen(point) + 1) < 0)
			return overmount_refused("detach the mounts in the former driver root on", s, err);
	}
}

// Unmounts propagate only between shared mounts. With systemd, and where there is a kubelet, all are shared.
static int share_parent(const struct overmount *s, struct err *err)
{
	auto_mountinfo struct mountinfo now = { 0 };
	unsigned id;
	if (mount_ns_mount_id(s->mount_ns, s->parent->fd, &id, err) < 0 || mount_ns_mounts(s->mount_ns, &now, err) < 0)
		return -1;
	const struct mount *m = mountinfo_find(&now, id);
	if (!m)
		return err_set(err, E_RIGHTS, "proc does not show the mount of '%s'", s->parent->name);
	if (m->peers)
		return 0;
	auto_fd int at = mount_ns_open_path(s->mount_ns, m->point, err);
	if (at < 0)
		return -1;
	return s->mount_ns->sys->mount_shared(s->mount_ns->sys, at) < 0 ?
		       overmount_refused("share the mount that holds", s, err) :
		       0;
}

// Both calls reach the topmost mount: first the upper one, which no longer propagates from this namespace, then the
// lower.
static int remove_beneath(const struct overmount *s, int below, struct err *err)
{
	const struct sys *sys = s->mount_ns->sys;
	auto_mount_ns struct mount_ns copy = MOUNT_NS_NONE;
	if (mount_ns_copy(s->mount_ns, below, &copy, err) < 0)
		return -1;
	auto_fd int at = openat(s->mount_ns->proc, "self/cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0 || sys->mount_private(sys, at) < 0 || sys->mount_detach(sys, at, ".") < 0 ||
	    sys->mount_detach(sys, at, ".") < 0)
		return overmount_refused("detach the former driver root on", s, err);
	return 0;
}

int overmount_remove_lower(const struct overmount *s, int below, struct err *err)
{
	auto_mountinfo struct mountinfo now = { 0 };
	auto_str char *point = NULL;
	unsigned id;
	if (mount_ns_mount_id(s->mount_ns, below, &id, err) < 0 || read_overmount(s, &now, &point, err) < 0)
		return -1;
	const struct mount *former = mountinfo_find(&now, id), *top = mountinfo_at(&now, point);
	if (!former || !top || former == top) // all of them, or the upper one, were detached by another process
		return 0;
	if (top->parent != id)
		return err_set(err, EBUSY, "something else was mounted on '%s'", point);
	return detach_children(s, below, id, err) < 0 || share_parent(s, err) < 0 ? -1 : remove_beneath(s, below, err);
}
