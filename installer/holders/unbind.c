// SPDX-License-Identifier: Apache-2.0
#include "holders/unbind.h"

#include "base/process/attribute.h"
#include "holders/holders.h"
#include "kmod/load/bounded.h"
#include "kmod/load/load.h"
#include "kmod/load/provider.h"

#include <errno.h>
#include <fcntl.h>

static const char OURS[] = "nvidia";

void unbind_done(struct unbound *r)
{
	for (size_t i = 0; i < r->count; i++) {
		free(r->items[i].name);
		free(r->items[i].driver);
		free(r->items[i].override);
	}
	free(r->items);
	strv_done(&r->modules);
	*r = (struct unbound){ 0 };
}

static bool is_unbind_due(const struct gpu *gpu)
{
	return gpu_is_ours(gpu) && gpu_owner(gpu) == GPU_KERNEL;
}

char *unbind_text(const struct gpus *gpus)
{
	char *text = NULL;
	for (size_t i = 0; i < gpus->count; i++) {
		const struct gpu *gpu = &gpus->items[i];
		if (is_unbind_due(gpu))
			str_add(&text, "%s%s from %s", text ? ", " : "", gpu->address, gpu->driver);
		if (gpu->framebuffer)
			str_add(&text, "%s%s", text ? ", " : "", gpu->framebuffer);
	}
	return text;
}

// The last part of what a link points to; NULL = no such link.
static char *link_name(const struct root *kern, const char *path)
{
	struct err err;
	auto_str char *target = NULL;
	if (root_readlink(kern, path, &target, &err) <= 0)
		return NULL;
	const char *slash = strrchr(target, '/');
	return str_dup(slash ? slash + 1 : target);
}

static char *bound_driver_name(const struct root *kern, const char *bus, const char *device)
{
	auto_str char *path = str_fmt("sys/bus/%s/devices/%s/driver", bus, device);
	return link_name(kern, path);
}

static char *override_path(const char *bus, const char *device)
{
	return str_fmt("sys/bus/%s/devices/%s/driver_override", bus, device);
}

static void add_unbound_device(struct unbound *r, const char *bus, const char *name, char *take_driver)
{
	r->items = mem_grow(r->items, r->count + 1, sizeof(*r->items));
	r->items[r->count++] = (struct unbound_device){ .bus = bus, .name = str_dup(name), .driver = take_driver };
}

// A process holds a device if it has one of its DRM or framebuffer nodes open.
static int refuse_held_device(const struct unbind_work *w, const struct unbound_device *d, struct err *err)
{
	static const char *const classes[][2] = { { "drm", "/dev/dri" }, { "graphics", "/dev" } };
	auto_strv struct strv nodes = { 0 };
	auto_holders struct holders h = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		struct err ignored;
		auto_strv struct strv names = { 0 };
		auto_str char *path = str_fmt("sys/bus/%s/devices/%s/%s", d->bus, d->name, classes[i][0]);
		root_list(w->node->kern, path, &names, &ignored);
		for (size_t j = 0; j < names.count; j++)
			strv_add(&nodes, str_fmt("%s/%s", classes[i][1], names.items[j]));
	}
	int r = holders_of(w->node->kern, &nodes, &h, err);
	if (r <= 0)
		return r;
	auto_str char *who = holder_text(&h.items[0]);
	return err_set(err, E_BOUND, "%s of %s is held by %s", d->driver, d->name, who);
}

// In whose mount namespace the node lies does not count.
static bool is_of_vfio(const char *target, const struct strv *nodes)
{
	for (size_t i = 0; i < nodes->count; i++)
		if (str_ends(target, nodes->items[i]))
			return true;
	return str_eq(target, "anon_inode:[vfio-device]");
}

static int refuse_vfio_holder(const struct unbind_work *w, const struct unbound_device *d, const char *pid,
			      const struct strv *nodes, struct err *err)
{
	auto_str char *dir = str_fmt("proc/%s/fd", pid), *comm = NULL, *name = str_fmt("proc/%s/comm", pid);
	auto_strv struct strv fds = { 0 };
	struct err why;
	if (root_list(w->node->kern, dir, &fds, &why) < 0)
		return why.code == ENOENT || why.code == ESRCH ?
			       0 :
			       err_set(err, E_BOUND, "%s of %s: who has it open cannot be seen: %s", d->driver, d->name,
				       why.text);
	for (size_t i = 0; i < fds.count; i++) {
		auto_str char *path = str_fmt("%s/%s", dir, fds.items[i]), *target = NULL;
		if (root_readlink(w->node->kern, path, &target, &why) <= 0 || !is_of_vfio(target, nodes))
			continue;
		root_line(w->node->kern, name, &comm, &why);
		return err_set(err, E_BOUND, "%s of %s is held by pid %s %s fd %s: end the virtual machine first",
			       d->driver, d->name, pid, comm ? comm : "", target);
	}
	return 0;
}

