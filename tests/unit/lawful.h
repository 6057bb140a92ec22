// SPDX-License-Identifier: Apache-2.0
// A farm whose laws (tests/sim/laws.c) held.
#pragma once
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

static inline void lawful(const struct farm *f)
{
	if (f->laws->count)
		fail_msg("%zu laws were broken, first: %s", f->laws->count, f->laws->items[0]);
}
