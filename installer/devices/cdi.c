// SPDX-License-Identifier: Apache-2.0
#include "devices/cdi.h"

// The lowest version that has device names that begin with a digit (specs-go/version.go, requiresV050).
static const char VERSION[] = "0.5.0";
enum { HOOK_TIMEOUT_S = 60 };

void cdi_done(struct cdi *c)
{
	devices_done(&c->devices);
	for (size_t i = 0; i < c->gpu_count; i++)
		free(c->gpus[i].uuid);
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

// The number is given so that a runtime which does not look at the node makes the one that was measured; the owner
// is left out so that the node belongs to the user of the container. The container needs no right to make more
// nodes.
static void add_device_node(json_t *nodes, const struct cdi *c, const char *path)
{
	for (size_t i = 0; i < c->devices.count; i++) {
		const struct device_node *n = &c->devices.items[i];
		if (!str_eq(n->path, path))
			continue;
		auto_str char *full = str_fmt("/dev/%s", n->path);
		json_array_append_new(nodes, json_pack("{s:s, s:s, s:i, s:i, s:i, s:s}", "path", full, "type", "c",
						       "major", (int)n->major, "minor", (int)n->minor, "fileMode",
						       (int)n->mode, "permissions", "rw"));
	}
}

static void add_node(json_t *nodes, const struct cdi *c, const char *prefix, unsigned minor)
{
	auto_str char *path = str_fmt("%s%u", prefix, minor);
	add_device_node(nodes, c, path);
}

static const char GPU[] = "nvidia", CAPABILITY[] = "nvidia-caps/nvidia-cap";

static void add_cdi_device(json_t *devices, const char *name, json_t *nodes)
{
	json_array_append_new(devices,
			      json_pack("{s:s, s:{s:o}}", "name", name, "containerEdits", "deviceNodes", nodes));
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
		add_cdi_device(devices, name, nodes);
	}
}

static json_t *devices_json(const struct cdi *c)
{
	json_t *devices = json_array(), *all = json_array();
	for (size_t i = 0; i < c->gpu_count; i++) {
		auto_str char *index = str_fmt("%zu", i);
		json_t *nodes = json_array();
		add_node(nodes, c, GPU, c->gpus[i].minor);
		add_node(all, c, GPU, c->gpus[i].minor);
		add_cdi_device(devices, index, nodes);
		if (c->gpus[i].uuid)
			add_cdi_device(devices, c->gpus[i].uuid, json_incref(nodes));
		add_mig_devices(devices, c, i);
	}
	// Each GPU instance's node once, although all of its compute instances name it.
	for (size_t i = 0; i < c->instance_count; i++) {
		const struct cdi_instance *now = &c->instances[i], *before = i ? now - 1 : NULL;
		if (!before || before->gi_access != now->gi_access)
			add_node(all, c, CAPABILITY, now->gi_access);
		add_node(all, c, CAPABILITY, now->ci_access);
	}
	add_cdi_device(devices, "all", all);
	return devices;
}

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
static json_t *hook_json(const struct cdi *c, const char *verb, const struct strv *args)
{
	json_t *argv = json_pack("[s, s, s]", "kmodsmith", "cdi-hook", verb), *rest = json_strv(args);
	json_array_extend(argv, rest);
	json_decref(rest);
	return json_pack("{s:s, s:s, s:o, s:[s], s:i}", "hookName", "createContainer", "path", c->hook, "args", argv,
			 "env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "timeout", HOOK_TIMEOUT_S);
}

json_t *cdi_json(const struct cdi *c)
{
	static const char *const common[] = { "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset" };
	json_t *nodes = json_array(), *hooks = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(common); i++)
		add_device_node(nodes, c, common[i]);
	if (c->links.count)
		json_array_append_new(hooks, hook_json(c, "links", &c->links));
	json_array_append_new(hooks, hook_json(c, "ldcache", &c->folders));
	// The runtime hook of NVIDIA's toolkit, where a machine has it, leaves this container alone.
	return json_pack("{s:s, s:s, s:{s:[s], s:o, s:o, s:o}, s:o}", "cdiVersion", VERSION, "kind", CDI_KIND,
			 "containerEdits", "env", "NVIDIA_VISIBLE_DEVICES=void", "deviceNodes", nodes, "mounts",
			 mounts_json(c), "hooks", hooks, "devices", devices_json(c));
}
