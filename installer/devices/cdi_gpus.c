// SPDX-License-Identifier: Apache-2.0
// What the loaded driver says of its GPUs and of their partitions. Source: NVIDIA's open-gpu-kernel-modules,
// kernel-open/nvidia/nv-procfs.c (gpus/*/information) and nv-caps.c (capabilities).
#include "devices/cdi.h"

#include "driver_root/root_record.h"
#include "host/modules.h"

#include <ctype.h>

// The value of a line "Key: \t value"; NULL = there is none. Caller frees.
static char *proc_value(const char *text, const char *key)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		char *colon = strchr(lines.items[i], ':');
		if (!colon)
			continue;
		*colon = '\0';
		if (str_eq(str_trim(lines.items[i]), key))
			return str_dup(str_trim(colon + 1));
	}
	return NULL;
}

static bool proc_number(const char *text, const char *key, unsigned *ret)
{
	uint64_t number;
	auto_str char *value = proc_value(text, key);
	if (!value || !str_u64(value, 10, &number) || number > UINT32_MAX)
		return false;
	*ret = (unsigned)number;
	return true;
}

// "GPU-????????-..." until the GPU was opened for the first time.
static char *gpu_uuid(const char *text)
{
	enum { DIGITS_AND_DASHES = 36 };
	auto_str char *uuid = proc_value(text, "GPU UUID");
	if (!uuid || !str_starts(uuid, "GPU-") || strlen(uuid + 4) != DIGITS_AND_DASHES)
		return NULL;
	for (const char *p = uuid + 4; *p; p++)
		if (!isxdigit((unsigned char)*p) && *p != '-')
			return NULL;
	return TAKE(uuid);
}

static int read_gpus(const struct root *kern, struct cdi *c, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(kern, "proc/driver/nvidia/gpus", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		unsigned minor;
		auto_str char *path = str_fmt("proc/driver/nvidia/gpus/%s/information", names.items[i]), *text = NULL;
		int r = root_read(kern, path, &text, NULL, err);
		if (r < 0)
			return -1;
		auto_str char *excluded = r > 0 ? proc_value(text, "GPU Excluded") : NULL;
		if (r == 0 || !proc_number(text, "Device Minor", &minor) || str_eq(excluded, "Yes"))
			continue;
		c->gpus = mem_grow(c->gpus, c->gpu_count + 1, sizeof(*c->gpus));
		c->gpus[c->gpu_count++] = (struct cdi_gpu){ .minor = minor, .uuid = gpu_uuid(text) };
	}
	return 0;
}

// 1 = there is such a file, and it names a minor.
static int read_access(const struct root *kern, const char *dir, unsigned *ret, struct err *err)
{
	auto_str char *path = str_fmt("%s/access", dir), *text = NULL;
	int r = root_read(kern, path, &text, NULL, err);
	return r <= 0 ? r : proc_number(text, "DeviceFileMinor", ret);
}

static bool parse_numbered_name(const char *name, const char *prefix, unsigned *ret)
{
	uint64_t number;
	if (!str_starts(name, prefix) || !str_u64(name + strlen(prefix), 10, &number) || number > UINT32_MAX)
		return false;
	*ret = (unsigned)number;
	return true;
}

static int read_compute(const struct root *kern, const char *dir, const struct cdi_instance *of, struct cdi *c,
			struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(kern, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		struct cdi_instance in = *of;
		auto_str char *below = str_fmt("%s/%s", dir, names.items[i]);
		if (!parse_numbered_name(names.items[i], "ci", &in.ci))
			continue;
		int r = read_access(kern, below, &in.ci_access, err);
		if (r < 0)
			return -1;
		if (r == 0)
			continue;
		c->instances = mem_grow(c->instances, c->instance_count + 1, sizeof(*c->instances));
		c->instances[c->instance_count++] = in;
	}
	return 0;
}

static int read_partitions(const struct root *kern, unsigned minor, struct cdi *c, struct err *err)
{
	auto_str char *dir = str_fmt("proc/driver/nvidia/capabilities/gpu%u/mig", minor);
	auto_strv struct strv names = { 0 };
	if (root_list(kern, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		struct cdi_instance in = { .minor = minor };
		auto_str char *below = str_fmt("%s/%s", dir, names.items[i]);
		if (!parse_numbered_name(names.items[i], "gi", &in.gi))
			continue;
		int r = read_access(kern, below, &in.gi_access, err);
		if (r < 0 || (r > 0 && read_compute(kern, below, &in, c, err) < 0))
			return -1;
	}
	return 0;
}

static int compare_instances(const void *a, const void *b)
{
	const struct cdi_instance *x = a, *y = b;
	if (x->minor != y->minor)
		return x->minor < y->minor ? -1 : 1;
	if (x->gi != y->gi)
		return x->gi < y->gi ? -1 : 1;
	return x->ci < y->ci ? -1 : x->ci > y->ci;
}

static int read_instances(const struct root *kern, struct cdi *c, struct err *err)
{
	for (size_t i = 0; i < c->gpu_count; i++)
		if (read_partitions(kern, c->gpus[i].minor, c, err) < 0)
			return -1;
	if (c->instance_count)
		qsort(c->instances, c->instance_count, sizeof(*c->instances), compare_instances);
	return 0;
}

// A runtime that names a node which is not there fails each container: so only what was measured is named.
static int read_device_nodes(const struct cdi_request *w, struct cdi *c, struct err *err)
{
	int r = devices_want(w->kern, 0, &c->devices, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_NOT_READY, "no driver is loaded");
	if (devices_apply(w->dev_root, w->sys, true, &c->devices, err) < 0)
		return -1;
	for (size_t i = 0; i < c->devices.count; i++) {
		const struct device_node *n = &c->devices.items[i];
		if (n->verdict != NODE_OK)
			return err_set(err, E_NODES, "/dev/%s is %s", n->path, device_verdict_name(n->verdict));
	}
	return 0;
}

static int check_version(const struct cdi_request *w, const char *export, const struct cdi *c, struct err *err)
{
	auto_modules struct modules l = { 0 };
	if (modules_read(w->host, w->kern, "", &l, err) < 0)
		return -1;
	if (!str_eq(l.version, c->version))
		return err_set(err, E_NOT_READY, "driver %s is loaded, the user space in '/%s' is of %s",
			       l.version ? l.version : "of no known version", export, c->version);
	return 0;
}

static int read_driver_files(const struct cdi_request *w, struct cdi *c, struct err *err)
{
	auto_root_record struct root_record now = { 0 };
	if (!w->export && root_record_read(w->host, w->boot, &now, err) < 0)
		return -1;
	const char *export = w->export ? w->export : now.dir ? now.dir : "";
	return cdi_read_mounts(w->host, export, c, err) < 0 ? -1 : check_version(w, export, c, err);
}

int cdi_read(const struct cdi_request *w, struct cdi *ret, struct err *err)
{
	auto_cdi struct cdi c = { 0 };
	if (read_device_nodes(w, &c, err) < 0 || read_gpus(w->kern, &c, err) < 0 ||
	    read_instances(w->kern, &c, err) < 0)
		return -1;
	if (!c.gpu_count)
		return err_set(err, E_NO_DEVICE, "the driver serves no GPU that could be named");
	if (read_driver_files(w, &c, err) < 0)
		return -1;
	*ret = c;
	c = (struct cdi){ 0 };
	return 0;
}
