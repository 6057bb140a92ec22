// SPDX-License-Identifier: Apache-2.0
// Which parameters the loaded driver was given. The kernel does not tell what was given from its defaults, and does not
// show all of it (a parameter of mode 0, a misspelt name): the record of the load does, which this node's journal has
// of what was loaded here in this boot.
#pragma once
#include "host/module_params.h"
#include "journal/journal.h"

// The record of what is loaded; NULL = it was loaded by others, or in another boot. flavour NULL: any.
const struct driver *given_record(const struct journal *j, const char *boot, const char *version, const char *flavour);

// "nvidia NVreg_X": given to one of these modules, and wished no more. NULL = there is none. Caller frees.
char *given_lost(const struct driver *record, const struct strv *modules, const struct params *wished);
// "nvidia_uvm uvm_x=1": wished of a loaded module, and neither given nor shown by the kernel. Defaults are not wishes.
char *given_lacks(const struct driver *record, const struct loaded *loaded, const struct params *wished);
// What came by --param ("MODULE:NAME=VALUE", sorted) and is in none of the usual ones, at the end of ret.
void given_options(const struct driver *record, const struct params *usual, struct strv *ret);
