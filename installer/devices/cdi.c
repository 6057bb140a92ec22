// SPDX-License-Identifier: Apache-2.0
// The files of a driver root that a container gets are those that NVIDIA's container toolkit gives it (contract 1.8,
// and pkg/nvcdi/driver-nvml.go, internal/discover/graphics.go and ipc.go of its repository). The GPUs and their
// partitions come from the loaded driver. Source: NVIDIA's open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c
// (gpus/*/information) and nv-caps.c (capabilities).
#include "devices/cdi.h"

#include "devices/found_nodes.h"
#include "driver_root/driver_root.h"
#include "driver_root/root_record.h"
#include "host/modules.h"

#include <ctype.h>

// The lowest version that has device names that begin with a digit (specs-go/version.go, requiresV050).
static const char VERSION[] = "0.5.0";
// The runtime hook of NVIDIA's toolkit, where a machine has it, leaves this container alone.
static const char NO_TOOLKIT[] = "NVIDIA_VISIBLE_DEVICES=void";
enum { HOOK_TIMEOUT_S = 60 };

struct cdi_gpu {
	unsigned minor;     // of its node
	char *address;      // "0000:40:00.0"
	char *uuid;         // NULL = unknown until the GPU is opened for the first time
	struct devices drm; // its nodes in dev/dri
};

struct cdi_instance {                  // of a GPU that is partitioned (MIG): a compute instance
	unsigned minor;                // of the GPU
	unsigned gi, ci;               // numbers of the GPU instance and of the compute instance in it
	unsigned gi_access, ci_access; // minors of the nodes that give access to them
};

struct cdi_mount {
	char *source, *path; // absolute: on the machine, in the container
	bool is_socket;      // a directory where a daemon has its socket
};

struct cdi {                    // the content of a specification
	struct devices devices; // with verdicts
	struct cdi_gpu *gpus;   // in the order of their PCI addresses, as NVML counts; those that the driver serves
	size_t gpu_count;
	struct cdi_instance *instances; // in the order of gpu, gi, ci
	size_t instance_count;
	char *version; // of the user space
	struct cdi_mount *mounts;
	size_t mount_count;
	struct strv links;   // "TARGET::PATH": names under which libraries are looked for
	struct strv folders; // absolute, in the container: where libraries are
	char *hook;          // absolute, on the machine: this program
};

static void cdi_done(struct cdi *c)
{
	devices_done(&c->devices);
	for (size_t i = 0; i < c->gpu_count; i++) {
		free(c->gpus[i].address);
		free(c->gpus[i].uuid);
		devices_done(&c->gpus[i].drm);
	}
	free(c->gpus);
	free(c->instances);
	for (size_t i = 0; i < c->mount_count; i++) {
		free(c->mounts[i].source);
		free(c->mounts[i].path);
	}
	free(c->mounts);
	free(c->version);
	free(c->hook);
	strv_done(&c->links);
	strv_done(&c->folders);
	*c = (struct cdi){ 0 };
}
#define auto_cdi __attribute__((cleanup(cdi_done)))

static char *join_path(const char *dir, const char *name)
{
	return *dir ? str_fmt("%s/%s", dir, name) : str_dup(name);
}

static void add_mount(struct cdi *c, const char *source, const char *path, bool is_socket)
{
	c->mounts = mem_grow(c->mounts, c->mount_count + 1, sizeof(*c->mounts));
	c->mounts[c->mount_count++] = (struct cdi_mount){ .source = str_fmt("/%s", source),
							  .path = str_fmt("/%s", path),
							  .is_socket = is_socket };
}

// The runtime opens the source by its path on the machine, where an absolute link leads out of an exported root.
static bool is_mountable(const struct root *root, const char *export, const char *path)
{
	struct err ignored;
	struct stat st;
	auto_str char *target = NULL;
	if (root_stat(root, path, &st, &ignored) <= 0)
		return false;
	if (!S_ISLNK(st.st_mode))
		return S_ISREG(st.st_mode);
	return root_exists(root, path) && root_readlink(root, path, &target, &ignored) > 0 &&
	       (*target != '/' || !*export);
}

