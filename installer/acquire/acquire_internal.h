// SPDX-License-Identifier: Apache-2.0
// What the files of obtain share; nobody else includes it.
#pragma once
#include "acquire/acquire.h"

int acquire_make_store(struct acquire *o, struct err *err);
// What the store has is not used, for this reason.
void acquire_distrust(struct acquire *o, const struct package *p, const struct err *why);

// The flavour that serves the GPUs; NULL = it cannot be told.
const char *acquire_flavour(const struct acquire *o, const char *driver);
// reuse.c's policy asked of the labels: what the store took for this very kernel before. 1 = .kept and .compatible.
int acquire_find_reused(struct acquire *o, struct err *err);
