// SPDX-License-Identifier: Apache-2.0
// The NVIDIA modules that are in the kernel now, and everything that holds them (R-D1, R-D3).
// Source: sys/module, proc/driver/nvidia, and lib/modules/K of the host for where a module came from.
#pragma once
#include "base/process/progress.h"
#include "host/gpu_support.h"

enum loaded_state { LOADED_LIVE, LOADED_COMING, LOADED_GOING };

struct loaded_module {
	char *name;              // as the kernel writes it: "nvidia_uvm"
	bool is_driver;          // one of the driver's own; false: another module that holds one of those
	enum loaded_state state; // sys/module/X/initstate
	char *version;           // sys/module/X/version; NULL = none
	char *srcversion;
	unsigned refcount;   // for nvidia not a number of opens: each open of /dev/nvidiaN adds 3
	char *taint;         // "OE", "POE", "O", ""
	struct strv holders; // modules that depend on this one
	struct strv params;  // "name=value" of sys/module/X/parameters, sorted
	// A file for it below the host root ("lib/modules/K/updates/dkms/nvidia.ko.xz"); NULL = none: loaded by hand or
	// from another place, or its file was deleted (R-Q1).
	char *file;
};

struct modules {
	struct loaded_module *items; // sorted by name; empty = the driver is not loaded
	size_t count;
	char *version;            // proc/driver/nvidia/version: "535.261.03"; NULL = nvidia is not loaded
	enum module_type flavour; // from the same file; MODULE_TYPE_AUTO = not known
	struct strv params; // "DeviceFileMode=438" of proc/driver/nvidia/params, file order; strings keep no quotes
	uint64_t load;      // of nvidia: another one after each load, as the inode of sys/module/nvidia is
			    // (kernfs_new_node() counts); 0 = not loaded
};

// 1 = something is loaded, 0 = nothing. release: of the running kernel, for module.file.
int modules_read(const struct root *host, const struct root *kern, const char *release, struct modules *ret,
		 struct err *err);
// The file that the host's modprobe would load for a module, under any of its names; as loaded_module.file. 1 = found.
int modules_host_file(const struct root *host, const char *release, const char *module, char **ret, struct err *err);
void modules_done(struct modules *l);
#define auto_modules __attribute__((cleanup(modules_done)))

const struct loaded_module *modules_find(const struct modules *l,
					 const char *name); // '-' and '_' are the same; NULL = not loaded

// Names in the order in which they can be removed: every holder before what it holds, unknown dependents included.
// Modules without a holder relation follow a fixed rank (nvidia_drm first, nvidia last). Deterministic.
// E_IN_USE when the graph has a cycle, which a kernel cannot produce but a damaged recording can.
int modules_unload_order(const struct modules *l, struct strv *ret, struct err *err);

const char *modules_state_name(enum loaded_state s); // "live", "coming", "going"
// The kernel's name of a module file or alias: '-' to '_', and Debian's co-installable names to the real one
// ("nvidia-current-uvm" and "nvidia-tesla-470-uvm" are nvidia_uvm).
char *module_canonical(const char *name);

// The first module that is still being loaded or unloaded; NULL = all are live. No plan can rest on facts that are
// about to change (R-D5): a first load that talks to eight GPUs and four switches takes tens of seconds, and a boot
// unit or a killed run may have started it.
const struct loaded_module *modules_pending(const struct modules *l);
// modules_read() once every module is live or gone. E_MODULE_BUSY when that takes longer than timeout_ms.
int modules_read_settled(const struct root *host, const struct root *kern, const char *release, int timeout_ms,
			 struct progress *progress, struct modules *ret, struct err *err);
