// SPDX-License-Identifier: Apache-2.0
// The driver root that other pods and programs see, by default /run/nvidia/driver (contract 1.7, 1.8), as generations:
// a new one is made beside, mounted on it (overmount.h), and the one before stays beneath until the new one
// was measured. What nobody looks at any more is collected (R-D4). A kill at any instant leaves either the old or the
// new one in place.
//
// The kernel looks for the driver's firmware when a GPU is opened first, which may be while modules are being loaded,
// in the mount namespace of the machine. So before the load its firmware path leads into the generation that is ready
// and not yet in place: that is below /run/nvidia, which has the same name on the machine and in every pod, while the
// state directory may have none there. After the switch it is the contract's path, which outlives the pod and leads
// to whatever generation is in place.
#pragma once
#include "base/file/digest.h"
#include "base/process/progress.h"
#include "base/process/sys.h"
#include "host/firmware_path.h"
#include "kmod/source/recipe.h"

struct export_wish {
	const char *driver;   // version
	const char *payload;  // digest: STATE/payloads/HEX
	const char *modules;  // STATE/modules/HEX; NULL = not known
	const char *release;  // of the kernel
	enum flavour flavour; // of the modules: whose sources are shown
};

struct export
{
	const struct root *host, *kern, *state; // borrowed
	const struct sys *sys;
	struct watch *watch;
	const char *boot;             // boot id
	char sources[DIGEST_HEX + 1]; // STATE/sources/HEX of what is wished; "" = the payload has none
	char *former;                 // an earlier one below host, that is withdrawn when this is in place; NULL = none
	char *dir;                    // below host: "run/nvidia/driver"
	char *parent, *base;          // "run/nvidia", "driver"
	char *made;                   // beside base: where the next generation is prepared; NULL = there is none
	char *fwpath_before;          // what the kernel had; NULL = it was not changed
	char *record_before;          // of root_record.h; NULL = there was none
	unsigned number;
	bool is_switched;
	bool is_over; // the former one lies beneath; it is open as:
	int below;
};
#define EXPORT_DEFAULT "/run/nvidia/driver"
#define EXPORT_FIRMWARE "lib/firmware" // below dir
#define EXPORT_PAYLOADS "payloads"     // below state: trees by the digest of what they are of
#define EXPORT_MODULES "modules"
#define EXPORT_SOURCES "sources" // copies of a payload's, one for each kernel, because make writes into them

// dir: a path of the host. E_USAGE when it cannot be one.
int export_open(struct export *e, const char *dir, struct err *err);
void export_done(struct export *e);
#define auto_export __attribute__((cleanup(export_done)))

// 1 = what is in place is what is wished, measured; 0 = a new generation is due, with *ret_why (caller frees).
int export_look(struct export *e, const struct export_wish *wish, char **ret_why, struct err *err);
// What is in place is right: the record says so, too, although another pod has made it.
int export_confirm(struct export *e, const struct export_wish *wish, struct err *err);
// The next generation, ready to be put in place. Nothing that is in use is touched.
int export_prepare(struct export *e, const struct export_wish *wish, struct err *err);
// The payload, when it is unpacked, has all of these files ("nvidia/535.261.03/gsp_ga10x.bin"), and the kernel can be
// told so.
bool export_brings(const struct export *e, const char *payload, const struct firmware_search *search,
		   const struct strv *names);
bool export_is_path(const struct export *e, const char *path); // of the kernel's firmware, that leads into this export
int export_unset_path(const struct export *e, struct err *err);
int export_firmware(struct export *e, const struct export_wish *wish, struct err *err); // found by the load
int export_switch(struct export *e, const struct export_wish *wish, struct err *err);
int export_back(struct export *e, struct err *err);   // as it was before export_prepare()
int export_settle(struct export *e, struct err *err); // what was switched to holds: the one before goes
