// SPDX-License-Identifier: Apache-2.0
// Unloads the driver from the kernel.
#pragma once
#include "daemons/holders_wait.h"
#include "journal/journal.h"

// Modules in this order, each with a deadline; ret gets the names of the unloaded ones. E_IN_USE, E_WEDGED.
int unload_modules(const struct strv *order, const struct sys *sys, const struct root *kern, int timeout_ms,
		   struct strv *ret, struct err *err);

// Everything that is the driver's, and under HOLDERS_STOP the idle modules that use it, in the order of the graph as it
// is now. Waits for modules that are coming or going; searches for holders once: E_IN_USE means that there are some and
// nothing was unloaded. timeout_ms: for each module. E_WEDGED: the kernel did not return from one, and nothing more may
// be loaded or unloaded before the next boot. ret_unloaded: the unloaded ones, on failure, too: the kernel itself may
// refuse (E_IN_USE) after the first. 1 = unloaded, 0 = nothing was loaded. Withdraws the published status
// (status_file.h) before, and publishes it again after.
int unload_driver(const struct holders_wait *d, int timeout_ms, struct holders *ret_holders, struct strv *ret_unloaded,
		  struct err *err);
// The same outside of a plan: a wedge is recorded in the journal of state, and later changes in this boot are refused
// (R-D5).
int unload_node(const struct holders_wait *d, const struct root *state, int timeout_ms, struct holders *ret_holders,
		struct strv *ret_unloaded, struct err *err);
// For a failed load or unload outside of a plan: records that the kernel is stuck, and nothing else.
void unload_record_wedge(const struct root *host, const struct root *state, struct journal *j, const char *boot,
			 struct progress *progress, const struct err *why);
