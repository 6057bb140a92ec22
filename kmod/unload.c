// SPDX-License-Identifier: Apache-2.0
#include "kmod/bounded.h"
#include "kmod/load.h"

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

struct call {
	const struct sys *sys;
	const char *name;
};

// What the caller has open must not stay open with a child that cannot end: the node's lock, and the pipe whose reader
// waits for its end. The recorder works on files of its own.
static int call(const void *ctx)
{
	const struct call *c = ctx;
	if (!c->sys->record)
		closefrom(0);
	return c->sys->module_unload(c->sys, c->name) < 0 ? errno : 0;
}

// A module whose exit function hangs takes its caller with it.
static int unload_in_child(const struct sys *sys, const struct root *kern, const char *name, int timeout_ms,
			   struct err *err)
{
	struct call c = { sys, name };
	struct bounded_result result;
	auto_fd int log = load_log_start(kern);
	if (bounded_call(call, &c, timeout_ms, &result, err) < 0)
		return err_wrap(err, "unload '%s'", name);
	if (result.end == BOUNDED_DONE)
		return unload_result(name, result.error, err);
	if (result.end == BOUNDED_DIED)
		return wedged(kern, name, "the kernel killed the caller", result.child, log, err);
	auto_str char *late = str_fmt("the kernel did not come back within %g s; process %d is stuck in it",
				      timeout_ms / 1e3, (int)result.child);
	return wedged(kern, name, late, result.child, log, err);
}

int unload_module(const struct sys *sys, const struct root *kern, const char *name, int timeout_ms, struct err *err)
{
	if (timeout_ms > 0)
		return unload_in_child(sys, kern, name, timeout_ms, err);
	return unload_result(name, sys->module_unload(sys, name) < 0 ? errno : 0, err);
}
