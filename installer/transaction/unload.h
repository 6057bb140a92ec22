// SPDX-License-Identifier: Apache-2.0
// The driver out of the kernel.
#pragma once
#include "daemons/holders_wait.h"
#include "journal/journal.h"

// Modules in this order, each with a deadline; ret gets the names of those that went. E_IN_USE, E_WEDGED.
int unload_modules(const struct strv *order, const struct sys *sys, const struct root *kern, int timeout_ms,
		   struct strv *ret, struct err *err);

// Everything that is the driver's, and under HOLDERS_STOP the idle modules that use it, in the order of the graph as it
// is now. Modules that are coming or going are waited for; the holders are looked for once, and E_IN_USE says that
// somebody is in the way and nothing was unloaded. timeout_ms: for each module. E_WEDGED: the kernel did not come back
// from one, and nothing more may be loaded or unloaded before the next boot. ret_unloaded: those that went, on failure,
// too: the kernel's own refusal (E_IN_USE) may come after the first. 1 = unloaded, 0 = nothing was loaded.
// What is published of the node (status_file.h) is withdrawn before and told after.
int unload_driver(const struct holders_wait *d, int timeout_ms, struct holders *ret_holders, struct strv *ret_unloaded,
		  struct err *err);
// As a change of its own: a wedge is remembered in the journal of state, and every later one in this boot is refused
// for it (R-D5).
int unload_node(const struct holders_wait *d, const struct root *state, int timeout_ms, struct holders *ret_holders,
		struct strv *ret_unloaded, struct err *err);
// Of a failed load or unload that is no run of a plan: that the kernel is stuck is remembered, anything else is not.
void unload_record_wedge(const struct root *host, const struct root *state, struct journal *j, const char *boot,
			 struct progress *progress, const struct err *why);
