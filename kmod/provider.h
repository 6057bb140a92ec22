// SPDX-License-Identifier: Apache-2.0
// Modules of the kernel's own tree that a driver module needs (R-P9): only those that it really imports from, found in
// the host's lib/modules/RELEASE/modules.dep, loaded after what they need themselves.
#pragma once
#include "base/root.h"
#include "base/sys.h"

// need: as struct proof names it, a path below kernel/ without its ending ("drivers/gpu/drm/drm") or a bare name
// ("drm"). 1 = something was loaded, 0 = all of it was there. E_SYMBOL when the host has no such module.
// timeout_ms: of each load, as of load_module().
int provider_load(const struct root *host, const struct root *kern, const struct sys *sys, const char *release,
		  const char *need, int timeout_ms, struct err *err);
// Does the host have such a module? 1 = yes, 0 = no.
int provider_has(const struct root *host, const char *release, const char *need, struct err *err);
