// SPDX-License-Identifier: Apache-2.0
#include "service/service.h"

#include "base/core/date.h"

#include <errno.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

enum { FDS_MOST = 64 };

// As the first process of a container we are the parent of every orphan, and as a subreaper of each daemon.
static void reap_children(const struct service_part *parts, size_t count)
{
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		for (size_t i = 0; i < count; i++)
			if (parts[i].ended)
				parts[i].ended(parts[i].ctx, pid, status, clock_ms());
}

static int64_t tick(const struct service_part *parts, size_t count)
{
	int64_t due = INT64_MAX;
	for (size_t i = 0; i < count; i++) {
		int64_t at = parts[i].tick ? parts[i].tick(parts[i].ctx, clock_ms()) : INT64_MAX;
		due = at < due ? at : due;
	}
	return due;
}

static void poll_until(const struct service_part *parts, size_t count, int signals, int64_t due)
{
	struct pollfd fds[FDS_MOST] = { { .fd = signals, .events = POLLIN } };
	size_t used = 1;
	for (size_t i = 0; i < count; i++)
		used += parts[i].fds ? parts[i].fds(parts[i].ctx, fds + used, FDS_MOST - used) : 0;
	int64_t left = due == INT64_MAX ? -1 : due - clock_ms();
	int timeout = due == INT64_MAX ? -1 : left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
	poll(fds, used, timeout);
}

// SIGPIPE is among the blocked, and ends nothing: a log that nobody reads is no reason to leave.
static int read_stop_signal(int signals)
{
	struct signalfd_siginfo info;
	while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGPIPE)
			return (int)info.ssi_signo;
	return 0;
}

void service_block(sigset_t *ret)
{
	// SIGPIPE: a log that nobody reads is no reason to leave
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD, SIGPIPE };
	sigemptyset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(ret, signals[i]);
	sigprocmask(SIG_BLOCK, ret, NULL);
}

int service_run(const struct service_part *parts, size_t count, const sigset_t *signals, struct err *err)
{
	auto_fd int fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_set(err, errno, "wait for signals");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (;;) {
		reap_children(parts, count);
		poll_until(parts, count, fd, tick(parts, count));
		int signal = read_stop_signal(fd);
		if (signal)
			return signal;
	}
}
