// SPDX-License-Identifier: Apache-2.0
// What earlier exports left and nobody looks at any more: generations beside the place, and trees of the state
// directory (R-D4). What somebody still has mounted, or stands in, stays until a later start.
#pragma once
#include "node/export.h"

// 1 = something was removed or nothing was to be; 0 = something stays because it is in use.
int collect_unused(const struct export *e, struct err *err);
