// SPDX-License-Identifier: Apache-2.0
// Names, minors and files come from nvidia-modprobe (nvidia-modprobe-utils.c) and the driver's procfs, see the
// contract 3.1 to 3.3. devices_apply() looks before it touches, so that a second run changes nothing (R-G2).
#include "devices/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>

enum { MINOR_MODESET = 254, MINOR_CONTROL = 255, MODE_ANYONE = 0666, CAPABILITY_DEPTH = 8 };

// What the driver demands of a group of nodes, from a file of "Key: decimal" lines.
struct permissions {
	unsigned mode, uid, gid;
	bool may_modify;
	unsigned minor, imex_count;
	bool has_minor, has_imex_count, is_imex0_requested;
};

unsigned devices_major(const char *proc_devices, const char *name)
{
	const char *start = strstr(proc_devices, "Character devices:\n");
	const char *end = start ? strstr(start, "\n\n") : NULL;
	auto_strv struct strv lines = { 0 };
	auto_str char *section = start ? str_ndup(start, end ? (size_t)(end - start) : strlen(start)) : str_dup("");
	strv_split(&lines, section, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		unsigned major;
		int at = 0;
		if (sscanf(lines.items[i], " %u %n", &major, &at) == 1 && at && str_eq(lines.items[i] + at, name))
			return major;
	}
	return 0;
}

static void set_permission(struct permissions *p, const char *key, unsigned value)
{
	if (str_eq(key, "DeviceFileMode"))
		p->mode = value & 0777;
	else if (str_eq(key, "DeviceFileUID"))
		p->uid = value;
	else if (str_eq(key, "DeviceFileGID"))
		p->gid = value;
	else if (str_eq(key, "ModifyDeviceFiles") || str_eq(key, "DeviceFileModify"))
		p->may_modify = value == 1;
	else if (str_eq(key, "ImexChannelCount"))
		p->imex_count = value, p->has_imex_count = true;
	else if (str_eq(key, "CreateImexChannel0"))
		p->is_imex0_requested = value == 1;
	else if (str_eq(key, "DeviceFileMinor") || str_eq(key, "Device Minor"))
		p->minor = value, p->has_minor = true;
}

static int read_permissions(const struct root *kern, const char *path, struct permissions *ret, struct err *err)
{
	struct permissions p = { .mode = MODE_ANYONE, .may_modify = true };
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	int r = root_read(kern, path, &text, NULL, err);
	if (r < 0)
		return -1;
	strv_split(&lines, r > 0 ? text : "", "\n");
	for (size_t i = 0; i < lines.count; i++) {
		char *colon = strchr(lines.items[i], ':');
		uint64_t value;
		if (!colon)
			continue;
		*colon = '\0';
		if (str_u64(str_trim(colon + 1), 10, &value))
			set_permission(&p, str_trim(lines.items[i]), (unsigned)value);
	}
	*ret = p;
	return r;
}

static void want_node(struct devices *d, char *take_path, unsigned major, unsigned minor, const struct permissions *p)
{
	d->items = mem_grow(d->items, d->count + 1, sizeof(*d->items));
	d->items[d->count++] = (struct device_node){
		.path = take_path,
		.major = major,
		.minor = minor,
		.mode = p->mode,
		.uid = p->uid,
		.gid = p->gid,
		.may_modify = p->may_modify,
	};
}

struct context {
	const struct root *kern;
	const char *table; // proc/devices
	struct permissions params;
	struct devices *d;
};

static int want_gpus(const struct context *c, unsigned major, struct err *err)
{
	auto_strv struct strv gpus = { 0 };
	if (root_list(c->kern, "proc/driver/nvidia/gpus", &gpus, err) < 0)
		return -1;
	for (size_t i = 0; i < gpus.count; i++) {
		struct permissions p;
		auto_str char *path = str_fmt("proc/driver/nvidia/gpus/%s/information", gpus.items[i]);
		if (read_permissions(c->kern, path, &p, err) < 0)
			return -1;
		if (p.has_minor)
			want_node(c->d, str_fmt("nvidia%u", p.minor), major, p.minor, &c->params);
	}
	want_node(c->d, str_dup("nvidiactl"), major, MINOR_CONTROL, &c->params);
	if (root_exists(c->kern, "sys/module/nvidia_modeset/initstate"))
		want_node(c->d, str_dup("nvidia-modeset"), major, MINOR_MODESET, &c->params);
	return 0;
}

