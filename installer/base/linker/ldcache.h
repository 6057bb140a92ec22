// SPDX-License-Identifier: Apache-2.0
// etc/ld.so.cache of a root, as ldconfig writes it: without it glibc's dynamic linker finds libraries in its own few
// directories only. No program of the root is run: it may be for another architecture, or hostile.
// Format: "glibc-ld.so.cache1.1", struct cache_file_new of glibc's sysdeps/generic/dl-cache.h, little-endian.
#pragma once
#include "base/file/root.h"

// Each library in one of dirs (paths in the root) gets a link with the name of its SONAME, unless that leads to a file.
int ldcache_links(const struct root *root, const struct strv *dirs, struct err *err);
// The libraries of dirs, then of those that the root's etc/ld.so.conf names, then of the linker's own; the first of a
// name is the one that is found. An unreadable file does not count as a library.
int ldcache_write(const struct root *root, const struct strv *dirs, struct err *err);

// The directories that a root's etc/ld.so.conf names for the dynamic linker, with the files that it includes
// (ldconfig(8) of glibc), are added to dirs in their order, each once. E_TOO_LARGE: a file, or the number of files or
// directories, is beyond all reason.
int ldcache_conf_dirs(const struct root *root, struct strv *dirs, struct err *err);
