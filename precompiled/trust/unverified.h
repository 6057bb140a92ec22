// SPDX-License-Identifier: Apache-2.0
// How often this machine took a package without asking who made it: STATE/unverified.json. It is a fact about the
// machine that outlives the log line.
#pragma once
#include "base/file/root.h"

int unverified_add(const struct root *state, const char *tag, struct err *err);
// 1 = it happened, with the number and the last tag (caller frees); 0 = never.
int unverified_read(const struct root *state, uint64_t *ret_count, char **ret_last, struct err *err);
