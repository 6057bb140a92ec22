// SPDX-License-Identifier: Apache-2.0
#include "driver_root/overmount.h"

#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int open_path(const struct root *root, const char *path, struct err *err)
{
	return root_open(root, path, O_PATH, err);
}

static int refused(const char *what, const struct stack *s, struct err *err)
{
	bool is_right = errno == EPERM || errno == EACCES;
	file_fail(what, s->name, err);
	return is_right ? err_code(err, E_RIGHTS) : -1;
}

static char *point_of(const struct stack *s)
{
	auto_str char *dir = space_path(s->space, s->parent->fd);
	return dir ? str_fmt("%s/%s", str_eq(dir, "/") ? "" : dir, s->name) : NULL;
}

static int look(const struct stack *s, struct mounts *ret_now, char **ret_point, struct err *err)
{
	*ret_point = point_of(s);
	if (!*ret_point)
		return err_set(err, E_RIGHTS, "proc does not tell where '%s' is", s->parent->name);
	return space_mounts(s->space, ret_now, err);
}

bool stack_is_ours(const struct stack *s, const struct mounts *now, char **ret_why)
{
	auto_str char *point = point_of(s);
	const struct mount *m = point ? mounts_at(now, point) : NULL;
	if (!m)
		*ret_why = str_dup("there is none yet");
	else if (!str_eq(m->source, s->source))
		*ret_why = str_dup("somebody else has mounted something there");
	return !*ret_why;
}

bool stack_is_settled(const struct stack *s, const struct mounts *now)
{
	auto_str char *point = point_of(s);
	return !point || mounts_depth(now, point) <= 1;
}

static bool is_in(const struct mounts *now, const struct mount *m, unsigned id)
{
	size_t steps = 0;
	for (; m && steps < now->count; m = mounts_find(now, m->parent), steps++)
		if (m->id == id)
			return true;
	return false;
}

static unsigned peers_of_parent(const struct mounts *now, const struct mount *m)
{
	const struct mount *parent = mounts_find(now, m->parent);
	return parent ? parent->peers : 0;
}

// It came, or the other did, by way of what they lie on, and goes with the other.
static bool is_copy(const struct mounts *now, const struct mount *a, const struct mount *b)
{
	auto_spot struct spot one = { 0 }, other = { 0 };
	unsigned above = peers_of_parent(now, a);
	return above && above == peers_of_parent(now, b) && mounts_under(now, a, &one) &&
	       mounts_under(now, b, &other) && spot_same(&one, &other);
}

static bool has_peer_elsewhere(const struct mounts *now, const struct mount *m, const char *point)
{
	for (size_t i = 0; m->peers && i < now->count; i++) {
		const struct mount *other = &now->items[i];
		if (other->peers == m->peers && !path_is_below(other->point, point) && !is_copy(now, m, other))
			return true;
	}
	return false;
}

// It is not ours, and it, or what is mounted in it, passes its events to other mounts of the machine, as after "mount
// --rbind / PLACE": if that was detached as it is, the machine's own mounts would go, too.
static bool is_entangled(const struct stack *s, const struct mounts *now, const char *point)
{
	const struct mount *top = mounts_at(now, point);
	for (size_t i = 0; !str_eq(top->source, s->source) && i < now->count; i++) {
		const struct mount *m = &now->items[i];
		if (path_is_below(m->point, point) && is_in(now, m, top->id) && has_peer_elsewhere(now, m, point))
			return true;
	}
	return false;
}

static int pop(const struct stack *s, const struct mounts *now, const char *point, struct err *err)
{
	auto_fd int dir = open_path(s->parent, ".", err), at = dir < 0 ? -1 : open_path(s->parent, s->name, err);
	if (at < 0)
		return -1;
	if (is_entangled(s, now, point) && s->space->sys->mount_private(s->space->sys, at) < 0)
		return refused("make private", s, err);
	return s->space->sys->mount_detach(s->space->sys, dir, s->name) < 0 ? refused("detach", s, err) : 0;
}

int stack_pop(const struct stack *s, struct err *err)
{
	auto_mounts struct mounts now = { 0 };
	auto_str char *point = NULL;
	if (look(s, &now, &point, err) < 0)
		return -1;
	return mounts_at(&now, point) ? pop(s, &now, point, err) : 0;
}

