// SPDX-License-Identifier: Apache-2.0
// Whether a file can belong to a driver version. Libraries and firmware have it in their names; programs that only work
// with modules of the same version contain it as text, and a fabric manager of another version would fail to start when
// it is too late (R-P1).
#pragma once
#include "base/file/root.h"

// The driver version in a file's name, as in libcuda.so.535.261.03 or lib/firmware/nvidia/535.261.03/gsp.bin; NULL =
// none. Caller frees.
char *payload_version(const char *path);

struct version_check {
	const char *driver, *arch;
};
// path: in root; place: where it will be. E_USAGE: another version; E_ARCH: another architecture.
int version_check_file(const struct version_check *b, const struct root *root, const char *path, const char *place,
		       struct err *err);
