// SPDX-License-Identifier: Apache-2.0
// GPUs that the kernel's own drivers have: let go before the driver comes, given back when it does not (R-P8).
//
// Released are nouveau, nova_core and nvidiafb, and the firmware's framebuffer in a BAR of a GPU. vfio is never
// touched, and what somebody else put on a GPU is refused by the plan. A device that a process has open is not unbound:
// a driver's remove cannot fail, so it may wait for whoever uses the device, without a bound.
//
// driver_override (Documentation/ABI/testing/sysfs-bus-pci) keeps the old driver from coming back in between; what it
// was before is put back when the driver has the device, or when it is given back.
#pragma once
#include "base/process/progress.h"
#include "base/process/sys.h"
#include "host/pci.h"

struct unbind_work {
	const struct root *host, *kern;
	const struct sys *sys;
	const char *release; // of the running kernel, whose tree a module comes back from
	int timeout_ms;      // of one call into the kernel
	struct progress *progress;
};

struct unbound_device {
	const char *bus; // "pci", "platform"
	char *name;      // "0000:40:00.0", "efi-framebuffer.0"
	char *driver;    // that had it
	char *override;  // what driver_override said, "" = nothing; NULL = it was not changed
	bool is_unbound;
	bool is_stuck; // a call about it did not come back: no other can
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
// E_BOUND names the device, the driver and who holds it, before anything is released; or what could not be released.
// E_WEDGED: an unbind did not come back, and whatever is asked of that device from here on, a load of its next driver
// included, waits with it. r then holds what was released. A framebuffer that is held is left alone, because the driver
// can do beside it. A module goes only when nothing uses it and the host could bring it back.
int unbind_release(const struct unbind_work *w, const struct gpus *gpus, struct unbound *r, struct err *err);
// Once the driver is loaded: it has them, and driver_override is what it was.
int unbind_finish(const struct unbind_work *w, struct unbound *r, struct err *err);
// After a run that was cut off in this boot, and could not: no GPU is for this driver alone any more.
void unbind_finish_interrupted(const struct unbind_work *w, const struct gpus *gpus);
// Back to the drivers that had them; never stops half-way, and adds to *problem what could not be done.
void unbind_restore(const struct unbind_work *w, struct unbound *r, char **problem);
