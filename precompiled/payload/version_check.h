// SPDX-License-Identifier: Apache-2.0
// Whether a file can be of a driver version. Libraries and firmware tell by their names; programs that only work with
// the modules of the same version tell by a text in them, and a fabric manager of another version would refuse to start
// when it is too late (R-P1).
#pragma once
#include "base/file/root.h"

// The driver version that a file's name carries, as libcuda.so.535.261.03 and lib/firmware/nvidia/535.261.03/gsp.bin
// do; NULL = none. Caller frees.
char *payload_version(const char *path);

struct version_check {
	const char *driver, *arch;
};
// path: in root; place: where it will be. E_USAGE: it is of another version; E_ARCH: of another processor.
int version_check_file(const struct version_check *b, const struct root *root, const char *path, const char *place,
		       struct err *err);
