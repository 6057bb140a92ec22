// SPDX-License-Identifier: Apache-2.0
#include "kmod/load.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static int unload_result(const char *name, int error, struct err *err)
{
	switch (error) {
	case 0:
		return 1;
	case ENOENT:
		return 0;
	case EAGAIN:
	case EBUSY:
		return err_set(err, E_IN_USE, "unload '%s': it is in use (%s)", name, strerrorname_np(error));
	case EPERM:
		return err_set(err, E_RIGHTS, "unload '%s': CAP_SYS_MODULE is missing", name);
	default:
		return err_set(err, error, "unload '%s'", name);
	}
}

// 1 = the child ended, 0 = it did not in time.
static int wait_child(pid_t child, int timeout_ms)
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

// Lines "[<0>] function+0x1c/0x40 [module]" of proc/PID/stack as "function [module], caller": the innermost few.
static char *frames_of(const char *stack)
{
	enum { FRAMES_MOST = 5 };
	auto_strv struct strv lines = { 0 }, frames = { 0 };
	strv_split(&lines, stack, "\n");
	for (size_t i = 0; i < lines.count && frames.count < FRAMES_MOST; i++) {
		const char *name = strstr(lines.items[i], "] ");
		name = name ? name + 2 : lines.items[i];
		const char *module = strchr(name, ' ');
		strv_add(&frames, str_fmt("%.*s%s", (int)strcspn(name, "+ "), name, module ? module : ""));
	}
	return frames.count ? strv_join(&frames, ", ") : NULL;
}

int unload_explain(const char *name, const char *what, const char *stack, const struct strv *lines, struct err *err)
{
	auto_str char *frames = stack ? frames_of(stack) : NULL;
	auto_str char *log = lines->count ? strv_join(lines, " | ") : NULL;
	return err_set(err, E_WEDGED, "unload '%s': %s%s%.240s%s%s", name, what, frames ? "; it is in " : "",
		       frames ? frames : "", log ? "; kernel: " : "", log ? log : "");
}

static int wedged(const struct root *kern, const char *name, const char *what, int child, int log, struct err *err)
{
	auto_strv struct strv lines = { 0 };
	auto_str char *path = str_fmt("proc/%d/stack", child), *stack = NULL;
	root_read(kern, path, &stack, NULL, err); // without the right to read it the rest still tells enough
	load_log_lines(log, &lines);
	return unload_explain(name, what, stack, &lines, err);
}

// What the caller has open must not stay open with a child that cannot end: the node's lock, and the pipe whose reader
// waits for its end. The recorder works on files of its own. A caller that is killed takes the child with it, so that
// no call begins after the lock is gone; one that has begun shows as a module that is going.
static void call(const struct sys *sys, const char *name, pid_t caller)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != caller)
		_exit(ECANCELED);
	if (!sys->record)
		closefrom(0);
	_exit(sys->module_unload(sys, name) < 0 ? errno : 0);
}

// A module whose exit function hangs takes its caller with it, so the caller is a child that makes this one call.
static int unload_in_child(const struct sys *sys, const struct root *kern, const char *name, int timeout_ms,
			   struct err *err)
{
	int status;
	auto_fd int log = load_log_start(kern);
	pid_t caller = getpid(), child = fork();
	if (child < 0)
		return err_set(err, errno, "unload '%s': start a process", name);
	if (child == 0)
		call(sys, name, caller);
	auto_str char *late = str_fmt("the kernel did not come back within %g s; process %d is stuck in it",
				      timeout_ms / 1e3, (int)child);
	if (!wait_child(child, timeout_ms)) {
		wedged(kern, name, late, child, log, err);
		kill(child, SIGKILL);
		return -1;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status))
		return unload_result(name, WEXITSTATUS(status), err);
	auto_str char *killed = str_fmt("the kernel killed the caller with signal %d", WTERMSIG(status));
	return wedged(kern, name, killed, child, log, err);
}

int unload_module(const struct sys *sys, const struct root *kern, const char *name, int timeout_ms, struct err *err)
{
	if (timeout_ms > 0)
		return unload_in_child(sys, kern, name, timeout_ms, err);
	return unload_result(name, sys->module_unload(sys, name) < 0 ? errno : 0, err);
}
