// SPDX-License-Identifier: Apache-2.0
// Loads and unloads modules with a deadline, and explains the kernel's refusals.
//
// errno does not show why a load failed (unsigned, unknown key and altered content are all EKEYREJECTED), so the
// kernel-log lines that this load caused are read too, and both together are looked up in a table.
#pragma once
#include "base/file/root.h"
#include "base/process/sys.h"
#include "kmod/module/elf.h"

// Indices of modules in an order in which each comes after what it needs: modules it names in "depends" and modules
// that export what it imports. Modules that do not depend on each other stay in the order given. E_SYMBOL for a
// circle.
int load_order(const struct module *const *modules, size_t count, size_t *ret, struct err *err);

// The deadline of one load where the caller names none. The longest that were seen are of seconds, on an emulated
// processor of tens; udev ends the modprobe that it has started after 180 s, so what takes longer fails on any host.
enum { LOAD_TIMEOUT_MS = 300 * 1000 };

// 1 = loaded, 0 = a module of that name was there already. From the file by descriptor; where a security module or an
// old kernel forbids that way (EACCES, EPERM, ENOSYS), from memory; inflated images always from memory. params:
// blank-separated name=value, NULL = none. kern: where /dev/kmsg and /proc are seen; where it cannot be read, errno
// alone decides. timeout_ms: 0 = LOAD_TIMEOUT_MS. E_WEDGED: the module's start hangs or oopsed, and nothing may be
// loaded or unloaded until the next boot: a module whose start oopsed stays half-initialised for ever, and another load
// of it waits for it.
int load_module(const struct sys *sys, const struct root *kern, const struct module *module, const char *params,
		int timeout_ms, struct err *err);

// 1 = unloaded, 0 = was not loaded. E_IN_USE when something holds it. timeout_ms > 0: a kernel that does not come
// back in that time is E_WEDGED, and the call is left behind in a child process that nothing can end.
int unload_module(const struct sys *sys, const struct root *kern, const char *name, int timeout_ms, struct err *err);

// The mapping alone, pure: errno of a load and the kernel's lines (without priority and time) -> code and text in
// err. Always -1, like err_set.
int load_explain(const char *module, int error, const struct strv *lines, struct err *err);

// Explains E_WEDGED, pure: call ("unload 'nvidia'"), what happened, the text of proc/PID/stack (NULL = it could not be
// read) and the kernel's lines, in that order, because a long text is cut. Always -1, like err_set.
int load_explain_wedge(const char *call, const char *what, const char *stack, const struct strv *lines,
		       struct err *err);
// The kernel's lines that belong to an oops, pure. True = there is an oops among them.
bool load_find_oops(const struct strv *lines, struct strv *ret);
