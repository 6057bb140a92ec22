// SPDX-License-Identifier: Apache-2.0
#include "base/process/attribute.h"

#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>

static bool is_writable(const struct root *root, const char *path)
{
	struct err ignored;
	struct statvfs fs;
	auto_fd int fd = root_open(root, path, O_PATH, &ignored);
	return fd >= 0 && fstatvfs(fd, &fs) == 0 && !(fs.f_flag & ST_RDONLY);
}

const struct root *attribute_root(const struct root *host, const struct root *kern, const char *path)
{
	return !is_writable(kern, path) && is_writable(host, path) ? host : kern;
}

bool attribute_is_writable(const struct root *host, const struct root *kern, const char *path)
{
	return is_writable(attribute_root(host, kern, path), path);
}

// errno is why.
static int attribute_refused(const struct root *root, const char *path, struct err *err)
{
	bool is_read_only = errno == EROFS;
	auto_str char *full = root_path(root, path);
	file_fail("write to", full, err);
	return !is_read_only ?
		       -1 :
		       err_next(err,
				"in a container: share the machine's process ids (hostPID: true, --pid=host), or "
				"mount the machine's /sys at /sys; on the machine itself: `mount -o remount,rw /sys`");
}

int attribute_check(const struct root *host, const struct root *kern, const char *path, struct err *err)
{
	const struct root *root = attribute_root(host, kern, path);
	struct err why;
	auto_fd int fd = root_open(root, path, O_WRONLY, &why);
	if (fd >= 0)
		return 0;
	errno = why.code;
	return attribute_refused(root, path, err);
}

int attribute_set(const struct sys *sys, const struct root *host, const struct root *kern, const char *path,
		  const char *text, struct err *err)
{
	const struct root *root = attribute_root(host, kern, path);
	return sys->attribute_set(sys, root, path, text) < 0 ? attribute_refused(root, path, err) : 0;
}
