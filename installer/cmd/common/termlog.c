// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/termlog.h"

#include "base/file/file.h"

#include <fcntl.h>

// Written in place, because it is a mount point.
void termlog_write(const struct common *common, const char *path, const struct err *err)
{
	const char *name = path ? path : "/dev/termination-log";
	const struct err_info *info = err_info(err->code);
	auto_machine struct machine m = { .host = ROOT_NONE, .kern = ROOT_NONE };
	struct err ignored;
	if (machine_open(common, &m, &ignored) < 0)
		return;
	auto_fd int fd = root_open(&m.kern, name, O_WRONLY | O_TRUNC | O_NONBLOCK, &ignored);
	auto_str char *text = str_fmt("%s (%s): %s\nnext: %s\n", info->name, info->reason, err->text, info->next);
	if (fd >= 0)
		file_write(fd, name, text, strlen(text), &ignored);
}
