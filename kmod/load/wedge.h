// SPDX-License-Identifier: Apache-2.0
// A load or unload from which the kernel does not return: a child process makes the call with a deadline, and errors
// quote the kernel's own log.
#pragma once
#include "base/file/root.h"

// The kernel log from a point in time on. start: before the call that may cause lines; fd < 0 when it cannot be read.
int load_log_start(const struct root *kern);
void load_log_lines(int fd, struct strv *ret); // what was added since; does not wait

struct module_call {
	const char *verb, *name; // "load", "nvidia": for messages
	const struct root *kern; // where proc is seen
	int log;                 // of load_log_start(), from before; < 0: the kernel's log cannot be read
	int timeout_ms;
	int (*call)(const void *ctx); // as of bounded_call()
	const void *ctx;
};

// 0 = the call came back with *ret_error (an errno, 0 = done). E_WEDGED: it did not in time, and the child that
// nothing may be able to end is left behind; or the kernel oopsed in it. Then nothing may be loaded or unloaded
// until the next boot: a module whose start oopsed stays half-initialised for ever, and another load of it waits for
// it. A child that was killed otherwise (for lack of memory) is EINTR. The kernel's lines meanwhile are added to lines.
int wedge_guard(const struct module_call *c, struct strv *lines, int *ret_error, struct err *err);

// E_WEDGED in words, pure: what happened, the text of proc/PID/stack (NULL = it could not be read) and the kernel's
// lines, in that order, because a long text is cut. Always -1, like err_set.
int wedge_explain(const struct module_call *c, const char *what, const char *stack, const struct strv *lines,
		  struct err *err);

// Of the lines those that tell of an oops and its place, pure. True = there is an oops among them.
bool wedge_oops(const struct strv *lines, struct strv *ret);
