// SPDX-License-Identifier: Apache-2.0
// Signs the modules of a package that is there already: where the key is, and not where it was compiled (R-C2).
#pragma once
#include "kmod/module/modsign.h"
#include "precompiled/package/package.h"

struct resign {
	const struct module_signer *signer;
	const char *hash;              // that of the kernel's configuration, where the signer has the key
	const struct root *signatures; // NULL = it has; else NAME.ko.p7s of each module, made where the key is
};

// Makes the package that a compile with this key would have made, which takes over the tag. What is stated of the first
// one is stated of it. 1 = made; 0 = that certificate signed it already.
int resign_package(const struct layout *l, const struct oci_descriptor *manifest, const struct resign *how,
		   struct package *ret, struct err *err);
// Writes the modules of a package to a directory, without signatures.
int resign_export(const struct layout *l, const struct oci_descriptor *manifest, const struct root *to,
		  struct err *err);
