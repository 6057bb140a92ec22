// SPDX-License-Identifier: Apache-2.0
// Where the files of packages belong in a payload, so that its consumers find them (the container toolkit's and the
// validator's search lists): libraries beside the others of the machine, programs in usr/bin, sources in
// usr/src/nvidia-VERSION/{kernel,kernel-open}. Names in, names out; nothing is opened.
#pragma once
#include "base/core/str.h"

// With usr merged: "lib/firmware/x" is "usr/lib/firmware/x". Caller frees.
char *install_path_usr_merged(const char *path);
// Of a file in a distribution's package. NULL = a payload does without it: manuals, init scripts, what a package
// manager keeps for itself. Caller frees.
char *install_path_of(const char *path, const char *driver);
// Debian's name of a processor's library directory below usr/lib: "x86_64-linux-gnu".
char *install_path_triplet(const char *arch);
// The directory of a driver's sources.
char *install_path_source(const char *driver, bool is_open);
