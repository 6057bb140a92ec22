// SPDX-License-Identifier: Apache-2.0
// Creates a package from module files: layer, configuration, manifest, and an entry in a layout's index. The same files
// and key always give the same bytes.
#pragma once
#include "precompiled/oci/layout.h"
#include "precompiled/package/package.h"

// dir holds the files; files has name, module and srcversion, sizes and digests are filled in here. ret is not
// unpacked. On failure the index is unchanged.
int create_package(const struct layout *into, const struct root *dir, const struct package_key *key,
		   struct package_file *files, size_t count, struct package *ret, struct err *err);
