// SPDX-License-Identifier: Apache-2.0
// A package's bill of materials: an SPDX 2.3 document, listed beside its signatures like the statement of how it was
// built, and made of the same facts. The same package has the same document.
#pragma once
#include "precompiled/package/package.h"

// licenses: what each of the package's files says in MODULE_LICENSE(), in their order; NULL = nothing.
int spdx_put(const struct layout *l, const struct package *p, const char *const *licenses, struct err *err);
