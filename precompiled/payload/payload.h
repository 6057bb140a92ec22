// SPDX-License-Identifier: Apache-2.0
// The payload of a driver version: the libraries, firmware, programs and sources that must be of the version of the
// modules, laid out at the places where their consumers look for them, so that nothing is installed at a start (R-I3).
// It is made of package files and offered as a parcel (asset.h), or carried as a directory (image_dir.h).
#pragma once
#include "base/core/err.h"
#include "base/file/root.h"

struct payload_request { // borrowed
	const char *driver, *arch;
	const struct strv *files; // .deb, .rpm, .tar.*, .run: read, never executed
	const char *base;         // a tar of the root file system below it; NULL = none
};
// A new directory `name` of work, which is on the same file system as what becomes of it. Usr is merged, each library
// has the link of its SONAME, etc/ld.so.cache knows all. E_USAGE: a file is of another driver version, E_ARCH: of
// another processor; E_PAYLOAD: two files disagree, or a .run is none of NVIDIA's.
int payload_make(const struct payload_request *request, const struct root *work, const char *name, struct err *err);
