// SPDX-License-Identifier: Apache-2.0
// Signs the modules of a package that is there already: where the key is, and not where it was compiled (R-C2).
#pragma once
#include "kmod/module/modsign.h"
#include "precompiled/package/package.h"

struct resign {
	const struct module_signer *signer;
	const char *hash;       // that of the kernel's configuration, where the signer has the key
	const char *signatures; // NULL = it has; else the directory with NAME.ko.p7s of each module
};

// Makes the package that a compile with this key would have made, which takes over the tag. What is stated of the first
// one is stated of it. 1 = made; 0 = that certificate signed it already.
int resign_package(const struct layout *l, const struct oci_descriptor *manifest, const struct resign *how,
		   struct package *ret, struct err *err);
// Writes the modules of a package, without signatures, to a directory that is made. 1 = written; 0 = it is of something
// else.
int resign_export(const struct layout *l, const struct oci_descriptor *manifest, const char *dir, struct err *err);
