// SPDX-License-Identifier: Apache-2.0
// The directories that a root's etc/ld.so.conf names for the dynamic linker, with the files that it includes
// (ldconfig(8) of glibc).
#pragma once
#include "base/file/root.h"

// Added to dirs, in their order. E_TOO_LARGE: a file, or the number of files or directories, is beyond all reason.
int ldconf_read(const struct root *root, struct strv *dirs, struct err *err);
void ldconf_add(struct strv *dirs, const char *path); // as ldconf_read() does, each one once
