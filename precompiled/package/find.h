// SPDX-License-Identifier: Apache-2.0
// Packages in a layout, looked up by what they are and not by tag: a tag is only a pointer.
#pragma once
#include "precompiled/oci/layout.h"
#include "precompiled/package/package.h"

// The package with this manifest, from the layout. 1 = a package, 0 = the manifest is of something else.
int find_by_descriptor(const struct layout *l, const struct oci_descriptor *manifest, struct package *ret,
		       struct err *err);

// The best package that fits: newest driver, then the latest entry. 1 = found, 0 = none. Entries that are damaged or no
// packages do not hide a good one. ret_why (may be NULL): when 0, why the last one did not fit; NULL = there is none.
int find_package(const struct layout *l, const struct package_want *want, struct package *ret, char **ret_why,
		 struct err *err);
