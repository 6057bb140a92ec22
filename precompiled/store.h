// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "precompiled/layout.h"
int store_open(const struct root *state, struct layout *ret, struct err *err);
int store_room(const struct layout *store, uint64_t bytes, struct err *err);
int store_quarantine(const struct layout *store, const char *hex, struct err *err);
