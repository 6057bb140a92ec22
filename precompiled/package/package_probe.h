// SPDX-License-Identifier: Apache-2.0
// Which sources can be reached at all.
#pragma once
#include "precompiled/repository/repository.h"

// Asks the remote ones of names, from first on, side by side, so that a black-holed network costs one deadline and not
// one for each source (R-A10). ret has an entry per name from first on: .code 0 = it answers, or was not asked: local
// ones are not, and a single remote one will be asked anyway.
void package_probe(const struct strv *names, size_t first, const struct repository_options *options, struct err *ret);
