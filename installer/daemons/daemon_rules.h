// SPDX-License-Identifier: Apache-2.0
// Which daemons of the driver's user space this node needs, and how each is started: rules as a table, pure
// (contract 1.11, R-P1, R-P4).
//
// Sources: contract 1.11 for the rules and the order of stopping; "Fabric Manager for NVIDIA NVSwitch Systems" (NVIDIA)
// for nv-fabricmanager's options and configuration; NVIDIA/gpu-driver-container for NVLink5's bridge (SW_MNG in its
// VPD) and the modules that its control traffic needs. nvidia-imex is not started here: the manager of compute domains
// does that.
#pragma once
#include "precompiled/payload/version_check.h"

struct daemon_facts {
	size_t switches;     // NVSwitches that the driver serves: NVLink of the fourth generation or older
	char *bridge;        // GUID of the port of NVLink5's management bridge, "0x506b4b0300a1b2c3"; NULL = none
	bool is_bridge_down; // there is a bridge, and its port has no GUID yet
	bool is_vgpu;        // a guest with a virtual GPU
	bool has_gridd_conf, has_topology_conf;
	const char *gridd_env; // "LD_LIBRARY_PATH=DIR" where the driver root has libFlx* for nvidia-gridd; NULL = none
	bool is_fabric_mode;   // NVFM_CONFIG_FABRIC_MODE=1: GPUs are reset once the fabric is managed
	struct strv programs;  // below the driver root ("usr/bin/nvidia-persistenced"), those that the driver root has
	struct strv modules;   // of daemon_modules, those that are in the kernel
};
void daemon_facts_done(struct daemon_facts *f);
#define auto_daemon_facts __attribute__((cleanup(daemon_facts_done)))
extern const char *const daemon_modules[]; // "mlx5_core", "ib_umad", NULL

struct daemon_request {       // of the environment
	struct strv settings; // of the fabric manager: "FIELD=VALUE" of each NVFM_CONFIG_ variable, sorted
	bool is_vgpu;         // DRIVER_TYPE=vgpu
};
void daemon_request_done(struct daemon_request *w);
#define auto_daemon_request __attribute__((cleanup(daemon_request_done)))
int daemon_request_read(char *const *environment, struct daemon_request *ret, struct err *err); // E_CONFIG

// Facts of the machine and of a driver root (an exported one, or a payload). kern has our own drivers/, too.
int daemon_facts_read(const struct root *kern, const struct root *driver, const struct daemon_request *request,
		      struct daemon_facts *ret, struct err *err);

struct daemon {
	const char *name;     // "nvidia-persistenced"
	const char *program;  // below the driver root
	struct strv argv;     // as seen in the driver root
	struct strv after;    // a program that is run once when the daemon is up; empty = none
	char *why;            // why it is needed
	char *why_not;        // why it cannot be started yet or at all; NULL = it can
	const char *dir;      // below run/ of the host and of the driver root: its pid file and socket
	const char *pid_file; // in dir
	const char *socket;   // in dir, cleared before a start; NULL = it clears its own
	const char *env;      // "NAME=VALUE"; NULL = nothing of its own
	const char *follows;  // a daemon that must be up for some seconds first; NULL = none
	bool is_forking;      // goes into the background; its pid file tells where
	bool is_needed;       // GPUs cannot be used while it is down
	bool is_absent;       // its program is not in the driver root
	bool is_configured;   // starts with a copy of the fabric manager's configuration (daemon_fabric_write())
	bool is_guest;        // starts with what /drivers has for guests of a virtual GPU (vgpu_guest.h)
};
struct daemons {
	struct daemon *items; // in the order of starting; stopped in reverse
	size_t count;
};
void daemons_rules(const struct daemon_facts *f, struct daemons *ret);
void daemons_done(struct daemons *d);
#define auto_daemons __attribute__((cleanup(daemons_done)))

// Directories below run/ that a driver root with these programs needs to be writable.
void daemon_dirs(const struct root *driver, struct strv *ret);

// Before the load: the daemons that the hardware needs are in the driver root, in its version (version_check.h), or
// E_DAEMON. A missing optional one is not an error.
int daemons_check(const struct daemons *d, const struct root *driver, const struct version_check *belong,
		  struct err *err);

// The fabric manager's configuration (contract 1.4): the payload's file is read-only, so the daemon is started with
// a copy that has the requested values. NVFM_CONFIG_<FIELD>=VALUE in the environment sets FIELD=VALUE.
#define FABRIC_CONFIG "run/nvidia-fabricmanager/fabricmanager.cfg" // of the host, and as seen in the driver root
#define FABRIC_PAYLOAD_CONFIG "usr/share/nvidia/nvswitch/fabricmanager.cfg"

// Writes the copy, whole or not at all: what kmodsmith needs (log to our output, state in a writable place), then
// settings, then that it stays in the foreground, which settings cannot change.
int daemon_fabric_write(const struct root *host, const struct root *driver, const struct strv *settings,
			struct err *err);
