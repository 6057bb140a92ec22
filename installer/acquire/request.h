// SPDX-License-Identifier: Apache-2.0
// What the user asks for: which driver, where it may come from, and what may be done for it. A command fills it once
// from its options; a session, a plan, a search and a compile hold a pointer to it. What it points to is borrowed.
#pragma once
#include "acquire/reuse.h"
#include "daemons/holders_wait.h"
#include "host/existing_driver.h"
#include "kmod/module/modsign.h"
#include "kmod/source/build_options.h"
#include "kmod/source/module_type.h"
#include "package_manager/package_manager.h"

struct gpu_demand {
	bool is_off;              // the GPUs are not measured: ready says that the modules are there
	bool is_start_only;       // they are opened, and not asked further
	int timeout_ms;           // of one GPU's start; 0 = GPU_START_TIMEOUT_MS
	unsigned allowed_missing; // how many may be broken on a node that is ready
};

struct request {
	// The driver
	const char *driver; // version; NULL = that of the package or the source. Set once it is known
	const char *branch; // in place of driver: the newest of it that there is a package of; "" = of all; NULL = none
	const char *digest; // 64 hexadecimal digits of the package's manifest; NULL = any
	enum module_type flavour; // MODULE_TYPE_AUTO = by the GPUs
	struct strv modules;      // full names, and each must load; empty = those of optional_modules.h
	struct strv params;       // "MODULE:NAME=VALUE"
	bool is_driver_typed;     // then a contradiction is E_USAGE, whatever is loaded

	// Its sources
	bool is_named;       // the only repository is a package named by hand: the store is not asked
	enum reuse reuse;    // whether packages for other kernels may be used
	char *payload;       // directory in an image
	char *source;        // as a user typed it; NULL = that of the image, of the stored payload
	char *source_sha256; // NULL = not pinned
	// The driver was named with more right than the source, which counts only if it is of that driver.
	bool is_source_spare;
	// Named together with the driver, on one level: with another one it contradicts.
	bool is_source_bound, is_package_bound;
	struct strv headers; // package files; empty = what is found
	struct package_manager_options package_manager;
	struct build_options options;
	struct module_key module_key; // signs what is compiled; .key NULL = it stays unsigned
	bool is_compile_forbidden;

	// Permissions and deadlines
	enum host_policy host_driver;
	enum holders_policy holders; // of a driver that has to be unloaded
	bool is_unproven_allowed;
	bool is_retry;                                              // try again what failed here before
	bool is_from_vfio;                                          // GPUs of vfio-pci are for this driver, too
	bool is_stage;                                              // the driver stays, whoever uses it
	int load_timeout_ms, unload_timeout_ms, holders_timeout_ms; // load: see load_module()

	// The result
	const char *driver_root;         // directory, "none"; NULL = where it is now,
	const char *driver_root_default; // else here; NULL = nowhere
	char *cdi;                       // see cdi_spec_file_update()
	unsigned imex_channels;
	struct gpu_demand gpus;
	bool has_daemons;          // the driver's daemons will be started
	bool is_payload_elsewhere; // the user space will be here when the driver is loaded, and its firmware with it
};
extern const struct request request_none;
