// SPDX-License-Identifier: Apache-2.0
// Bytes of a test into a tar: the product packs files alone.
#pragma once
#include "base/archive/pack.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static inline int pack_data(struct pack *p, const char *path, const void *data, size_t len, struct err *err)
{
	auto_fd int fd = memfd_create("data", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return pack_file(p, path, fd, len, err);
}
