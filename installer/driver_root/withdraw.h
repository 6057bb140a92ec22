// SPDX-License-Identifier: Apache-2.0
// An export that is no longer requested, or is requested elsewhere, goes: its mounts, its generations, its name. Who
// had bound it keeps what was bound.
#pragma once
#include "driver_root/driver_root.h"

// is_last: nothing is exported elsewhere, so the record goes with it, and the kernel's firmware path is unset.
// E_FIRMWARE, and nothing has changed: the kernel has nothing but that path to find the firmware of driver (NULL = none
// is loaded).
int withdraw_driver_root(const struct driver_root *e, const char *release, const char *driver, bool is_last,
			 struct err *err);
