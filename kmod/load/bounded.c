// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/bounded.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

int bounded_wait(pid_t child, int timeout_ms)
{
	auto_fd int fd = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec nap = { .tv_nsec = 10 * 1000 * 1000 };
	siginfo_t info;
	if (fd >= 0) {
		int r;
		do {
			r = poll(&p, 1, timeout_ms);
		} while (r < 0 && errno == EINTR);
		return r > 0;
	}
	for (int waited = 0; waited < timeout_ms; waited += 10) { // before Linux 5.3
		info.si_pid = 0;
		if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child)
			return 1;
		nanosleep(&nap, NULL);
	}
	return 0;
}

int bounded_call(int (*call)(const void *ctx), const void *ctx, int timeout_ms, struct bounded_result *ret,
		 struct err *err)
{
	int status;
	pid_t caller = getpid(), child = fork();
	if (child < 0)
		return err_set(err, errno, "start a process");
	if (child == 0) {
		// No call begins after its caller was killed, and with it what kept others away.
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(getppid() == caller ? call(ctx) : ECANCELED);
	}
	*ret = (struct bounded_result){ .end = BOUNDED_LATE, .child = child };
	if (!bounded_wait(child, timeout_ms)) {
		kill(child, SIGKILL);
		return 0;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	ret->end = WIFEXITED(status) ? BOUNDED_DONE : BOUNDED_DIED;
	ret->error = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	return 0;
}
