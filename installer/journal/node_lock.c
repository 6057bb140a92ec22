// SPDX-License-Identifier: Apache-2.0
#include "journal/node_lock.h"

#include "base/file/file.h"
#include "base/file/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

static const char DIR_NAME[] = "run/kmodsmith";

static int refuse_locked(int fd, const char *doing, struct err *err)
{
	auto_str char *holder = NULL;
	if (file_read(fd, "lock", &holder, NULL, err) < 0)
		return -1;
	return err_set(err, E_LOCKED, "process %s is %s", *holder ? str_trim(holder) : "(just started)", doing);
}

static int take_lock_file(const struct root *host, const char *name, const char *doing, struct err *err)
{
	if (root_mkdirs(host, DIR_NAME, 0755, err) < 0)
		return -1;
	auto_fd int dir = root_open(host, DIR_NAME, O_PATH | O_DIRECTORY, err);
	if (dir < 0)
		return -1;
	auto_fd int fd = lockfile_open(dir, name, O_RDWR);
	if (fd < 0)
		return err_set(err, errno, "open '%s/%s/%s'", host->name, DIR_NAME, name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? refuse_locked(fd, doing, err) :
					      err_set(err, errno, "lock '%s/%s/%s'", host->name, DIR_NAME, name);
	if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
		return err_set(err, errno, "write '%s/%s/%s'", host->name, DIR_NAME, name);
	return TAKE_FD(fd);
}

int node_lock_take(const struct root *host, struct err *err)
{
	return take_lock_file(host, "lock", "changing this node", err);
}

int node_lock_take_prebuild(const struct root *host, struct err *err)
{
	return take_lock_file(host, "ahead.lock", "prebuilding for other kernels", err);
}

int node_lock_take_agent(const struct root *host, struct err *err)
{
	return take_lock_file(host, "agent.lock", "the agent of this node", err);
}
