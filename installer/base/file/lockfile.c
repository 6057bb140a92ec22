// SPDX-License-Identifier: Apache-2.0
#include "base/file/lockfile.h"

#include "base/core/str.h"
#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

enum { STEP_MS = 50 };

int lockfile_open(int dir, const char *name, int how)
{
	struct stat st;
	// Anything else of this name has nothing to lose, and would be in the way for ever.
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
		unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
	auto_fd int fd = openat(dir, name, how | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		fd = openat(dir, name, how | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if ((st.st_mode & 077) && st.st_uid == geteuid() && fchmod(fd, 0600) < 0 && errno != EROFS)
		return -1;
	return TAKE_FD(fd);
}

int lockfile_wait(int fd, int how, int wait_ms, const char *name, struct err *err)
{
	for (int waited = 0; flock(fd, how | LOCK_NB) < 0;) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return file_fail("lock", name, err);
		if (waited >= wait_ms) {
			return err_set(err, E_LOCKED,
				       "another process has held the lock '%s' for more than %d s (lslocks names it)",
				       name, wait_ms / 1000);
		}
		nanosleep(&(struct timespec){ .tv_nsec = STEP_MS * 1000000L }, NULL);
		waited += STEP_MS;
	}
	return 0;
}

int lockfile_take(const struct root *state, const char *name, int how, int wait_ms, struct err *err)
{
	auto_root struct root locks = ROOT_NONE;
	if (root_mkdirs(state, "locks", 0755, err) < 0 || root_sub(state, "locks", &locks, err) < 0)
		return -1;
	auto_str char *path = root_path(&locks, name);
	auto_fd int fd = lockfile_open(locks.fd, name, O_RDWR);
	if (fd < 0)
		return file_fail("open", path, err);
	return lockfile_wait(fd, how, wait_ms, path, err) < 0 ? -1 : TAKE_FD(fd);
}
