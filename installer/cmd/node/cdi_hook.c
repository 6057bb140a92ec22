// SPDX-License-Identifier: Apache-2.0
// The hooks that our CDI specification names, as a runtime calls them.
#include "devices/cdi_hook.h"
#include "base/file/file.h"
#include "cmd/common/common.h"

struct values {
	struct common common;
	char *driver;
	bool fixes_nodes, owns_gpus;
};

// Paths are the runtime's own, in its mount namespace.
static int open_container_root(const struct values *v, struct machine *m, struct root *ret, struct err *err)
{
	auto_str char *state = NULL;
	size_t len = 0;
	if (machine_open(&v->common, m, err) < 0 || file_read(STDIN_FILENO, "standard input", &state, &len, err) < 0)
		return -1;
	return cdi_hook_open(&m->kern, state, len, ret, err);
}

static int run_links(void *values, char **args, size_t count, struct err *err)
{
	auto_machine struct machine m = MACHINE_NONE;
	auto_root struct root root = ROOT_NONE;
	auto_strv struct strv kept = { 0 };
	if (open_container_root(values, &m, &root, err) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (cdi_hook_link(&root, args[i], &kept, err) < 0)
			return -1;
	for (size_t i = 0; i < kept.count; i++)
		log_warn("keeping %s: the image has its own, which may be of another driver version", kept.items[i]);
	return 0;
}

// A container computes without them, too.
static void limit_container(const struct values *v, const struct machine *m, const struct root *root)
{
	struct err why;
	if (v->fixes_nodes && cdi_hook_fix_nodes(&m->kern, root, &m->sys, &why) < 0)
		log_warn("the container may change device nodes: %s", why.text);
	if (v->owns_gpus && cdi_hook_own_gpus(root, &why) < 0)
		log_warn("EGL and Vulkan in the container show all GPUs: %s", why.text);
}

static int run_ldcache(void *values, char **args, size_t count, struct err *err)
{
	auto_machine struct machine m = MACHINE_NONE;
	auto_root struct root root = ROOT_NONE;
	const struct values *v = values;
	auto_strv struct strv folders = { 0 };
	for (size_t i = 0; i < count; i++)
		if (*args[i] != '/')
			return err_set(err, E_USAGE, "'%s' is not an absolute path", args[i]);
	if (open_container_root(v, &m, &root, err) < 0)
		return -1;
	limit_container(v, &m, &root);
	const char *compat = v->driver ? cdi_hook_compat(&root, v->driver) : NULL;
	if (compat)
		strv_add(&folders, str_dup(compat));
	for (size_t i = 0; i < count; i++)
		strv_add(&folders, str_dup(args[i]));
	int r = cdi_hook_ldcache(&root, &folders, err);
	if (r == 0)
		log_debug("the container has no dynamic linker that reads ld.so.cache");
	return r < 0 ? -1 : 0;
}

enum { ARGS_MAX = 4096 };

const struct cmd cmd_cdi_hook_links = {
	.name = "cdi-hook links",
	.args = "TARGET::PATH...",
	.args_min = 1,
	.args_max = ARGS_MAX,
	.help = "make the links that libraries are found by, in a container that is being created",
	.about = "A container runtime calls this: the specification of `kmodsmith cdi generate` names it as a\n"
		 "hook. Reads the state that the runtime writes on standard input, and makes each PATH a link to\n"
		 "TARGET in the container's root.\n"
		 "A file of the image's own stays. No link of the image leads out of that root.\n\n"
		 "  kmodsmith cdi-hook links ../libcuda.so.1::/usr/lib/libcuda.so <state.json\n",
	.opts = { common_opts },
	.values_size = sizeof(struct values),
	.run = run_links,
};

static const struct opt ldcache_opts[] = {
	{ "driver", 'd', "VERSION", "DRIVER_VERSION", OPT_STR, offsetof(struct values, driver),
	  "the driver's version: an image whose CUDA is of a later branch gets its own compatibility libraries first" },
	{ "fix-nodes", 0, NULL, "DRIVER_FIX_NODES", OPT_FLAG, offsetof(struct values, fixes_nodes),
	  "the driver's parameters, as the container sees them, forbid to make or change device nodes" },
	{ "own-gpus", 0, NULL, "DRIVER_OWN_GPUS", OPT_FLAG, offsetof(struct values, owns_gpus),
	  "EGL and Vulkan show the GPUs whose nodes the container has, not all of the machine" },
	{ 0 },
};

const struct cmd cmd_cdi_hook_ldcache = {
	.name = "cdi-hook ldcache",
	.args = "DIR...",
	.args_max = ARGS_MAX,
	.help = "write etc/ld.so.cache with these directories, in a container that is being created",
	.about = "A container runtime calls this, as `kmodsmith cdi-hook links`. Writes what ldconfig would write,\n"
		 "and runs neither the container's ldconfig nor the host's. A container without glibc is left as it\n"
		 "is. With --driver, CUDA's forward compatibility libraries of the image (/usr/local/cuda/compat)\n"
		 "come first if they are of a later branch than the driver.\n\n"
		 "  kmodsmith cdi-hook ldcache --driver 535.261.03 /usr/lib/x86_64-linux-gnu <state.json\n",
	.opts = { ldcache_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_ldcache,
};
