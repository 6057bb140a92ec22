// SPDX-License-Identifier: Apache-2.0
// Bring the nodes of a dev tree into the wanted state: devices_apply() of wanted.h. Looks before it touches, so that a
// second run makes no changing call (R-G2).
#include "devices/wanted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>

enum { DIR_MODE = 0755 };

struct dev_tree {
	const struct root *root; // holds dev/
	const struct sys *sys;
	bool is_dry;
	int dev;   // dev/ itself, -1 = absent (dry run only)
	int links; // dev/char
	size_t changes;
};

static void dev_tree_done(struct dev_tree *t)
{
	close_fdp(&t->dev);
	close_fdp(&t->links);
}

// A directory below another, made when it is missing and changes are allowed. -1 with errno.
static int open_dev_dir(struct dev_tree *t, int parent, const char *name, bool may_make)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 || errno != ENOENT || t->is_dry || !may_make)
		return fd;
	if (mkdirat(parent, name, DIR_MODE) < 0 && errno != EEXIST)
		return -1;
	t->changes++;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fchmod(fd, DIR_MODE) < 0) { // the umask may have taken bits
		close(fd);
		return -1;
	}
	return fd;
}

static const char *node_difference(const struct device_node *n, const struct stat *st)
{
	if (!S_ISCHR(st->st_mode))
		return "type";
	if (st->st_rdev != makedev(n->major, n->minor))
		return "number";
	if ((st->st_mode & 07777) != n->mode)
		return "mode";
	return st->st_uid != n->uid || st->st_gid != n->gid ? "owner" : NULL;
}

static int make_device_node(struct dev_tree *t, const struct device_node *n, int dir, const char *name)
{
	if (t->sys->node_make(t->sys, dir, name, n->mode, makedev(n->major, n->minor)) < 0)
		return -1;
	t->changes += 2;
	if (t->sys->node_set(t->sys, dir, name, n->mode, n->uid, n->gid) == 0)
		return 0;
	int problem = errno;
	unlinkat(dir, name, 0);
	errno = problem;
	return -1;
}

// Through a temporary name, so that there is never a moment without a node.
static int replace_device_node(struct dev_tree *t, const struct device_node *n, int dir, const char *name)
{
	auto_str char *temporary = str_fmt(".%s.tmp", name);
	unlinkat(dir, temporary, 0);
	if (make_device_node(t, n, dir, temporary) < 0)
		return -1;
	t->changes++;
	if (renameat(dir, temporary, dir, name) == 0)
		return 0;
	int problem = errno;
	unlinkat(dir, temporary, 0);
	errno = problem;
	return -1;
}

// Fills verdict and why. 1 = the right node is there afterwards, 0 = it is not and may not be made, -1 with errno.
static int apply_node_at(struct dev_tree *t, struct device_node *n, int dir, const char *name)
{
	struct stat st;
	bool is_missing = dir < 0 || t->sys->node_look(t->sys, dir, name, &st) < 0;
	if (is_missing && dir >= 0 && errno != ENOENT)
		return -1;
	n->why = is_missing ? NULL : node_difference(n, &st);
	bool is_number_right = !is_missing && S_ISCHR(st.st_mode) && st.st_rdev == makedev(n->major, n->minor);
	n->verdict = is_missing ? NODE_MISSING : n->why ? NODE_WRONG : NODE_OK;
	if (n->verdict == NODE_OK)
		return 1;
	if (t->is_dry || !n->may_modify)
		return is_number_right;
	if (is_missing) {
		if (make_device_node(t, n, dir, name) < 0)
			return -1;
		n->verdict = NODE_CREATED;
		return 1;
	}
	if (!is_number_right) {
		if (replace_device_node(t, n, dir, name) < 0)
			return -1;
	} else {
		t->changes++;
		if (t->sys->node_set(t->sys, dir, name, n->mode, n->uid, n->gid) < 0)
			return -1;
	}
	n->verdict = NODE_CORRECTED;
	return 1;
}

// Whether an existing link leads to a node of the right number, seen from inside the root.
static bool is_link_right(const struct dev_tree *t, const struct device_node *n, const char *target)
{
	struct err err;
	struct stat st;
	auto_str char *path = *target == '/' ? str_dup(target) : str_fmt("dev/char/%s", target), *name = NULL;
	auto_fd int dir = root_parent(t->root, path, &name, &err);
	return dir >= 0 && t->sys->node_look(t->sys, dir, name, &st) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(n->major, n->minor);
}

