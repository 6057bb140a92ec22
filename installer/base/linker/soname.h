// SPDX-License-Identifier: Apache-2.0
// What a dynamic linker checks before it accepts a file as a library.
#pragma once
#include "base/core/err.h"

struct soname {
	char *name;       // DT_SONAME; NULL = it has none
	unsigned machine; // EM_X86_64, ...
	bool is_64;
};
void soname_done(struct soname *s);
#define auto_soname __attribute__((cleanup(soname_done)))

// 1 = a shared object, little-endian; 0 = something else, or damaged: such a file is not a library.
int soname_read(int fd, const char *name, struct soname *ret, struct err *err);
