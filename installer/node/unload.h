// SPDX-License-Identifier: Apache-2.0
// The driver out of the kernel.
#pragma once
#include "base/sys.h"
#include "node/holders.h"

// Modules in this order, each with a deadline; ret gets the names of those that went. E_IN_USE, E_WEDGED.
int unload_modules(const struct strv *order, const struct sys *sys, const struct root *kern, int timeout_ms,
		   struct strv *ret, struct err *err);
// Everything that is the driver's out of the kernel, in holder order. E_IN_USE names the holders before anything is
// unloaded. 1 = unloaded, 0 = nothing was loaded.
int unload_driver(const struct root *host, const struct root *kern, const struct sys *sys, int timeout_ms,
		  struct holders *ret_holders, struct strv *ret_unloaded, struct err *err);
