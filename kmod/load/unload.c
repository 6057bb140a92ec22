// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/load.h"
#include "kmod/load/wedge.h"

#include <errno.h>

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

struct unload_call {
	const struct sys *sys;
	const char *name;
};

// What the caller has open must not stay open with a child that cannot end: the node's lock, and the pipe whose reader
// waits for its end. The recorder works on files of its own.
static int unload_call(const void *ctx)
{
	const struct unload_call *c = ctx;
	if (!c->sys->record)
		closefrom(0);
	return c->sys->module_unload(c->sys, c->name) < 0 ? errno : 0;
}

// A module whose exit function hangs takes its caller with it.
static int unload_in_child(const struct sys *sys, const struct root *kern, const char *name, int timeout_ms,
			   struct err *err)
{
	struct unload_call c = { sys, name };
	int error;
	auto_fd int log = load_log_start(kern);
	auto_strv struct strv lines = { 0 };
	struct module_call guarded = { "unload", name, kern, log, timeout_ms, unload_call, &c };
	return wedge_guard(&guarded, &lines, &error, err) < 0 ? -1 : unload_result(name, error, err);
}

int unload_module(const struct sys *sys, const struct root *kern, const char *name, int timeout_ms, struct err *err)
{
	if (timeout_ms > 0)
		return unload_in_child(sys, kern, name, timeout_ms, err);
	return unload_result(name, sys->module_unload(sys, name) < 0 ? errno : 0, err);
}
