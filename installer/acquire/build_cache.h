// SPDX-License-Identifier: Apache-2.0
// The compile cache (kmod/build): STATE/cache, where kmod/module/vmlinuz_cache.h has its entries, too. A compile holds
// a shared lock, STATE/locks/cache; the cache is removed as a whole, and only when nothing compiles.
#pragma once
#include "base/file/root.h"

// Created if absent. lock: the caller closes it when done. -1 = unusable, and nothing is cached.
int build_cache_open(const struct root *parent, struct root *ret, int *ret_lock);
// Its size on disk in bytes; removed, unless is_dry. E_LOCKED during a compile.
int build_cache_clear(const struct root *state, bool is_dry, uint64_t *ret_bytes, struct err *err);
