// SPDX-License-Identifier: Apache-2.0
// Unbinds the kernel's own drivers from GPUs before a load, and binds them again when the load fails (R-P8).
//
// This covers nouveau, nova_core and nvidiafb, the firmware's framebuffer in a BAR of a GPU, and vfio-pci where that is
// asked for (gpus_reclaim()); the plan refuses any other driver. A device that a process has open is not unbound: a
// driver's remove callback cannot fail, so it may wait for that process forever. Of vfio a device counts as open if its
// group or its own node is, and also if a process has any device of vfio open by a descriptor that was passed to it:
// nothing says of which one that is.
//
// driver_override (Documentation/ABI/testing/sysfs-bus-pci) keeps the old driver from binding in between; its old
// value is restored once the NVIDIA driver has the device, or when the device is given back.
#pragma once
#include "base/process/node.h"
#include "host/pci.h"

struct unbind_work {
	const struct node *node; // .release: whose tree a module can be loaded from again
	int timeout_ms;          // for one call into the kernel
};

struct unbound_device {
	const char *bus; // "pci", "platform"
	char *name;      // "0000:40:00.0", "efi-framebuffer.0"
	char *driver;    // that it was bound to
	char *override;  // what driver_override said, "" = nothing; NULL = it was not changed
	bool is_unbound;
	bool is_stuck; // a call for it hangs, and so would any other
};

struct unbound {
	struct unbound_device *items;
	size_t count;
	struct strv modules; // that were unloaded
};
void unbind_done(struct unbound *r);
#define auto_unbound __attribute__((cleanup(unbind_done)))

// What would be released: "0000:40:00.0 from nouveau, efi-framebuffer.0"; NULL = nothing. Pure. Caller frees.
char *unbind_text(const struct gpus *gpus);
// Negative: driver_override of one of them cannot be written to (attribute_check()). Changes nothing.
int unbind_check(const struct unbind_work *w, const struct gpus *gpus, struct err *err);
// E_BOUND names the device, the driver and its holder, before anything is unbound; or what could not be unbound.
// E_WEDGED: an unbind hangs, and so will every other access to that device, including a load of its next driver. r
// then holds what was unbound. A framebuffer that is in use stays bound, because the driver works beside it. A
// module is unloaded only when nothing uses it and the host can load it again.
int unbind_release(const struct unbind_work *w, const struct gpus *gpus, struct unbound *r, struct err *err);
// Once the driver is loaded: binds it to them and restores driver_override.
int unbind_finish(const struct unbind_work *w, struct unbound *r, struct err *err);
// Clears our driver_override on every GPU, if an earlier run of this boot was killed before unbind_finish().
void unbind_finish_interrupted(const struct unbind_work *w, const struct gpus *gpus);
// Binds the previous drivers again; never stops half-way, and adds to *problem what failed.
void unbind_restore(const struct unbind_work *w, struct unbound *r, char **problem);
