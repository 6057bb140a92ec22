// SPDX-License-Identifier: Apache-2.0
// The directory of what compiles leave for the next (kmod/build): STATE/cache. Who compiles holds a
// shared lock, STATE/locks/cache; it goes as a whole, and only when nobody does.
#pragma once
#include "base/file/root.h"

// Made when it is absent. lock: of the caller, until it is done. -1 = it cannot be used, then nothing is kept.
int build_cache_open(const struct root *parent, struct root *ret, int *ret_lock);
// What it takes on disk, in bytes; removed, unless is_dry. E_LOCKED while somebody compiles.
int build_cache_clear(const struct root *state, bool is_dry, uint64_t *ret_bytes, struct err *err);
