// SPDX-License-Identifier: Apache-2.0
// The payload of a driver version: the libraries, firmware and programs that must be of the version of the modules. It
// comes from package files and is offered as a parcel (parcel.h).
#pragma once
#include "base/err.h"
#include "base/root.h"

// The driver version that a file's name carries, as libcuda.so.535.261.03 and lib/firmware/nvidia/535.261.03/gsp.bin
// do; NULL = none. Caller frees.
char *payload_version(const char *path);
// Unpacks all files into a directory. E_USAGE: one of them has a name with another version than driver.
int payload_unpack(const struct strv *files, const char *driver, const struct root *into, struct err *err);
