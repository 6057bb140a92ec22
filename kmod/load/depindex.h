// SPDX-License-Identifier: Apache-2.0
// modules.dep.bin, without which modprobe finds no module, and modules.alias.bin, with which it finds one by the
// device: the lines of modules.dep and modules.alias as trees over the names. Format: libkmod/libkmod-index.h of kmod
// 30, "index file format"; the numbers are big-endian.
#pragma once
#include "base/core/str.h"

char *depindex_name(const char *path); // of a module file: "kernel/net/ib-core.ko.xz" is "ib_core"
// lines: "kernel/a.ko: kernel/b.ko", of each module one. Caller frees.
char *depindex_make(const struct strv *lines, size_t *ret_len);
// lines: "alias PATTERN MODULE"; others are left out. Caller frees.
char *depindex_aliases(const struct strv *lines, size_t *ret_len);
