// SPDX-License-Identifier: Apache-2.0
// The payload of a driver version: the libraries, firmware, programs and sources that must match the modules' version,
// placed where their consumers look for them, so that nothing is installed at start (R-I3). It is made from package
// files and published as an asset (asset.h), or shipped in an image as a directory (image_dir.h).
#pragma once
#include "base/core/err.h"
#include "base/file/root.h"

struct payload_request { // borrowed
	const char *driver, *arch;
	const struct strv *files; // .deb, .rpm, .tar.*, .run: read, never executed
	const char *base;         // a tar with the root file system to build on; NULL = none
};
// Creates the directory `name` in work, which is on the same file system as the final place. Usr is merged, each
// library has its SONAME link, and etc/ld.so.cache lists them all. E_USAGE: a file belongs to another driver version;
// E_ARCH: to another architecture; E_PAYLOAD: two files conflict, or a .run is not NVIDIA's.
int payload_make(const struct payload_request *request, const struct root *work, const char *name, struct err *err);
