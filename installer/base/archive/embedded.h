// SPDX-License-Identifier: Apache-2.0
// Where in a file the archive begins.
#pragma once
#include "base/core/err.h"

#include <sys/types.h>

struct embedded {
	enum { EMBEDDED_TAR, EMBEDDED_DEB, EMBEDDED_RUN } kind;
	off_t offset;
};

// A .run is a script followed by an archive. Its own `skip=N` says how many lines the script has (makeself) or which
// line is the first of the archive (NVIDIA); where neither leads to an archive, the first line that starts with the
// magic of a compression is taken. E_SOURCE when there is none.
int embedded_find(int fd, const char *name, struct embedded *ret, struct err *err);
