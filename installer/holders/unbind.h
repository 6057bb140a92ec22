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

struct owner_work {
	const struct root *host, *kern;
	const struct sys *sys;
	const char *release; // of the running kernel, whose tree a module comes back from
	int timeout_ms;      // of one call into the kernel
	struct watch *watch;
};

struct released_device {
	const char *bus; // "pci", "platform"
	char *name;      // "0000:40:00.0", "efi-framebuffer.0"
	char *driver;    // that had it
	char *override;  // what driver_override said, "" = nothing; NULL = it was not changed
	bool is_unbound;
	bool is_stuck; // a call about it did not come back: no other can
};

struct released {
	struct released_device *items;
	size_t count;
	struct strv modules; // that were unloaded
};
void released_done(struct released *r);
#define auto_released __attribute__((cleanup(released_done)))

// What would be released: "0000:40:00.0 from nouveau, efi-framebuffer.0"; NULL = nothing. Pure. Caller frees.
char *owner_text(const struct gpus *gpus);
// E_BOUND names the device, the driver and who holds it, before anything is released; or what could not be released.
// E_WEDGED: an unbind did not come back, and whatever is asked of that device from here on, a load of its next driver
// included, waits with it. r then holds what was released. A framebuffer that is held is left alone, because the driver
// can do beside it. A module goes only when nothing uses it and the host could bring it back.
int owner_release(const struct owner_work *w, const struct gpus *gpus, struct released *r, struct err *err);
// Once the driver is loaded: it has them, and driver_override is what it was.
int owner_settle(const struct owner_work *w, struct released *r, struct err *err);
// After a run that was cut off in this boot, and could not: no GPU is for this driver alone any more.
void owner_settle_left(const struct owner_work *w, const struct gpus *gpus);
// Back to the drivers that had them; never stops half-way, and adds to *problem what could not be done.
void owner_restore(const struct owner_work *w, struct released *r, char **problem);
