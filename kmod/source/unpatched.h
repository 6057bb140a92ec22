// SPDX-License-Identifier: Apache-2.0
// Built-in patches that were switched off. Each of them says for which driver and tree a compile fails without it; a
// file of its name in a user's directory replaces it, and one that is not for this pair leaves the pair as it was.
#pragma once
#include "kmod/source/patch.h"

// dir: a user's directory of patches, NULL = none. E_SOURCE_KERNEL names the patch that is missing, before anything is
// compiled. What replaces a patch and is for this pair is trusted to do as well.
int unpatched_check(const struct root *dir, const char *driver_version, enum flavour flavour, const struct tree *tree,
		    struct err *err);
