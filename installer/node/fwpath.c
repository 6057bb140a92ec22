// SPDX-License-Identifier: Apache-2.0
#include "node/fwpath.h"

#include "base/file.h"

#include <fcntl.h>

static const char SETTING[] = "sys/module/firmware_class/parameters/path";

int fwpath_read(const struct root *kern, char **ret, struct err *err)
{
	return root_line(kern, SETTING, ret, err);
}

int fwpath_write(const struct root *kern, const char *path, struct err *err)
{
	auto_fd int fd = root_open(kern, SETTING, O_WRONLY | O_TRUNC, err);
	// Writing nothing is no write: an empty value is a line without text.
	const char *text = *path ? path : "\n";
	return fd < 0 ? -1 : file_write(fd, SETTING, text, strlen(text), err);
}
