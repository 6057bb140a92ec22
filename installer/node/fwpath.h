// SPDX-License-Identifier: Apache-2.0
// Where the kernel looks for firmware before its own places: the parameter `path` of firmware_class. It is one setting
// for the whole machine, so a value that somebody else wrote stays (R-P6; contract 1.9).
#pragma once
#include "base/root.h"

int fwpath_read(const struct root *kern, char **ret,
		struct err *err); // 1 = *ret, "" where none is set; 0 = no such setting
// The kernel takes the value to the end, so there is no newline behind it.
int fwpath_write(const struct root *kern, const char *path, struct err *err);
