// SPDX-License-Identifier: Apache-2.0
#include "status/gpu_operator.h"

#include "base/file/file.h"
#include "base/file/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

static const char DIR_NAME[] = "run/nvidia/validations", STATUS[] = "run/nvidia/validations/.driver-daemons-status",
		  STATE[] = "run/nvidia/nvidia-driver.state", PID[] = "run/nvidia/nvidia-driver.pid";

static int put_ready_file(const struct root *host, bool is_ready, struct err *err)
{
	const char *text = is_ready ? "Ready\n" : "NotReady\n";
	return root_put(host, STATUS, text, strlen(text), 0644, err);
}

int gpu_operator_write_ready(const struct root *host, bool is_ready, struct err *err)
{
	if (!root_exists(host, STATUS))
		return 0;
	return put_ready_file(host, is_ready, err) < 0 ? -1 : 1;
}

int gpu_operator_read_ready(const struct root *host, bool *ret_is_ready, struct err *err)
{
	auto_str char *text = NULL;
	int r = root_line(host, STATUS, &text, err);
	if (r > 0)
		*ret_is_ready = str_eq(text, "Ready");
	return r;
}

// 1 = the file still has its name; 0 = it was removed meanwhile, which the driver manager does.
static int is_pid_file_ours(const struct root *host, int fd, struct err *err)
{
	struct stat ours, named;
	int r = root_stat(host, PID, &named, err);
	if (r <= 0)
		return r;
	if (fstat(fd, &ours) < 0)
		return file_fail("look at", PID, err);
	return ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

static int lock_operator_file(const struct root *host, int *ret, struct err *err)
{
	auto_str char *name = NULL;
	auto_fd int dir = root_parent(host, PID, &name, err);
	auto_fd int fd = dir < 0 ? -1 : lockfile_open(dir, name, O_RDWR);
	if (fd < 0)
		return dir < 0 ? -1 : file_fail("open", PID, err);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		auto_str char *owner = NULL;
		if (errno != EWOULDBLOCK)
			return file_fail("lock", PID, err);
		if (file_read(fd, PID, &owner, NULL, err) < 0)
			return -1;
		return err_set(err, E_LOCKED, "/%s: process %s is this node's driver container", PID,
			       *owner ? str_trim(owner) : "(just started)");
	}
	int r = is_pid_file_ours(host, fd, err);
	if (r > 0)
		*ret = TAKE_FD(fd);
	return r;
}

int gpu_operator_begin(struct gpu_operator_pod *o, const struct root *host, struct err *err)
{
	int r = 0;
	o->host = host;
	if (root_mkdirs(host, DIR_NAME, 0755, err) < 0)
		return -1;
	while (r == 0)
		r = lock_operator_file(host, &o->lock, err);
	if (r < 0)
		return -1;
	if (ftruncate(o->lock, 0) < 0 || dprintf(o->lock, "%d\n", (int)getpid()) < 0)
		return file_fail("write", PID, err);
	return put_ready_file(host, false, err);
}

int gpu_operator_ready(const struct gpu_operator_pod *o, const char *digest, struct err *err)
{
	if (put_ready_file(o->host, true, err) < 0)
		return -1;
	if (!digest || !*digest)
		return 0;
	auto_str char *text = str_fmt("%s\n", digest);
	return root_put(o->host, STATE, text, strlen(text), 0644, err);
}

void gpu_operator_withdraw(struct gpu_operator_pod *o)
{
	struct err ignored;
	if (is_pid_file_ours(o->host, o->lock, &ignored) > 0) { // else they are the next container's
		root_unlink(o->host, STATUS, &ignored);
		root_unlink(o->host, PID, &ignored);
	}
}

int gpu_operator_clear(const struct root *host, struct err *err)
{
	auto_fd int fd = -1;
	int r = 0;
	if (!root_exists(host, PID))
		return 0;
	while (r == 0)
		r = lock_operator_file(host, &fd, err);
	return r < 0 || root_unlink(host, PID, err) < 0 ? -1 : 0;
}

void gpu_operator_pod_done(struct gpu_operator_pod *o)
{
	close_fdp(&o->lock);
	*o = GPU_OPERATOR_POD_NONE;
}
