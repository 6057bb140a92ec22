// SPDX-License-Identifier: Apache-2.0
// Where the files of packages go in a payload, so that its consumers find them (the search lists of the container
// toolkit and the validator): libraries in the system library directory, programs in usr/bin, sources in
// usr/src/nvidia-VERSION/{kernel,kernel-open}. Works on names only; nothing is opened.
#pragma once
#include "base/core/str.h"

// After the usr merge: "lib/firmware/x" becomes "usr/lib/firmware/x". Caller frees.
char *install_path_usr_merged(const char *path);
// The place of a file from a distribution package. NULL = not part of a payload: manuals, init scripts, files of the
// package manager. Caller frees.
char *install_path_of(const char *path, const char *driver);
