// SPDX-License-Identifier: Apache-2.0
// Work that must cost others nothing: the lowest priority for processor and disk, for this process and all that it
// starts, for good. SCHED_BATCH and not SCHED_IDLE: on a machine that is never idle the work still ends some day.
#pragma once
#include "base/core/err.h"

int idle_enter(struct err *err);
