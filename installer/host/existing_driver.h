// SPDX-License-Identifier: Apache-2.0
// Whose driver this node has: what is loaded, and what the host would load by itself at its next boot (R-Q1). Told from
// sys/module, proc/driver/nvidia and lib/modules/RELEASE/modules.dep; no program of the driver is asked.
//
// Ours is what has the srcversion of a package in this node's store, and what a run of this boot has noted in
// run/kmodsmith/loaded.json: the store may have been emptied since.
#pragma once
#include "host/kernel.h"
#include "host/modules.h"
#include "precompiled/store/store.h"

enum host_policy {   // what happens to a driver that is not ours and not the requested one
	HOST_FAIL,   // E_HOST_DRIVER; nothing is touched
	HOST_USE,    // it stays, whatever is requested: nodes and readiness are looked after
	HOST_REPLACE // as if it were ours
};
bool host_policy_parse(const char *text, enum host_policy *ret); // "use", "replace", "fail"

struct existing_driver {
	bool is_foreign; // there is a driver that is not ours; without one nothing else is filled in
	bool is_loaded;  // false: only installed, and not kept from being loaded by a blacklist
	bool is_stale;   // loaded, nothing uses it, and the host has no file for it: somebody left it behind
	char *version;   // of what is loaded, else of the file; NULL = not told
	enum flavour flavour;
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

// These modules, which are loaded now, were loaded by us in this boot. made_for: the release that their package was
// made for, where it is another one; else NULL.
int existing_driver_note(const struct root *host, const struct root *kern, const char *boot_id,
			 const struct strv *modules, const char *made_for, struct err *err);
// As it was noted of the driver that is loaded now; NULL = nothing was. Caller frees.
char *existing_driver_made_for(const struct root *host, const char *boot_id, const struct modules *loaded);
