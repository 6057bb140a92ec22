// SPDX-License-Identifier: Apache-2.0
// Which parameters the loaded driver was given. The kernel does not distinguish them from defaults and does not show
// all of them (mode 0, misspelt names), so they come from the journal's record of what was loaded in this boot.
#pragma once
#include "host/module_params.h"
#include "journal/journal.h"

// The record of what is loaded; NULL = it was not loaded by us in this boot. flavour NULL: any.
const struct driver_state *loaded_params_record(const struct journal *j, const char *boot, const char *version,
						const char *flavour);

// "nvidia NVreg_X": set for one of these modules and no longer requested. NULL = none. Caller frees.
char *loaded_params_removed(const struct driver_state *record, const struct strv *modules,
			    const struct module_params *requested);
// "nvidia_uvm uvm_x=1": requested for a loaded module, but neither set nor shown by the kernel. Defaults do not
// count.
char *loaded_params_missing(const struct driver_state *record, const struct modules *loaded,
			    const struct module_params *requested);
// Adds to ret what was set with --param ("MODULE:NAME=VALUE", sorted) and is not among the usual ones.
void loaded_params_options(const struct driver_state *record, const struct module_params *usual, struct strv *ret);
