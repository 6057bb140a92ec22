// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the name that a misspelt word was probably meant to be.
#pragma once
#include "base/core/str.h"

// Borrowed from names. NULL = none is near: at most one slip in three letters, which is one letter too many, missing,
// wrong, or two letters swapped.
const char *nearest(const char *word, const struct strv *names);