static int refuse_device_of_guest(const struct unbind_work *w, const struct unbound_device *d, struct err *err)
{
	auto_str char *dir = str_fmt("sys/bus/pci/devices/%s", d->name), *group_path = str_fmt("%s/iommu_group", dir);
	auto_str char *group = link_name(w->node->kern, group_path), *devices = str_fmt("%s/vfio-dev", dir);
	auto_strv struct strv nodes = { 0 }, names = { 0 }, pids = { 0 };
	struct err ignored;
	if (group) {
		strv_add(&nodes, str_fmt("/vfio/%s", group));
		strv_add(&nodes, str_fmt("/vfio/noiommu-%s", group));
	}
	root_list(w->node->kern, devices, &names, &ignored);
	for (size_t i = 0; i < names.count; i++)
		strv_add(&nodes, str_fmt("/vfio/devices/%s", names.items[i]));
	if (root_list(w->node->kern, "proc", &pids, err) < 0)
		return -1;
	for (size_t i = 0; i < pids.count; i++)
		if (strspn(pids.items[i], "0123456789") == strlen(pids.items[i]) &&
		    refuse_vfio_holder(w, d, pids.items[i], &nodes, err) < 0)
			return -1;
	return 0;
}

static bool was_for_guests(const struct unbound_device *d)
{
	return str_eq(d->driver, PCI_VFIO);
}

struct write {
	const struct sys *sys;
	const struct root *root;
	const char *path, *text;
};

// Runs in a child that may never end, so it must not keep the caller's descriptors open.
static int write_call(const void *ctx)
{
	const struct write *x = ctx;
	struct root root = *x->root;
	if (!x->sys->record) {
		root.fd = dup2(root.fd, 0);
		closefrom(1);
	}
	return x->sys->attribute_set(x->sys, &root, x->path, x->text) < 0 ? errno : 0;
}

static int write_attribute(const struct unbind_work *w, struct unbound_device *d, const char *path, const char *text,
			   struct err *err)
{
	struct write x = { w->node->sys, attribute_root(w->node->host, w->node->kern, path), path, text };
	struct bounded_result result;
	if (bounded_call(write_call, &x, w->timeout_ms, &result, err) < 0)
		return -1;
	d->is_stuck = result.end != BOUNDED_DONE;
	if (result.end == BOUNDED_LATE)
		return err_set(err, E_WEDGED,
			       "%s of %s: the kernel did not come back within %g s; process %d is still waiting for "
			       "the device",
			       d->driver, d->name, w->timeout_ms / 1e3, (int)result.child);
	if (result.end == BOUNDED_DIED)
		return err_set(err, E_WEDGED, "%s of %s: the kernel killed the caller", d->driver, d->name);
	return result.error ? err_set(err, E_BOUND, "%s: write '%s' to %s: %s", d->name, text, path,
				      strerrorname_np(result.error)) :
			      0;
}

int unbind_check(const struct unbind_work *w, const struct gpus *gpus, struct err *err)
{
	for (size_t i = 0; i < gpus->count; i++) {
		auto_str char *path = override_path("pci", gpus->items[i].address);
		if (is_unbind_due(&gpus->items[i]) && root_exists(w->node->kern, path) &&
		    attribute_check(w->node->host, w->node->kern, path, err) < 0)
			return -1;
	}
	return 0;
}

static int set_override(const struct unbind_work *w, struct unbound_device *d, const char *text, struct err *err)
{
	auto_str char *path = override_path(d->bus, d->name);
	return write_attribute(w, d, path, *text ? text : "\n", err);
}

// From here on only the NVIDIA driver can bind to the device. (The kernel's own drivers bind GPUs, never switches.)
static int claim_device(const struct unbind_work *w, struct unbound_device *d, struct err *err)
{
	auto_str char *path = override_path(d->bus, d->name), *text = NULL;
	if (root_line(w->node->kern, path, &text, err) < 0)
		return -1;
	if (set_override(w, d, OURS, err) < 0)
		return -1;
	d->override = str_dup(!text || str_eq(text, "(null)") ? "" : text);
	return 0;
}

static int write_bind(const struct unbind_work *w, struct unbound_device *d, const char *verb, struct err *err)
{
	auto_str char *path = str_fmt("sys/bus/%s/drivers/%s/%s", d->bus, d->driver, verb);
	return write_attribute(w, d, path, d->name, err);
}

static int unbind_device(const struct unbind_work *w, struct unbound_device *d, struct err *err)
{
	if (write_bind(w, d, "unbind", err) < 0)
		return -1;
	auto_str char *still = bound_driver_name(w->node->kern, d->bus, d->name);
	if (still)
		return err_set(err, E_BOUND, "%s is still bound to %s after it was unbound", d->name, still);
	d->is_unbound = true;
	return 0;
}

