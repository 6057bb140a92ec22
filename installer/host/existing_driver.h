// SPDX-License-Identifier: Apache-2.0
// The driver that is already on this node: what is loaded, and what the host would load by itself at its next boot
// (R-Q1). Read from sys/module, proc/driver/nvidia and lib/modules/RELEASE/modules.dep, without running any program
// of the driver.
//
// A module is ours when its srcversion is that of a package in this node's store, or when a run in this boot
// recorded it in run/kmodsmith/loaded.json: the store may have been emptied since.
#pragma once
#include "host/kernel.h"
#include "host/modules.h"
#include "precompiled/store/store.h"

enum host_policy {   // what happens to a driver that is not ours and not the requested one
	HOST_FAIL,   // E_HOST_DRIVER; nothing is touched
	HOST_USE,    // it stays, whatever was requested; device nodes and readiness are still managed
	HOST_REPLACE // treated as ours
};
bool host_policy_parse(const char *text, enum host_policy *ret); // "use", "replace", "fail"

struct existing_driver {
	bool is_foreign; // there is a driver that is not ours; otherwise nothing else is set
	bool is_loaded;  // false: only installed, and not blacklisted
	bool is_stale;   // loaded but unused, and the host has no file for it: a leftover
	char *version;   // of what is loaded, else of the file; NULL = unknown
	enum module_type flavour;
	char *file; // for nvidia, below the host root; NULL = none
};

// store: NULL = there is none. blacklist: canonical names, as module_params_read() finds them.
int existing_driver_read(const struct root *host, const struct host *facts, const struct modules *loaded,
			 const struct store *store, const struct strv *blacklist, struct existing_driver *ret,
			 struct err *err);
void existing_driver_done(struct existing_driver *r);
#define auto_existing_driver __attribute__((cleanup(existing_driver_done)))

// "535.261.03 (open, from lib/modules/6.1.0-56-amd64/updates/dkms/nvidia.ko)". Caller frees.
char *existing_driver_text(const struct existing_driver *r);

// Records that these modules, which are loaded now, were loaded by us in this boot. made_for: the kernel release
// that their package was made for, if it is another one; else NULL.
int existing_driver_note(const struct root *host, const struct root *kern, const char *boot_id,
			 const struct strv *modules, const char *made_for, struct err *err);
// made_for as recorded for the driver that is loaded now; NULL = none. Caller frees.
char *existing_driver_made_for(const struct root *host, const char *boot_id, const struct modules *loaded);
