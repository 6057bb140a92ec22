// SPDX-License-Identifier: Apache-2.0
// Which nodes the loaded driver calls for. Names, minors and files: nvidia-modprobe (nvidia-modprobe-utils.c) and the
// driver's procfs, see the contract 3.1 to 3.3.
#include "devices/wanted.h"

#include <stdio.h>

enum { MINOR_MODESET = 254, MINOR_CONTROL = 255, MODE_ANYONE = 0666, CAPABILITY_DEPTH = 8, MINORS = 1 << 20 };

// The driver's request for a group of nodes, from a file of "Key: decimal" lines.
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

static void want_uvm(const struct context *c)
{
	const struct permissions anyone = { .mode = MODE_ANYONE, .may_modify = true };
	unsigned major = devices_major(c->table, "nvidia-uvm");
	if (!major)
		return;
	want_node(c->d, str_dup("nvidia-uvm"), major, 0, &anyone);
	want_node(c->d, str_dup("nvidia-uvm-tools"), major, 1, &anyone);
}

// The driver gives switches the lowest free minor as it finds them, and shows the numbers nowhere: count them.
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
	unsigned major = devices_major(c->table, "nvidia-caps-imex-channels");
	if (!major)
		return channels ? err_set(err, E_USAGE, "%u IMEX channels wished: this driver has none", channels) : 0;
	if (channels > MINORS)
		return err_set(err, E_USAGE, "%u IMEX channels wished: a driver has at most %d", channels, MINORS);
	if (c->params.has_imex_count && channels > c->params.imex_count)
		return err_set(err, E_USAGE, "%u IMEX channels wished: the driver was loaded for %u", channels,
			       c->params.imex_count);
	if (channels == 0 && c->params.is_imex0_requested)
		channels = 1;
	for (unsigned i = 0; i < channels; i++)
		want_node(c->d, str_fmt("nvidia-caps-imex-channels/channel%u", i), major, i, &c->params);
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	return str_version_cmp(((const struct device_node *)a)->path, ((const struct device_node *)b)->path);
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
		want_uvm(&c);
		unsigned vgpu = devices_major(c.table, "nvidia-vgpu-vfio");
		if (vgpu)
			want_node(&d, str_dup("nvidia-vgpuctl"), vgpu, 0, &c.params);
		qsort(d.items, d.count, sizeof(*d.items), compare_paths);
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
