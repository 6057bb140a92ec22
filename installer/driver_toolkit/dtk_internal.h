// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/file/root.h"

#include <sys/stat.h>

#define DTK_PLACE "kmodsmith"        // of ours, in the shared directory
#define DTK_EXTRA DTK_PLACE "/extra" // extra_modules.h

// 1 = open, 0 = absent, no plain file, or longer than it may be.
int dtk_open_plain(const struct root *root, const char *path, off_t most, int *ret, struct stat *ret_st);
char *dtk_read_short(const struct root *root, const char *path); // NULL = absent, or no short text; caller frees
// Over whatever is there: the other containers may have created anything.
int dtk_put_file(const struct root *shared, const char *path, const char *text, struct err *err);
int dtk_put_program(const struct root *shared, const char *from, struct err *err);
int extra_modules_clear(const struct root *shared, struct err *err); // offer and flags
