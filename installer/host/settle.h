// SPDX-License-Identifier: Apache-2.0
// Modules on their way into the kernel or out of it: facts that are about to change are no ground for a plan (R-D5).
// A first load that talks to eight GPUs and four switches takes tens of seconds, and whoever started it, a boot unit or
// a run that was killed, need not be us.
#pragma once
#include "base/process/progress.h"
#include "host/modules.h"

// The first module that is still coming or going; NULL = all are live.
const struct loaded_module *settle_pending(const struct modules *l);

// modules_read() once every module is live or gone. E_MODULE_BUSY when that takes longer than timeout_ms.
int settle_read(const struct root *host, const struct root *kern, const char *release, int timeout_ms,
		struct progress *progress, struct modules *ret, struct err *err);
