// SPDX-License-Identifier: Apache-2.0
// Finds packages in a layout by their key and not by tag: a tag is only a pointer.
#pragma once
#include "precompiled/oci/layout.h"
#include "precompiled/package/package.h"

// The package with this manifest. 1 = found, 0 = the manifest is not a package.
int find_by_descriptor(const struct layout *l, const struct oci_descriptor *manifest, struct package *ret,
		       struct err *err);

// The best match: newest driver, then the latest entry. 1 = found, 0 = none. Damaged entries and other content are
// skipped. ret_why (may be NULL): with 0, why the last one did not match; NULL = there are no packages.
int find_package(const struct layout *l, const struct package_want *want, struct package *ret, char **ret_why,
		 struct err *err);