static bool add_file_mount(const struct root *root, const char *export, const char *path, struct cdi *c)
{
	if (!is_mountable(root, export, path))
		return false;
	auto_str char *source = join_path(export, path);
	add_mount(c, source, path, false);
	return true;
}

// Names appear in hook arguments and in JSON.
static bool is_plain_name(const char *name)
{
	static const char also[] = "._+-";
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr(also, *name))
			return false;
	return true;
}

// Libraries of the driver that have versions of their own (internal/discover/graphics.go, pkg/nvcdi/driver-nvml.go).
static bool is_foreign_version(const char *name)
{
	static const char *const names[] = { "libnvidia-egl-gbm.so.", "libnvidia-egl-wayland.so.",
					     "libnvidia-egl-wayland2.so.", "libnvidia-egl-xcb.so.",
					     "libnvidia-egl-xlib.so." };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_starts(name, names[i]))
			return strchr(name + strlen(names[i]), '.') != NULL;
	return str_starts(name, "libnvidia-nvvm70.so.");
}

static bool is_library(const char *name, const char *version)
{
	auto_str char *end = str_fmt(".so.%s", version);
	return is_plain_name(name) && str_starts(name, "lib") && (str_ends(name, end) || is_foreign_version(name));
}

// 1 = a link that ends at a library of the version, with its target in the same directory.
static int follow_link(const struct root *root, const char *dir, const char *name, const char *version, char **ret,
		       struct err *err)
{
	enum { HOPS = 8 };
	auto_str char *now = str_dup(name), *first = NULL;
	for (int i = 0; i < HOPS; i++) {
		auto_str char *path = join_path(dir, now), *target = NULL;
		int r = root_readlink(root, path, &target, err);
		if (r < 0)
			return -1;
		if (r == 0) {
			if (!first || !is_library(now, version) || !root_exists(root, path))
				return 0;
			*ret = TAKE(first);
			return 1;
		}
		if (!is_plain_name(target))
			return 0;
		if (!first)
			first = str_dup(target);
		free(now);
		now = TAKE(target);
	}
	return 0;
}

static bool has_link(const struct cdi *c, const char *dir, const char *name)
{
	auto_str char *end = str_fmt("::/%s/%s", dir, name);
	for (size_t i = 0; i < c->links.count; i++)
		if (str_ends(c->links.items[i], end))
			return true;
	return false;
}