// The driver gives each switch the lowest free minor and shows these numbers nowhere: count the switches.
static int want_links(const struct context *c, struct err *err)
{
	struct permissions p;
	unsigned nvlink = devices_major(c->table, "nvidia-nvlink"),
		 nvswitch = devices_major(c->table, "nvidia-nvswitch");
	if (nvlink) {
		if (read_permissions(c->kern, "proc/driver/nvidia-nvlink/permissions", &p, err) < 0)
			return -1;
		want_node(c->d, str_dup("nvidia-nvlink"), nvlink, 0, &p);
	}
	if (nvswitch) {
		auto_strv struct strv switches = { 0 };
		if (read_permissions(c->kern, "proc/driver/nvidia-nvswitch/permissions", &p, err) < 0 ||
		    root_list(c->kern, "proc/driver/nvidia-nvswitch/devices", &switches, err) < 0)
			return -1;
		want_node(c->d, str_dup("nvidia-nvswitchctl"), nvswitch, MINOR_CONTROL, &p);
		for (unsigned i = 0; i < switches.count; i++)
			want_node(c->d, str_fmt("nvidia-nvswitch%u", i), nvswitch, i, &p);
	}
	return 0;
}

// Every file below a capability directory that names a minor; the tree has one level per gpu, mig, gi and ci.
static int want_capabilities(const struct context *c, const char *dir, unsigned major, int depth, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(c->kern, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		struct stat st;
		struct permissions p;
		auto_str char *path = str_fmt("%s/%s", dir, names.items[i]);
		int r = root_stat(c->kern, path, &st, err);
		if (r > 0 && S_ISDIR(st.st_mode) && depth > 0)
			r = want_capabilities(c, path, major, depth - 1, err);
		else if (r > 0 && S_ISREG(st.st_mode) && (r = read_permissions(c->kern, path, &p, err)) > 0 &&
			 p.has_minor)
			want_node(c->d, str_fmt("nvidia-caps/nvidia-cap%u", p.minor), major, p.minor, &p);
		if (r < 0)
			return -1;
	}
	return 0;
}

static int want_caps(const struct context *c, struct err *err)
{
	static const char *const trees[] = { "proc/driver/nvidia/capabilities",
					     "proc/driver/nvidia-nvlink/capabilities" };
	unsigned major = devices_major(c->table, "nvidia-caps");
	for (size_t i = 0; major && i < ARRAY_SIZE(trees); i++)
		if (want_capabilities(c, trees[i], major, CAPABILITY_DEPTH, err) < 0)
			return -1;
	return 0;
}

static int want_imex(const struct context *c, unsigned channels, struct err *err)
{
	unsigned major = devices_major(c->table, IMEX_DIR);
	if (!major)
		return channels ?
			       err_set(err, E_USAGE, "%u IMEX channels requested, but this driver has none", channels) :
			       0;
	if (channels > IMEX_CHANNELS)
		return err_set(err, E_USAGE, "%u IMEX channels requested, but a driver has at most %d", channels,
			       IMEX_CHANNELS);
	if (c->params.has_imex_count && channels > c->params.imex_count)
		return err_set(err, E_USAGE, "%u IMEX channels requested, but the driver was loaded for %u", channels,
			       c->params.imex_count);
	if (channels == 0 && c->params.is_imex0_requested)
		channels = 1;
	for (unsigned i = 0; i < channels; i++)
		want_node(c->d, str_fmt(IMEX_DIR "/channel%u", i), major, i, &c->params);
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	return str_version_cmp(((const struct device_node *)a)->path, ((const struct device_node *)b)->path);
}

void devices_sort(struct devices *d)
{
	if (d->count)
		qsort(d->items, d->count, sizeof(*d->items), compare_paths);
}

