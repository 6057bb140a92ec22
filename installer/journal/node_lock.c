// SPDX-License-Identifier: Apache-2.0
#include "journal/node_lock.h"

#include "base/file/file.h"
#include "base/file/lockfile.h"
#include "base/process/boot_record.h"
#include "base/process/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

static const char DIR_NAME[] = BOOT_RECORD_DIR;

// What is written by those who change this node, and by nobody else.
static void mend_records(const struct root *host)
{
	static const char *const records[] = { "journal", "loaded.json", "optional.json", "export.json", "cdi.json" };
	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		auto_str char *path = str_fmt(BOOT_RECORD_DIR "/%s", records[i]);
		state_file_mend(host, path);
	}
}

int node_lock_take(const struct root *host, enum node_lock lock, struct err *err)
{
	static const struct {
		const char *name, *doing;
	} locks[] = {
		[NODE_LOCK_CHANGE] = { "lock", "changing this node" },
		[NODE_LOCK_PREBUILD] = { "ahead.lock", "prebuilding for other kernels" },
		[NODE_LOCK_AGENT] = { "agent.lock", "the agent of this node" },
	};
	const char *name = locks[lock].name;
	if (root_mkdirs(host, DIR_NAME, 0755, err) < 0)
		return -1;
	auto_fd int dir = root_open(host, DIR_NAME, O_PATH | O_DIRECTORY, err);
	if (dir < 0)
		return -1;
	auto_fd int fd = lockfile_open(dir, name, O_RDWR);
	if (fd < 0)
		return err_set(err, errno, "open '%s/%s/%s'", host->name, DIR_NAME, name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		auto_str char *owner = NULL;
		if (errno != EWOULDBLOCK)
			return err_set(err, errno, "lock '%s/%s/%s'", host->name, DIR_NAME, name);
		if (file_read(fd, "lock", &owner, NULL, err) < 0)
			return -1;
		return err_set(err, E_LOCKED, "process %s is %s", *owner ? str_trim(owner) : "(just started)",
			       locks[lock].doing);
	}
	if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
		return err_set(err, errno, "write '%s/%s/%s'", host->name, DIR_NAME, name);
	if (lock == NODE_LOCK_CHANGE)
		mend_records(host);
	return TAKE_FD(fd);
}