// Until at most one is left, which is ours; or none.
static int reduce(const struct stack *s, bool is_one_kept, struct err *err)
{
	for (;;) {
		auto_mounts struct mounts now = { 0 };
		auto_str char *point = NULL;
		if (look(s, &now, &point, err) < 0)
			return -1;
		size_t depth = mounts_depth(&now, point);
		if (!depth || (is_one_kept && depth == 1 && str_eq(mounts_at(&now, point)->source, s->source)))
			return (int)depth;
		if (pop(s, &now, point, err) < 0)
			return -1;
	}
}

int stack_clear(const struct stack *s, struct err *err)
{
	return reduce(s, false, err);
}

int stack_put(const struct stack *s, const char *made, int *ret_below, struct err *err)
{
	auto_fd int from = open_path(s->parent, made, err);
	if (from < 0 || root_mkdirs(s->parent, s->name, 0755, err) < 0)
		return -1;
	int depth = reduce(s, true, err);
	auto_fd int at = depth < 0 ? -1 : open_path(s->parent, s->name, err);
	if (at < 0)
		return -1;
	if (s->space->sys->mount_bind(s->space->sys, from, at, true) < 0)
		return refused("mount the driver root on", s, err);
	*ret_below = depth ? TAKE_FD(at) : -1;
	return 0;
}

// All that is mounted in it, but for what lies on it.
static int empty(const struct stack *s, int below, unsigned id, struct err *err)
{
	for (;;) {
		auto_mounts struct mounts now = { 0 };
		auto_str char *point = NULL;
		const struct mount *child = NULL;
		if (look(s, &now, &point, err) < 0)
			return -1;
		for (size_t i = 0; i < now.count && !child; i++)
			if (now.items[i].parent == id && !str_eq(now.items[i].point, point))
				child = &now.items[i];
		if (!child)
			return 0;
		if (!path_is_below(child->point, point))
			return err_set(err, EBUSY, "'%s' was moved", point);
		if (s->space->sys->mount_detach(s->space->sys, below, child->point + strlen(point) + 1) < 0)
			return refused("detach what is mounted in the former", s, err);
	}
}

// An event reaches only what shares its events. On machines with systemd, and where there is a kubelet, all is shared.
static int share_parent(const struct stack *s, struct err *err)
{
	auto_mounts struct mounts now = { 0 };
	unsigned id;
	if (space_mount_id(s->space, s->parent->fd, &id, err) < 0 || space_mounts(s->space, &now, err) < 0)
		return -1;
	const struct mount *m = mounts_find(&now, id);
	if (!m)
		return err_set(err, E_RIGHTS, "proc does not tell on what '%s' is", s->parent->name);
	if (m->peers)
		return 0;
	auto_fd int at = space_open_path(s->space, m->point, err);
	if (at < 0)
		return -1;
	return s->space->sys->mount_shared(s->space->sys, at) < 0 ? refused("share the mount below", s, err) : 0;
}

// Both calls reach what is on top: first the upper one, which in this namespace nobody hears of any more, then it.
static int remove_beneath(const struct stack *s, int below, struct err *err)
{
	const struct sys *sys = s->space->sys;
	auto_space struct space copy = SPACE_NONE;
	if (space_copy(s->space, below, &copy, err) < 0)
		return -1;
	auto_fd int at = openat(s->space->proc, "self/cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0 || sys->mount_private(sys, at) < 0 || sys->mount_detach(sys, at, ".") < 0 ||
	    sys->mount_detach(sys, at, ".") < 0)
		return refused("detach what was in", s, err);
	return 0;
}

int stack_settle(const struct stack *s, int below, struct err *err)
{
	auto_mounts struct mounts now = { 0 };
	auto_str char *point = NULL;
	unsigned id;
	if (space_mount_id(s->space, below, &id, err) < 0 || look(s, &now, &point, err) < 0)
		return -1;
	const struct mount *former = mounts_find(&now, id), *top = mounts_at(&now, point);
	if (!former || !top || former == top) // somebody has detached all, or the upper one
		return 0;
	if (top->parent != id)
		return err_set(err, EBUSY, "something else was mounted on '%s'", point);
	return empty(s, below, id, err) < 0 || share_parent(s, err) < 0 ? -1 : remove_beneath(s, below, err);
}