int devices_want(const struct root *kern, unsigned imex_channels, struct devices *ret, struct err *err)
{
	auto_str char *table = NULL;
	auto_devices struct devices d = { 0 };
	struct context c = { .kern = kern, .d = &d };
	int r = root_read(kern, "proc/devices", &table, NULL, err);
	if (r < 0)
		return -1;
	c.table = r > 0 ? table : "";
	unsigned major = devices_major(c.table, "nvidia");
	if (!major)
		major = devices_major(c.table, "nvidia-frontend"); // its older name
	if (major) {
		if (read_permissions(kern, "proc/driver/nvidia/params", &c.params, err) < 0 ||
		    want_gpus(&c, major, err) < 0 || want_links(&c, err) < 0 || want_caps(&c, err) < 0 ||
		    want_imex(&c, imex_channels, err) < 0)
			return err_wrap(err, "list the device nodes");
		unsigned uvm = devices_major(c.table, "nvidia-uvm");
		if (uvm) {
			const struct permissions anyone = { .mode = MODE_ANYONE, .may_modify = true };
			want_node(&d, str_dup("nvidia-uvm"), uvm, 0, &anyone);
			want_node(&d, str_dup("nvidia-uvm-tools"), uvm, 1, &anyone);
		}
		unsigned vgpu = devices_major(c.table, "nvidia-vgpu-vfio");
		if (vgpu)
			want_node(&d, str_dup("nvidia-vgpuctl"), vgpu, 0, &c.params);
		devices_sort(&d);
	}
	*ret = d;
	d = (struct devices){ 0 };
	return major > 0;
}

void devices_done(struct devices *d)
{
	for (size_t i = 0; i < d->count; i++)
		free(d->items[i].path);
	free(d->items);
	*d = (struct devices){ 0 };
}

size_t devices_count_bad(const struct devices *d)
{
	size_t bad = 0;
	for (size_t i = 0; i < d->count; i++)
		bad += d->items[i].verdict == NODE_MISSING || d->items[i].verdict == NODE_WRONG;
	return bad;
}

const char *device_verdict_name(enum device_verdict v)
{
	static const char *const names[] = { "unseen", "ok", "created", "corrected", "missing", "wrong" };
	return names[v];
}

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

// A container's engine makes an empty directory of a node that it is to mount and that is not there yet.
static int put_in_place(int dir, const char *temporary, const char *name)
{
	if (renameat(dir, temporary, dir, name) == 0)
		return 0;
	return errno == EISDIR && unlinkat(dir, name, AT_REMOVEDIR) == 0 ? renameat(dir, temporary, dir, name) : -1;
}

// Through a temporary name, so that the node is never missing.
static int replace_device_node(struct dev_tree *t, const struct device_node *n, int dir, const char *name)
{
	auto_str char *temporary = str_fmt(".%s.tmp", name);
	unlinkat(dir, temporary, 0);
	if (make_device_node(t, n, dir, temporary) < 0)
		return -1;
	t->changes++;
	if (put_in_place(dir, temporary, name) == 0)
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

// An existing link leads to a node of the right number, as seen inside the root.
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
	if (put_in_place(t->links, temporary, name) == 0)
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

// A link under a number that its node had before would lead whoever asks for the number's new owner to it.
static void remove_stale_links(struct dev_tree *t, const struct devices *d)
{
	struct err ignored;
	auto_strv struct strv names = { 0 };
	root_list(t->root, "dev/char", &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *link = str_fmt("dev/char/%s", names.items[i]), *target = NULL;
		if (root_readlink(t->root, link, &target, &ignored) <= 0 || !str_starts(target, "../nvidia"))
			continue;
		for (size_t k = 0; k < d->count; k++) {
			const struct device_node *n = &d->items[k];
			auto_str char *number = str_fmt("%u:%u", n->major, n->minor);
			if (n->may_modify && str_eq(target + strlen("../"), n->path) && !str_eq(names.items[i], number))
				t->changes += root_unlink(t->root, link, &ignored) > 0;
		}
	}
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
	bool *is_right = mem_alloc(d->count * sizeof(*is_right));
	// All nodes before the links: if the kernel assigned new numbers, a link may still lead to a node that had this
	// number before.
	for (size_t pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < d->count; i++) {
			int r = pass == 0   ? apply_node(&t, &d->items[i]) :
				is_right[i] ? apply_link(&t, &d->items[i]) :
					      0;
			is_right[i] = r > 0;
			if (r < 0 && !failed) {
				problem = errno;
				failed = &d->items[i];
			}
		}
	free(is_right);
	if (!is_dry)
		remove_stale_links(&t, d);
	d->changes = t.changes;
	if (failed)
		return err_set(err, E_NODES, "make '%s/dev/%s' (%u:%u): %s", dev_root->name, failed->path,
			       failed->major, failed->minor, strerror(problem));
	return t.changes > 0;
}
