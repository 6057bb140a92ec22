// SPDX-License-Identifier: Apache-2.0
// Which parameters the loaded driver was given. The kernel does not tell what was given from its defaults, and does not
// show all of it (a parameter of mode 0, a misspelt name): the record of the load does, which this node's journal has
// of what was loaded here in this boot.
#pragma once
#include "host/module_params.h"
#include "journal/journal.h"

// The record of what is loaded; NULL = it was loaded by others, or in another boot. flavour NULL: any.
const struct driver_state *loaded_params_record(const struct journal *j, const char *boot, const char *version,
						const char *flavour);

// "nvidia NVreg_X": given to one of these modules, and requested no more. NULL = there is none. Caller frees.
char *loaded_params_removed(const struct driver_state *record, const struct strv *modules,
			    const struct module_params *requested);
// "nvidia_uvm uvm_x=1": requested of a loaded module, and neither given nor shown by the kernel. Defaults are not
// wishes.
char *loaded_params_missing(const struct driver_state *record, const struct modules *loaded,
			    const struct module_params *requested);
// What came by --param ("MODULE:NAME=VALUE", sorted) and is in none of the usual ones, at the end of ret.
void loaded_params_options(const struct driver_state *record, const struct module_params *usual, struct strv *ret);
