// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "precompiled/store/store.h"

#define STORE_DIR "store"
#define STORE_QUARANTINE "quarantine"

// Opens s->layout in a directory, STATE/store. A mark or an index that is damaged or missing is made again.
int store_open_layout(struct store *s, const struct root *dir, struct err *err);
// Sets damaged roots aside.
int store_mend_roots(const struct store *s, struct err *err);
// Out of the readers' sight, but kept for diagnosis; from: below STATE, to: its name in the quarantine.
void store_set_aside(const struct store *s, const char *from, const char *to);
