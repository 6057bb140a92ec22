// SPDX-License-Identifier: Apache-2.0
#include "acquire/build_cache.h"

#include "base/file/copy.h"
#include "base/file/lockfile.h"

#include <fcntl.h>
#include <sys/file.h>

#define DIR "cache"
#define GONE ".tmp/cache.gone"

static int lock_build_cache(const struct root *parent, int how, struct err *err)
{
	auto_fd int dir = root_open(parent, DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW, err);
	if (dir < 0)
		return -1;
	int fd = lockfile_take(parent, DIR, how, 0, err);
	return fd < 0 && err->code == E_LOCKED ? err_set(err, E_LOCKED, "'%s/" DIR "' is in use", parent->name) : fd;
}

int build_cache_open(const struct root *parent, struct root *ret, int *ret_lock)
{
	auto_root struct root dir = ROOT_NONE;
	struct err ignored;
	auto_fd int fd =
		root_mkdir_private(parent, DIR, &ignored) < 0 ? -1 : lock_build_cache(parent, LOCK_SH, &ignored);
	if (fd < 0 || root_sub(parent, DIR, &dir, &ignored) < 0)
		return -1;
	*ret = dir;
	dir = ROOT_NONE;
	*ret_lock = TAKE_FD(fd);
	return 0;
}

int build_cache_clear(const struct root *state, bool is_dry, uint64_t *ret_bytes, struct err *err)
{
	struct stat st;
	uint64_t bytes = 0;
	*ret_bytes = 0;
	int r = root_stat(state, DIR, &st, err);
	if (r <= 0)
		return r;
	auto_fd int fd = is_dry ? -1 : lock_build_cache(state, LOCK_EX, err);
	if ((!is_dry && fd < 0) || copy_bytes(state, DIR, &bytes, err) < 0)
		return -1;
	// Renamed before it is removed: the next compile makes a new one.
	if (!is_dry && (root_mkdir_private(state, ".tmp", err) < 0 || root_rmtree(state, GONE, err) < 0 ||
			root_rename(state, DIR, GONE, err) < 0 || root_rmtree(state, GONE, err) < 0))
		return -1;
	*ret_bytes = bytes;
	return 0;
}
