// SPDX-License-Identifier: Apache-2.0
// Signs the modules of a package that is there already: where the key is, and not where it was compiled (R-C2).
#pragma once
#include "kmod/module/modsign.h"
#include "precompiled/package/package.h"

// Makes the package that a compile with this key would have made, which takes over the tag. What is stated of the first
// one is stated of it. hash: that of the kernel's configuration. 1 = made; 0 = that certificate signed it already.
int resign_package(const struct layout *l, const struct oci_descriptor *manifest, const struct module_signer *signer,
		   const char *hash, struct package *ret, struct err *err);