// Unloads only a module that is no longer used and that the host could load again.
static int unload_old_module(const struct unbind_work *w, const struct unbound_device *d, struct strv *ret,
			     struct err *err)
{
	auto_str char *path = str_fmt("sys/bus/%s/drivers/%s/module", d->bus, d->driver);
	auto_str char *module = link_name(w->node->kern, path);
	if (!module || strv_has(ret, module) || !provider_has(w->node->host, w->node->release, module))
		return 0;
	int r = unload_module(w->node->sys, w->node->kern, module, w->timeout_ms, err);
	if (r > 0)
		strv_add(ret, TAKE(module));
	else if (r < 0 && err->code == E_WEDGED)
		return -1;
	else if (r < 0)
		progress_note(w->node->progress, "%s stays loaded: %s", module, err->text);
	return 0;
}

int unbind_release(const struct unbind_work *w, const struct gpus *gpus, struct unbound *r, struct err *err)
{
	*r = (struct unbound){ 0 };
	for (size_t i = 0; i < gpus->count; i++)
		if (is_unbind_due(&gpus->items[i]))
			add_unbound_device(r, "pci", gpus->items[i].address, str_dup(gpus->items[i].driver));
	for (size_t i = 0; i < r->count; i++) // check all before the first device is touched
		if (refuse_held_device(w, &r->items[i], err) < 0 ||
		    (was_for_guests(&r->items[i]) && refuse_device_of_guest(w, &r->items[i], err) < 0))
			return -1;
	for (size_t i = 0; i < r->count; i++)
		if (claim_device(w, &r->items[i], err) < 0 || unbind_device(w, &r->items[i], err) < 0)
			return -1;
	for (size_t i = 0; i < gpus->count; i++) {
		struct err why;
		const char *name = gpus->items[i].framebuffer;
		char *driver = name ? bound_driver_name(w->node->kern, "platform", name) : NULL;
		if (!driver)
			continue;
		add_unbound_device(r, "platform", name, driver);
		struct unbound_device *d = &r->items[r->count - 1];
		if (refuse_held_device(w, d, &why) < 0 || unbind_device(w, d, &why) < 0)
			progress_note(w->node->progress, "%s stays bound: %s", name, why.text);
	}
	for (size_t i = 0; i < r->count; i++) // vfio may serve other devices, and has options of its own
		if (r->items[i].is_unbound && !was_for_guests(&r->items[i]) &&
		    unload_old_module(w, &r->items[i], &r->modules, err) < 0)
			return -1;
	return 0;
}

int unbind_finish(const struct unbind_work *w, struct unbound *r, struct err *err)
{
	for (size_t i = 0; i < r->count; i++) {
		struct unbound_device *d = &r->items[i];
		if (!d->override)
			continue;
		// A driver that is loaded already does not probe the device by itself.
		auto_str char *probe = str_fmt("sys/bus/%s/drivers_probe", d->bus);
		auto_str char *now = bound_driver_name(w->node->kern, d->bus, d->name);
		// What kept it for a guest would keep it again.
		if ((!now && write_attribute(w, d, probe, d->name, err) < 0) ||
		    set_override(w, d, was_for_guests(d) ? "" : d->override, err) < 0)
			return -1;
	}
	return 0;
}

void unbind_finish_interrupted(const struct unbind_work *w, const struct gpus *gpus)
{
	auto_unbound struct unbound left = { 0 };
	for (size_t i = 0; i < gpus->count; i++) {
		struct err err;
		const char *address = gpus->items[i].address;
		auto_str char *path = override_path("pci", address), *text = NULL;
		if (!gpu_is_ours(&gpus->items[i]) || root_line(w->node->kern, path, &text, &err) <= 0 ||
		    !str_eq(text, OURS))
			continue;
		add_unbound_device(&left, "pci", address, str_dup(OURS));
		if (set_override(w, &left.items[left.count - 1], "", &err) < 0)
			progress_note(w->node->progress, "driver_override is not cleared: %s", err.text);
	}
}

static void append_problem(char **problem, const struct err *err)
{
	str_add(problem, "%s%s", *problem ? "; " : "", err->text);
}

// Loading its module may have bound the device already.
static int rebind_device(const struct unbind_work *w, struct unbound_device *d, struct err *err)
{
	auto_str char *now = bound_driver_name(w->node->kern, d->bus, d->name);
	if (str_eq(now, d->driver))
		return 0;
	if (now)
		return err_set(err, E_BOUND, "%s is bound to %s", d->name, now);
	return write_bind(w, d, "bind", err);
}

void unbind_restore(const struct unbind_work *w, struct unbound *r, char **problem)
{
	struct err err;
	for (size_t i = 0; i < r->count; i++)
		if (r->items[i].override && !r->items[i].is_stuck &&
		    set_override(w, &r->items[i], r->items[i].override, &err) < 0)
			append_problem(problem, &err);
	for (size_t i = r->modules.count; i-- > 0;)
		if (provider_load(w->node->host, w->node->kern, w->node->sys, w->node->release, r->modules.items[i], 0,
				  &err) < 0)
			append_problem(problem, &err);
	for (size_t i = 0; i < r->count; i++)
		if (r->items[i].is_unbound && rebind_device(w, &r->items[i], &err) < 0)
			append_problem(problem, &err);
}
