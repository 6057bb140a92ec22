// SPDX-License-Identifier: Apache-2.0
// What earlier exports left: preparations beside the place, and trees of the state directory at which nobody looks any
// more (R-D4). What a consumer still has mounted, because it has bound an earlier generation privately, stays until a
// later start.
#pragma once
#include "driver_root/driver_root.h"

// 1 = something was removed or nothing was to be; 0 = something stays because it is in use.
int generation_gc(const struct driver_root *e, struct err *err);
