// SPDX-License-Identifier: Apache-2.0
// Keys, passwords and tokens stay in memory, and out of core dumps.
#pragma once
#include <sys/prctl.h>

// Called before this process gets hold of one: from then on it leaves no core, whatever its limits say and whoever
// takes cores on this machine, and only root looks into it. Programs that it starts are as they were.
static inline void secret_guard(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