static int make_link(struct dev_tree *t, const char *target, const char *name, bool is_there)
{
	if (!is_there) {
		t->changes++;
		return symlinkat(target, t->links, name);
	}
	auto_str char *temporary = str_fmt(".%s.tmp", name);
	unlinkat(t->links, temporary, 0);
	if (symlinkat(target, t->links, temporary) < 0)
		return -1;
	t->changes += 2;
	if (renameat(t->links, temporary, t->links, name) == 0)
		return 0;
	int problem = errno;
	unlinkat(t->links, temporary, 0);
	errno = problem;
	return -1;
}

static int apply_link(struct dev_tree *t, struct device_node *n)
{
	char name[32], has[4096];
	snprintf(name, sizeof(name), "%u:%u", n->major, n->minor);
	auto_str char *target = str_fmt("../%s", n->path);
	ssize_t len = t->links < 0 ? -1 : readlinkat(t->links, name, has, sizeof(has) - 1);
	bool is_there = len >= 0 || (t->links >= 0 && errno == EINVAL);
	if (len >= 0) {
		has[len] = '\0';
		if (str_eq(has, target) || is_link_right(t, n, has))
			return 0;
	}
	bool was_ok = n->verdict == NODE_OK;
	if (was_ok)
		n->why = "link";
	if (t->is_dry) {
		if (was_ok)
			n->verdict = NODE_WRONG;
		return 0;
	}
	if (make_link(t, target, name, is_there) < 0) {
		n->why = "link";
		n->verdict = NODE_WRONG;
		return -1;
	}
	if (was_ok)
		n->verdict = NODE_CORRECTED;
	return 0;
}

// 1 = the right node is there, and may have its link.
static int apply_node(struct dev_tree *t, struct device_node *n)
{
	const char *slash = strchr(n->path, '/');
	auto_str char *sub = slash ? str_ndup(n->path, (size_t)(slash - n->path)) : str_dup(".");
	auto_fd int dir = t->dev < 0 ? -1 : open_dev_dir(t, t->dev, sub, n->may_modify);
	n->verdict = NODE_MISSING;
	if (dir < 0 && t->dev >= 0 && errno != ENOENT)
		return -1;
	return apply_node_at(t, n, dir, slash ? slash + 1 : n->path);
}

// Links come after all nodes: when the kernel gave out other numbers than last time, a link may lead to a node that had
// its number and is yet to get another one.
static void apply_nodes(struct dev_tree *t, struct devices *d, struct device_node **ret_failed, int *ret_problem)
{
	bool *is_right = mem_alloc(d->count * sizeof(*is_right));
	for (size_t pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < d->count; i++) {
			int r = pass == 0 ? apply_node(t, &d->items[i]) : is_right[i] ? apply_link(t, &d->items[i]) : 0;
			is_right[i] = r > 0;
			if (r < 0 && !*ret_failed) {
				*ret_problem = errno;
				*ret_failed = &d->items[i];
			}
		}
	free(is_right);
}

static int dev_tree_open(struct dev_tree *t, struct err *err)
{
	struct err absent;
	if (!t->is_dry && root_mkdirs(t->root, "dev", DIR_MODE, err) < 0)
		return -1;
	t->dev = root_open(t->root, "dev", O_RDONLY | O_DIRECTORY, t->is_dry ? &absent : err);
	if (t->dev < 0)
		return t->is_dry ? 0 : -1;
	t->links = open_dev_dir(t, t->dev, "char", true);
	auto_str char *path = root_path(t->root, "dev/char");
	return t->links < 0 && !t->is_dry ? err_set(err, errno, "open '%s'", path) : 0;
}

int devices_apply(const struct root *dev_root, const struct sys *sys, bool is_dry, struct devices *d, struct err *err)
{
	__attribute__((cleanup(dev_tree_done))) struct dev_tree t = {
		.root = dev_root,
		.sys = sys,
		.is_dry = is_dry,
		.dev = -1,
		.links = -1,
	};
	d->changes = 0;
	if (!d->count)
		return 0;
	if (dev_tree_open(&t, err) < 0)
		return err_code(err, E_NODES);
	struct device_node *failed = NULL;
	int problem = 0;
	apply_nodes(&t, d, &failed, &problem);
	d->changes = t.changes;
	if (failed)
		return err_set(err, E_NODES, "make '%s/dev/%s' (%u:%u): %s", dev_root->name, failed->path,
			       failed->major, failed->minor, strerror(problem));
	return t.changes > 0;
}
