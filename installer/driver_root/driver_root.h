// SPDX-License-Identifier: Apache-2.0
// The driver root that other pods and programs see, by default /run/nvidia/driver (contract 1.7, 1.8), in
// generations: a new one is prepared beside it and mounted on top of it (generation.h), and the previous one stays
// below until the new one was measured. What no process uses any more is removed (R-D4). A kill at any moment leaves
// either the old or the new one in place.
//
// The kernel looks for the driver's firmware when a GPU is opened for the first time, perhaps while modules are
// being loaded, in the mount namespace of the machine. So before the load its firmware path is set to the generation
// that is prepared but not yet in place: that lies below /run/nvidia, which has the same name on the machine and in
// every pod, while the state directory may have none there. After the switch it is the contract's path, which
// outlives the pod and leads to whatever generation is in place.
#pragma once
#include "base/file/digest.h"
#include "base/process/progress.h"
#include "base/process/sys.h"
#include "host/firmware_path.h"
#include "kmod/source/recipe.h"

struct driver_root_request {
	const char *driver;       // version
	const char *payload;      // digest: STATE/payloads/HEX
	const char *modules;      // STATE/modules/HEX; NULL = not known
	const char *release;      // of the kernel
	enum module_type flavour; // of the modules: whose sources are shown
};

struct driver_root {
	const struct node *node;      // borrowed
	char sources[DIGEST_HEX + 1]; // STATE/sources/HEX of what is requested; "" = the payload has none
	char *former;                 // an earlier one below host, removed once this is in place; NULL = none
	char *dir;                    // below host: "run/nvidia/driver"
	char *parent, *base;          // "run/nvidia", "driver"
	char *made;                   // beside base: where the next generation is prepared; NULL = there is none
	char *fwpath_before;          // the kernel's firmware path before; NULL = it was not changed
	char *record_before;          // of root_record.h; NULL = there was none
	unsigned number;
	bool is_switched;
	bool is_over; // the previous one is mounted below; open as:
	int below;
};
#define DRIVER_ROOT_DEFAULT "/run/nvidia/driver"
#define DRIVER_ROOT_FIRMWARE "lib/firmware" // below dir
#define DRIVER_ROOT_PAYLOADS "payloads"     // below state: trees named by a digest
#define DRIVER_ROOT_MODULES "modules"
#define DRIVER_ROOT_PROGRAM "usr/libexec/kmodsmith" // linked statically: the machine runs it as a hook of containers
#define DRIVER_ROOT_SOURCES "sources" // a copy of a payload's for each kernel, because make writes into it

// dir: a path of the host. E_USAGE when it cannot be one.
int driver_root_open(struct driver_root *e, const char *dir, struct err *err);
void driver_root_done(struct driver_root *e);
#define auto_driver_root __attribute__((cleanup(driver_root_done)))

// 1 = the generation in place was measured and is what is requested; 0 = a new one is needed, *ret_why says why (caller
// frees).
int driver_root_check(struct driver_root *e, const struct driver_root_request *request, char **ret_why,
		      struct err *err);
// The generation in place is right: record it, although another pod made it, and give it our program for hooks.
int driver_root_confirm(struct driver_root *e, const struct driver_root_request *request, struct err *err);
// Prepares the next generation. Nothing that is in use is touched.
int driver_root_prepare(struct driver_root *e, const struct driver_root_request *request, struct err *err);
// The payload has all of these files ("nvidia/535.261.03/gsp_ga10x.bin") once it is unpacked, and we may set the
// kernel's firmware path.
bool driver_root_has_firmware(const struct driver_root *e, const char *payload, const struct firmware_path *search,
			      const struct strv *names);
// Negative: the load would have to set that path, and cannot (attribute_check()). Once the payload is unpacked.
int driver_root_check_firmware_path(const struct driver_root *e, const struct driver_root_request *request,
				    struct err *err);
// Before the load, so that it finds the firmware.
int driver_root_set_firmware_path(struct driver_root *e, const struct driver_root_request *request, struct err *err);
int driver_root_switch(struct driver_root *e, const struct driver_root_request *request, struct err *err);
int driver_root_rollback(struct driver_root *e, struct err *err); // as it was before driver_root_prepare()
int driver_root_finish(struct driver_root *e, struct err *err);   // the new one is good: the previous one is removed

// Removes an export that is no longer requested, or is requested elsewhere: its mounts, its generations, its
// directory name. Consumers keep what they have bound. is_last: nothing is exported elsewhere, so the record is
// removed, too, and the kernel's firmware path unset. E_FIRMWARE, with nothing changed: the kernel finds the
// firmware of driver (NULL = none is loaded) through that path only.
int driver_root_withdraw(const struct driver_root *e, const char *release, const char *driver, bool is_last,
			 struct err *err);
// Removes what earlier exports left: preparations beside the place, and trees of the state directory that no process
// uses any more (R-D4). What a consumer still has mounted, because it has bound an earlier generation privately, stays
// until a later start. 1 = something was removed or nothing was to be; 0 = something stays because it is in use.
int driver_root_gc(const struct driver_root *e, struct err *err);
