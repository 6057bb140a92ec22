// SPDX-License-Identifier: Apache-2.0
#include "kmod/bounded.h"
#include "kmod/load.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

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

// A module whose exit function hangs takes its caller with it, so the caller is a child that makes this one call.
static int unload_in_child(const struct sys *sys, const char *name, int timeout_ms, struct err *err)
{
	int status;
	pid_t child = fork();
	if (child < 0)
		return err_set(err, errno, "unload '%s': start a process", name);
	if (child == 0)
		_exit(sys->module_unload(sys, name) < 0 ? errno : 0);
	if (!bounded_wait(child, timeout_ms)) {
		kill(child, SIGKILL);
		return err_set(err, E_WEDGED, "unload '%s': the kernel did not come back within %d ms (process %d)",
			       name, timeout_ms, (int)child);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status))
		return err_set(err, E_WEDGED, "unload '%s': the kernel killed the caller with signal %d", name,
			       WTERMSIG(status));
	return unload_result(name, WEXITSTATUS(status), err);
}

int unload_module(const struct sys *sys, const char *name, int timeout_ms, struct err *err)
{
	if (timeout_ms > 0)
		return unload_in_child(sys, name, timeout_ms, err);
	return unload_result(name, sys->module_unload(sys, name) < 0 ? errno : 0, err);
}