static int add_library_dir(const struct root *root, const char *export, const char *dir, struct cdi *c, struct err *err)
{
	// Programs that dlopen() a library use these names, which distributions put into development packages only
	// (internal/discover/symlinks.go).
	static const char *const usual[] = { "libcuda.so", "libnvidia-opticalflow.so" };
	size_t before = c->mount_count;
	auto_strv struct strv names = { 0 };
	if (root_list(root, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = join_path(dir, names.items[i]);
		if (is_library(names.items[i], c->version))
			add_file_mount(root, export, path, c);
	}
	if (c->mount_count > before)
		strv_add(&c->folders, str_fmt("/%s", dir));
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *target = NULL;
		if (!is_plain_name(names.items[i]) || !str_starts(names.items[i], "lib") ||
		    !strstr(names.items[i], ".so"))
			continue;
		int r = follow_link(root, dir, names.items[i], c->version, &target, err);
		if (r < 0)
			return -1;
		if (r > 0)
			strv_add(&c->links, str_fmt("%s::/%s/%s", target, dir, names.items[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
		auto_str char *target = str_fmt("%s.1", usual[i]);
		if (has_link(c, dir, target) && !has_link(c, dir, usual[i]))
			strv_add(&c->links, str_fmt("%s::/%s/%s", target, dir, usual[i]));
	}
	return 0;
}

// gbm's loader looks for the driver's back end under a name of its own, and X.Org's for its GLX module. The library of
// indirect GLX (libglvnd's name for it) and that of Vulkan's producer have no links that ldconfig would make
// (internal/discover/symlinks.go and graphics.go).
static void add_graphics_links(const char *dir, struct cdi *c)
{
	static const struct {
		const char *library, *link;
	} names[] = { { "libGLX_nvidia.so", "libGLX_indirect.so.0" },
		      { "libnvidia-vulkan-producer.so", "libnvidia-vulkan-producer.so" } };
	auto_str char *allocator = str_fmt("/%s/libnvidia-allocator.so.%s", dir, c->version);
	auto_str char *glx = str_fmt("libglxserver_nvidia.so.%s", c->version);
	for (size_t i = 0; i < c->mount_count; i++) {
		const char *path = c->mounts[i].path, *name = strrchr(path, '/') + 1;
		if (str_eq(path, allocator))
			strv_add(&c->links, str_fmt("../libnvidia-allocator.so.1::/%s/gbm/nvidia-drm_gbm.so", dir));
		if (str_eq(name, glx))
			strv_add(&c->links, str_fmt("%s::%.*slibglxserver_nvidia.so", glx, (int)(name - path), path));
		for (size_t j = 0; j < ARRAY_SIZE(names); j++) {
			auto_str char *whole = str_fmt("/%s/%s.%s", dir, names[j].library, c->version);
			if (str_eq(path, whole) && !has_link(c, dir, names[j].link))
				strv_add(&c->links, str_fmt("%s::/%s/%s", name, dir, names[j].link));
		}
	}
}

static void add_xorg_mounts(const struct root *root, const char *export, const char *dir, struct cdi *c)
{
	static const char *const below[] = { "nvidia/xorg", "xorg/modules/drivers", "xorg/modules/extensions",
					     "xorg/modules/updates/drivers", "xorg/modules/updates/extensions" };
	const char *const dirs[] = { dir, "usr/lib", "usr/lib64" };
	auto_str char *glx = str_fmt("libglxserver_nvidia.so.%s", c->version);
	const char *const names[] = { "nvidia_drv.so", glx };
	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		bool is_found = false;
		for (size_t i = 0; i < ARRAY_SIZE(dirs) * ARRAY_SIZE(below) && !is_found; i++) {
			auto_str char *path = str_fmt("%s/%s/%s", dirs[i / ARRAY_SIZE(below)],
						      below[i % ARRAY_SIZE(below)], names[n]);
			is_found = add_file_mount(root, export, path, c);
		}
	}
}

static int add_firmware_mounts(const struct root *root, const char *export, struct cdi *c, struct err *err)
{
	auto_str char *dir = str_fmt("lib/firmware/nvidia/%s", c->version);
	auto_strv struct strv names = { 0 };
	if (root_list(root, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = join_path(dir, names.items[i]);
		bool is_needed = str_starts(names.items[i], "gsp") || str_starts(names.items[i], "ucodes");
		if (is_plain_name(names.items[i]) && is_needed && str_ends(names.items[i], ".bin"))
			add_file_mount(root, export, path, c);
	}
	return 0;
}

// What the loaders of OpenGL, EGL, OpenCL, Vulkan and X.Org look for: in a container where all of them do, wherever a
// distribution has it.
static void add_data_mounts(const struct root *root, const char *export, struct cdi *c)
{
	static const char *const dirs[] = { "etc", "usr/share" };
	static const struct {
		const char *name, *in; // below one of dirs; the directory in the container
	} files[] = {
		{ "glvnd/egl_vendor.d/10_nvidia.json", "usr/share" },
		{ "egl/egl_external_platform.d/09_nvidia_wayland2.json", "usr/share" },
		{ "egl/egl_external_platform.d/10_nvidia_wayland.json", "usr/share" },
		{ "egl/egl_external_platform.d/15_nvidia_gbm.json", "usr/share" },
		{ "egl/egl_external_platform.d/20_nvidia_xcb.json", "usr/share" },
		{ "egl/egl_external_platform.d/20_nvidia_xlib.json", "usr/share" },
		{ "nvidia/nvoptix.bin", "usr/share" },
		{ "X11/xorg.conf.d/10-nvidia.conf", "usr/share" },
		{ "X11/xorg.conf.d/nvidia-drm-outputclass.conf", "usr/share" },
		{ "OpenCL/vendors/nvidia.icd", "etc" },
		{ "vulkan/icd.d/nvidia_icd.json", "etc" },
		{ "vulkan/icd.d/nvidia_icd.x86_64.json", "etc" },
		{ "vulkan/icd.d/nvidia_icd.aarch64.json", "etc" },
		{ "vulkan/icd.d/nvidia_layers.json", "etc" },
		{ "vulkan/implicit_layer.d/nvidia_layers.json", "etc" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		for (size_t j = 0; j < ARRAY_SIZE(dirs); j++) {
			auto_str char *path = join_path(dirs[j], files[i].name), *source = join_path(export, path);
			auto_str char *target = join_path(files[i].in, files[i].name);
			if (!is_mountable(root, export, path))
				continue;
			add_mount(c, source, target, false);
			break;
		}
}

static void add_program_mounts(const struct root *root, const char *export, struct cdi *c)
{
	static const char *const dirs[] = { "usr/bin", "usr/sbin", "bin", "sbin" };
	static const char *const programs[] = { "nvidia-smi",
						"nvidia-debugdump",
						"nvidia-persistenced",
						"nvidia-cuda-mps-control",
						"nvidia-cuda-mps-server",
						"nvidia-imex",
						"nvidia-imex-ctl",
						"nvidia-xconfig" };
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		for (size_t j = 0; j < ARRAY_SIZE(dirs); j++) {
			auto_str char *path = join_path(dirs[j], programs[i]);
			if (add_file_mount(root, export, path, c))
				break;
		}
}

// Of the machine, or of the driver root if its daemons run there. A daemon need not run yet: its directory is made
// first.
static void add_socket_mounts(const struct root *host, const char *export, struct cdi *c)
{
	static const char *const dirs[] = { "run/nvidia-persistenced", "run/nvidia-fabricmanager" };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		auto_str char *exported = join_path(export, dirs[i]);
		const char *const places[] = { dirs[i], exported };
		for (size_t j = 0; j < ARRAY_SIZE(places); j++) {
			struct err ignored;
			struct stat st;
			if (root_stat(host, places[j], &st, &ignored) <= 0 || !S_ISDIR(st.st_mode))
				continue;
			add_mount(c, places[j], dirs[i], true);
			break;
		}
	}
}

// The program in the exported root, from its image's base or the pod that exported it, else the one that is installed
// on the machine.
static int find_hook(const struct root *host, const struct root *root, const char *export, struct cdi *c,
		     struct err *err)
{
	static const char *const places[] = { DRIVER_ROOT_PROGRAM, "usr/local/bin/kmodsmith", "usr/bin/kmodsmith" };
	const struct {
		const struct root *root;
		const char *export;
	} roots[] = { { root, export }, { host, "" } };
	for (size_t r = 0; r < ARRAY_SIZE(roots); r++)
		for (size_t i = 0; i < ARRAY_SIZE(places); i++)
			if (is_mountable(roots[r].root, roots[r].export, places[i])) {
				auto_str char *path = join_path(roots[r].export, places[i]);
				c->hook = str_fmt("/%s", path);
				return 0;
			}
	return err_set(err, E_NOT_FOUND,
		       "'%s' has no " DRIVER_ROOT_PROGRAM ", and containers need it to find the libraries",
		       *root->name ? root->name : "/");
}

static int read_mounts(const struct root *host, const char *export, struct cdi *c, struct err *err)
{
	auto_root struct root root = ROOT_NONE;
	auto_str char *dir = NULL;
	if (root_sub(host, *export ? export : ".", &root, err) < 0)
		return -1;
	c->version = root_record_libraries(&root, NULL, &dir);
	if (!c->version)
		return err_set(err, E_NOT_FOUND, "'%s' has no libcuda.so.VERSION and no libnvidia-ml.so.VERSION",
			       root.name);
	auto_str char *vdpau = join_path(dir, "vdpau");
	if (add_library_dir(&root, export, dir, c, err) < 0 || add_library_dir(&root, export, vdpau, c, err) < 0 ||
	    add_firmware_mounts(&root, export, c, err) < 0 || find_hook(host, &root, export, c, err) < 0)
		return -1;
	add_program_mounts(&root, export, c);
	add_data_mounts(&root, export, c);
	add_xorg_mounts(&root, export, dir, c);
	add_graphics_links(dir, c);
	add_socket_mounts(host, export, c);
	return 0;
}

static bool proc_number(const char *text, const char *key, unsigned *ret)
{
	uint64_t number;
	auto_str char *value = str_proc_value(text, key);
	if (!value || !str_u64(value, 10, &number) || number > UINT32_MAX)
		return false;
	*ret = (unsigned)number;
	return true;
}

// "GPU-????????-..." until the GPU was opened for the first time.
static char *gpu_uuid(const char *text)
{
	enum { DIGITS_AND_DASHES = 36 };
	auto_str char *uuid = str_proc_value(text, "GPU UUID");
	if (!uuid || !str_starts(uuid, "GPU-") || strlen(uuid + 4) != DIGITS_AND_DASHES)
		return NULL;
	for (const char *p = uuid + 4; *p; p++)
		if (!isxdigit((unsigned char)*p) && *p != '-')
			return NULL;
	return TAKE(uuid);
}

static int read_gpus(const struct node *node, struct cdi *c, struct err *err)
{
	const struct root *kern = node->kern;
	auto_strv struct strv names = { 0 };
	if (root_list(kern, "proc/driver/nvidia/gpus", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		unsigned minor;
		auto_str char *path = str_fmt("proc/driver/nvidia/gpus/%s/information", names.items[i]), *text = NULL;
		int r = root_read(kern, path, &text, NULL, err);
		if (r < 0)
			return -1;
		auto_str char *excluded = r > 0 ? str_proc_value(text, "GPU Excluded") : NULL;
		if (r == 0 || !proc_number(text, "Device Minor", &minor) || str_eq(excluded, "Yes"))
			continue;
		c->gpus = mem_grow(c->gpus, c->gpu_count + 1, sizeof(*c->gpus));
		struct cdi_gpu *gpu = &c->gpus[c->gpu_count++];
		*gpu = (struct cdi_gpu){ .minor = minor, .address = str_dup(names.items[i]), .uuid = gpu_uuid(text) };
		if (found_drm_nodes(node, gpu->address, &gpu->drm, err) < 0)
			return -1;
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

static int read_instances(const struct root *kern, unsigned minor, struct cdi *c, struct err *err)
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

// Every container fails if the specification names a missing node, so it names only nodes that were checked.
static int read_device_nodes(const struct node *node, struct cdi *c, struct err *err)
{
	int r = devices_want(node->kern, 0, &c->devices, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_NOT_READY, "no driver is loaded");
	if (devices_apply(node->dev_root, node->sys, true, &c->devices, err) < 0)
		return -1;
	for (size_t i = 0; i < c->devices.count; i++) {
		const struct device_node *n = &c->devices.items[i];
		if (n->verdict != NODE_OK)
			return err_set(err, E_NODES, "/dev/%s is %s", n->path, device_verdict_name(n->verdict));
	}
	return 0;
}

// The number is given so that a runtime which does not look at the node makes the one that was measured; the owner
// is left out so that the node belongs to the user of the container. The container needs no right to make more
// nodes.
static void add_device_node(json_t *nodes, const struct device_node *n)
{
	auto_str char *full = str_fmt("/dev/%s", n->path);
	json_array_append_new(nodes, json_pack("{s:s, s:s, s:i, s:i, s:i, s:s}", "path", full, "type", "c", "major",
					       (int)n->major, "minor", (int)n->minor, "fileMode", (int)n->mode,
					       "permissions", "rw"));
}

static void add_named_node(json_t *nodes, const struct cdi *c, const char *path)
{
	for (size_t i = 0; i < c->devices.count; i++)
		if (str_eq(c->devices.items[i].path, path))
			add_device_node(nodes, &c->devices.items[i]);
}

static void add_node(json_t *nodes, const struct cdi *c, const char *prefix, unsigned minor)
{
	auto_str char *path = str_fmt("%s%u", prefix, minor);
	add_named_node(nodes, c, path);
}

static const char GPU[] = "nvidia", CAPABILITY[] = "nvidia-caps/nvidia-cap";

// A socket's directory is mounted, not the socket: a restarted daemon stays visible, and a missing one does not keep
// a container from starting.
static json_t *mounts_json(const struct cdi *c)
{
	json_t *mounts = json_array();
	for (size_t i = 0; i < c->mount_count; i++) {
		const struct cdi_mount *m = &c->mounts[i];
		json_t *options = json_pack("[s, s, s, s, s]", "ro", "nosuid", "nodev", "rbind", "rprivate");
		if (m->is_socket)
			json_array_append_new(options, json_string("noexec"));
		json_array_append_new(mounts, json_pack("{s:s, s:s, s:o}", "hostPath", m->source, "containerPath",
							m->path, "options", options));
	}
	return mounts;
}

// With an empty list the hook would run in the container's environment, which the image chooses: its LD_PRELOAD
// would run code with the rights of the runtime.
//
// The hook may be of an older version, out of the image that the driver root was made of: it refuses options that it
// does not know, and ignores variables. The last two are for "ldcache" (cmd/node/cdi_hook.c).
static json_t *hook_json(const struct cdi *c, const char *verb, const struct strv *args)
{
	auto_str char *driver = str_fmt("DRIVER_VERSION=%s", c->version);
	json_t *argv = json_pack("[s, s, s]", "kmodsmith", "cdi-hook", verb), *rest = json_strv(args);
	json_array_extend(argv, rest);
	json_decref(rest);
	return json_pack("{s:s, s:s, s:o, s:[s, s, s, s], s:i}", "hookName", "createContainer", "path", c->hook, "args",
			 argv, "env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", driver, "DRIVER_FIX_NODES=yes",
			 "DRIVER_OWN_GPUS=yes", "timeout", HOOK_TIMEOUT_S);
}

static void add_cdi_device(json_t *devices, const char *name, json_t *nodes, json_t *hooks)
{
	json_t *edits = json_pack("{s:o}", "deviceNodes", nodes);
	if (json_array_size(hooks))
		json_object_set(edits, "hooks", hooks);
	json_decref(hooks);
	json_array_append_new(devices, json_pack("{s:s, s:o}", "name", name, "containerEdits", edits));
}

// A GPU's own node, and those of graphics with the links that udev makes for them (60-drm.rules, and systemd's
// udev-builtin-path_id.c): programs name a GPU by its address there.
static void add_gpu_nodes(json_t *nodes, struct strv *links, const struct cdi *c, const struct cdi_gpu *gpu)
{
	add_node(nodes, c, GPU, gpu->minor);
	for (size_t i = 0; i < gpu->drm.count; i++) {
		const struct device_node *n = &gpu->drm.items[i];
		const char *name = strrchr(n->path, '/') + 1, *kind = str_starts(name, "card") ? "card" : "render";
		add_device_node(nodes, n);
		strv_add(links, str_fmt("../%s::/dev/dri/by-path/pci-%s-%s", name, gpu->address, kind));
	}
}

static json_t *links_json(const struct cdi *c, const struct strv *links)
{
	json_t *hooks = json_array();
	if (links->count)
		json_array_append_new(hooks, hook_json(c, "links", links));
	return hooks;
}

static void add_mig_devices(json_t *devices, const struct cdi *c, size_t gpu)
{
	for (size_t i = 0; i < c->instance_count; i++) {
		const struct cdi_instance *in = &c->instances[i];
		if (in->minor != c->gpus[gpu].minor)
			continue;
		auto_str char *name = str_fmt("%zu-gi%u-ci%u", gpu, in->gi, in->ci);
		json_t *nodes = json_array();
		add_node(nodes, c, GPU, in->minor);
		add_node(nodes, c, CAPABILITY, in->gi_access);
		add_node(nodes, c, CAPABILITY, in->ci_access);
		add_cdi_device(devices, name, nodes, json_array());
	}
}

static json_t *devices_json(const struct cdi *c)
{
	json_t *devices = json_array(), *all = json_array();
	auto_strv struct strv every = { 0 };
	for (size_t i = 0; i < c->gpu_count; i++) {
		auto_strv struct strv links = { 0 };
		auto_str char *index = str_fmt("%zu", i);
		json_t *nodes = json_array();
		add_gpu_nodes(nodes, &links, c, &c->gpus[i]);
		json_array_extend(all, nodes);
		for (size_t j = 0; j < links.count; j++)
			strv_add(&every, str_dup(links.items[j]));
		add_cdi_device(devices, index, nodes, links_json(c, &links));
		if (c->gpus[i].uuid)
			add_cdi_device(devices, c->gpus[i].uuid, json_incref(nodes), links_json(c, &links));
		add_mig_devices(devices, c, i);
	}
	// Each GPU instance's node once, although all of its compute instances name it.
	for (size_t i = 0; i < c->instance_count; i++) {
		const struct cdi_instance *now = &c->instances[i], *before = i ? now - 1 : NULL;
		if (!before || before->gi_access != now->gi_access)
			add_node(all, c, CAPABILITY, now->gi_access);
		add_node(all, c, CAPABILITY, now->ci_access);
	}
	add_cdi_device(devices, "all", all, links_json(c, &every));
	return devices;
}

static json_t *spec_json(const struct cdi *c)
{
	static const char *const common[] = { "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset" };
	json_t *nodes = json_array(), *hooks = links_json(c, &c->links);
	for (size_t i = 0; i < ARRAY_SIZE(common); i++)
		add_named_node(nodes, c, common[i]);
	json_array_append_new(hooks, hook_json(c, "ldcache", &c->folders));
	return json_pack("{s:s, s:s, s:{s:[s], s:o, s:o, s:o}, s:o}", "cdiVersion", VERSION, "kind", CDI_KIND,
			 "containerEdits", "env", NO_TOOLKIT, "deviceNodes", nodes, "mounts", mounts_json(c), "hooks",
			 hooks, "devices", devices_json(c));
}

int cdi_spec(const struct node *node, const char *named, json_t **ret, struct err *err)
{
	auto_cdi struct cdi c = { 0 };
	auto_root_record struct root_record now = { 0 };
	auto_modules struct modules loaded = { 0 };
	if (read_device_nodes(node, &c, err) < 0 || read_gpus(node, &c, err) < 0)
		return -1;
	for (size_t i = 0; i < c.gpu_count; i++)
		if (read_instances(node->kern, c.gpus[i].minor, &c, err) < 0)
			return -1;
	if (c.instance_count)
		qsort(c.instances, c.instance_count, sizeof(*c.instances), compare_instances);
	if (!c.gpu_count)
		return err_set(err, E_NO_DEVICE, "the driver serves no GPU");
	if (!named && root_record_read(node->host, node->boot, &now, err) < 0)
		return -1;
	const char *export = named ? named : now.dir ? now.dir : "";
	if (read_mounts(node->host, export, &c, err) < 0 || modules_read(node->host, node->kern, "", &loaded, err) < 0)
		return -1;
	if (!str_eq(loaded.version, c.version))
		return err_set(err, E_NOT_READY, "driver %s is loaded, but the user space in '/%s' is %s",
			       loaded.version ? loaded.version : "of unknown version", export, c.version);
	*ret = spec_json(&c);
	return 0;
}

int cdi_imex_spec(const struct node *node, json_t **ret, struct err *err)
{
	auto_devices struct devices channels = { 0 };
	if (found_imex_channels(node, &channels, err) < 0)
		return -1;
	if (!channels.count)
		return 0;
	json_t *devices = json_array(), *all = json_array();
	for (size_t i = 0; i < channels.count; i++) {
		auto_str char *name = str_fmt("%u", channels.items[i].minor);
		json_t *nodes = json_array();
		add_device_node(nodes, &channels.items[i]);
		json_array_extend(all, nodes);
		add_cdi_device(devices, name, nodes, json_array());
	}
	add_cdi_device(devices, "all", all, json_array());
	*ret = json_pack("{s:s, s:s, s:{s:[s]}, s:o}", "cdiVersion", VERSION, "kind", CDI_IMEX_KIND, "containerEdits",
			 "env", NO_TOOLKIT, "devices", devices);
	return 1;
}
