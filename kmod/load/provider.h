// SPDX-License-Identifier: Apache-2.0
// Modules of the kernel's own tree that a driver module needs (R-P9): only those that it really imports from, found in
// the host's lib/modules/RELEASE/modules.dep, loaded after what they need themselves, with the options that the host
// has for them.
#pragma once
#include "base/file/root.h"
#include "base/process/sys.h"

// need: as struct proof names it, a path below kernel/ without its ending ("drivers/gpu/drm/drm") or a bare name
// ("drm"). 1 = something was loaded, 0 = all of it was there. E_HOST_MODULES when the host has no such module, or one
// that the kernel refuses: the driver that needs it is not to blame. timeout_ms: of each load, as of load_module().
int provider_load(const struct root *host, const struct root *kern, const struct sys *sys, const char *release,
		  const char *need, int timeout_ms, struct err *err);
// Before anything is touched: modules.dep lists what is not loaded yet, and its files exist. 0, or E_HOST_MODULES.
int provider_check(const struct root *host, const struct root *kern, const char *release, const char *need,
		   struct err *err);
// Of a path in modules.dep, which is absolute where depmod was told so: the file below the host's root. Caller frees.
char *provider_path(const char *release, const char *file);
// Could it be loaded again after an unload?
bool provider_has(const struct root *host, const char *release, const char *need);
