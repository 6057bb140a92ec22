// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/load.h"

#include "kmod/load/bounded.h"
#include "kmod/load/kernel_log.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

static bool needs(const struct module *module, const struct module *other)
{
	for (size_t i = 0; i < module->depends.count; i++)
		if (module_name_eq(module->depends.items[i], other->name))
			return true;
	for (size_t i = 0; i < module->import_count; i++)
		if (symvers_find(other->exports, module->imports[i].name))
			return true;
	return false;
}

static bool are_needs_placed(const struct module *const *modules, size_t count, const bool *done, size_t index)
{
	for (size_t i = 0; i < count; i++)
		if (i != index && !done[i] && needs(modules[index], modules[i]))
			return false;
	return true;
}

int load_order(const struct module *const *modules, size_t count, size_t *ret, struct err *err)
{
	bool *done = mem_alloc(count * sizeof(*done));
	size_t placed = 0, next = 0;
	while (placed < count && next < count) {
		for (next = 0; next < count && (done[next] || !are_needs_placed(modules, count, done, next)); next++)
			;
		if (next < count) {
			done[next] = true;
			ret[placed++] = next;
		}
	}
	for (next = 0; next < count && done[next]; next++)
		;
	free(done);
	if (placed < count)
		return err_set(err, E_SYMBOL, "'%s' and a module that it depends on depend on each other",
			       modules[next]->name);
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

// The last lines that have room, because the one before the hang tells most; of one that has none, its end.
static char *last_lines(const struct strv *lines, size_t room)
{
	auto_str char *log = NULL;
	for (size_t i = lines->count; i > 0; i--) {
		const char *line = lines->items[i - 1];
		size_t len = strlen(line), used = log ? strlen(log) + strlen(" | ") : 0;
		if (log && used + len > room)
			break;
		char *more = str_fmt("%s%s%s", len > room ? line + len - room : line, log ? " | " : "", log ? log : "");
		free(log);
		log = more;
	}
	return TAKE(log);
}

int load_explain_wedge(const char *call, const char *what, const char *stack, const struct strv *lines, struct err *err)
{
	enum { LOG_MOST = 240, LOG_LEAST = 80, WRAPPED = 40 }; // WRAPPED: what callers may put before it
	auto_str char *frames = stack ? frames_of(stack) : NULL;
	auto_str char *head = str_fmt("%s: %s%s%.240s", call, what, frames ? "; it is in " : "", frames ? frames : "");
	size_t used = strlen(head) + strlen("; kernel: ") + WRAPPED, left = sizeof(err->text) - 1;
	size_t room = left < used + LOG_LEAST ? LOG_LEAST : left - used;
	auto_str char *log = last_lines(lines, room < LOG_MOST ? room : LOG_MOST);
	return err_set(err, E_WEDGED, "%s%s%s", head, log ? "; kernel: " : "", log ? log : "");
}

bool load_find_oops(const struct strv *lines, struct strv *ret)
{
	static const char *const words[] = { "BUG: ", "kernel BUG at ", "Unable to handle kernel ", "RIP: ", "pc : " };
	bool is_oops = false;
	for (size_t i = 0; i < lines->count; i++) {
		// Every architecture's die() numbers the oops: "Oops: 0002 [#1]", "invalid opcode: 0000 [#1]".
		const char *line = lines->items[i], *mark = strstr(line, " [#");
		bool is_numbered = mark && isdigit((unsigned char)mark[3]), is_told = is_numbered;
		for (size_t k = 0; k < ARRAY_SIZE(words); k++)
			is_told = is_told || str_starts(line, words[k]);
		if (is_told && !strv_has(ret, line)) // RIP stands below the end of the trace once more
			strv_add(ret, str_dup(line));
		is_oops = is_oops || is_numbered;
	}
	return is_oops;
}

// That some task oopsed in this boot (TAINT_DIE of the kernel's include/linux/panic.h).
static bool is_tainted(const struct root *kern)
{
	enum { TAINT_DIE = 1 << 7 };
	struct err ignored;
	auto_str char *value = NULL;
	return root_line(kern, "proc/sys/kernel/tainted", &value, &ignored) > 0 &&
	       (strtoul(value, NULL, 10) & TAINT_DIE);
}

struct guarded {
	const char *verb, *name; // "load", "nvidia": for messages
	const struct root *kern;
	int log; // kernel_log_open(), from before
	int timeout_ms;
	int (*call)(const void *ctx); // as of bounded_call()
	const void *ctx;
};

// A child makes the call. 0 = it came back with *ret_error (an errno, 0 = done). E_WEDGED: it did not in time, and the
// child, which perhaps nothing can end, is left behind; or the kernel oopsed in it. A child that was killed otherwise
// (for lack of memory) is EINTR. The kernel's lines meanwhile are added to lines.
static int run_guarded(const struct guarded *g, struct strv *lines, int *ret_error, struct err *err)
{
	struct bounded_result result;
	struct err ignored; // without the right to read the stack the rest still tells enough
	auto_str char *stack = NULL, *what = NULL, *call = str_fmt("%s '%s'", g->verb, g->name);
	bool was_tainted = is_tainted(g->kern);
	if (bounded_call(g->call, g->ctx, g->timeout_ms, &result, err) < 0)
		return err_wrap(err, "%s", call);
	if (result.end == BOUNDED_LATE) {
		auto_str char *path = str_fmt("proc/%d/stack", (int)result.child);
		root_read(g->kern, path, &stack, NULL, &ignored);
	}
	kernel_log_read(g->log, lines);
	if (result.end == BOUNDED_LATE) {
		what = str_fmt("the kernel did not return within %g s; process %d is stuck in it", g->timeout_ms / 1e3,
			       (int)result.child);
		return load_explain_wedge(call, what, stack, lines, err);
	}
	if (result.end == BOUNDED_DIED) {
		auto_strv struct strv told = { 0 };
		bool is_oops = load_find_oops(lines, &told);
		if (!is_oops && !(is_tainted(g->kern) && (!was_tainted || g->log < 0)))
			return err_set(err, EINTR, "%s: its process %d was killed, and the kernel log has no oops",
				       call, (int)result.child);
		what = str_fmt("the kernel oopsed in it and killed process %d", (int)result.child);
		return load_explain_wedge(call, what, NULL, &told, err);
	}
	*ret_error = result.error;
	return 0;
}

// Whether loading from memory may do better than by descriptor: a label or a policy on the file, or an old kernel.
// What lockdown refused it refuses either way.
static bool is_other_way_worth_it(int error, const struct strv *lines)
{
	if (error != EACCES && error != EPERM && error != ENOSYS)
		return false;
	for (size_t i = 0; i < lines->count; i++)
		if (strstr(lines->items[i], "Lockdown: "))
			return false;
	return true;
}

struct load_call {
	const struct sys *sys;
	const struct module *module;
	const char *params;
	bool is_by_file;
};

static int ask_kernel(const struct load_call *c, int fd)
{
	const struct module *m = c->module;
	int r = c->is_by_file ? c->sys->module_load_file(c->sys, fd, m->name, c->params) :
				c->sys->module_load_data(c->sys, m->data, m->len, m->name, c->params);
	return r < 0 ? errno : 0;
}

// In the child, which may hang in the kernel: it keeps nothing open but the module's file.
static int call_load(const void *ctx)
{
	const struct load_call *c = ctx;
	int fd = c->module->fd;
	if (!c->sys->record) {
		fd = c->is_by_file ? dup2(fd, 0) : -1;
		closefrom(c->is_by_file ? 1 : 0);
	}
	return ask_kernel(c, fd);
}

// Where no process can be made the old driver may be gone already: a load without a deadline is better than none.
static int guard_load(const struct load_call *c, const struct guarded *g, struct strv *lines, int *ret_error,
		      struct err *err)
{
	if (run_guarded(g, lines, ret_error, err) == 0)
		return 0;
	if (err->code != EAGAIN && err->code != ENOMEM)
		return -1;
	*ret_error = ask_kernel(c, c->module->fd);
	kernel_log_read(g->log, lines);
	return 0;
}

// EEXIST is also what a module's own start may end with; only a module that is there was there already.
static bool is_module_loaded(const struct root *kern, const char *name)
{
	auto_str char *kernel_name = module_kernel_name(name), *path = str_fmt("sys/module/%s", kernel_name);
	return root_exists(kern, path) || !root_exists(kern, "sys/module");
}

// A child that was killed may have been through with it.
static bool is_module_live(const struct root *kern, const char *name)
{
	struct err ignored;
	auto_str char *kernel_name = module_kernel_name(name), *state = NULL;
	auto_str char *path = str_fmt("sys/module/%s/initstate", kernel_name);
	return root_line(kern, path, &state, &ignored) > 0 && str_eq(state, "live");
}

int load_module(const struct sys *sys, const struct root *kern, const struct module *module, const char *params,
		int timeout_ms, struct err *err)
{
	auto_fd int log = kernel_log_open(kern);
	auto_strv struct strv lines = { 0 };
	struct load_call c = {
		.sys = sys, .module = module, .params = params ? params : "", .is_by_file = module->fd >= 0
	};
	const struct guarded guarded = {
		"load", module->name, kern, log, timeout_ms ? timeout_ms : LOAD_TIMEOUT_MS, call_load, &c
	};
	int error, r = guard_load(&c, &guarded, &lines, &error, err);
	if (r == 0 && c.is_by_file && is_other_way_worth_it(error, &lines)) {
		c.is_by_file = false;
		r = guard_load(&c, &guarded, &lines, &error, err);
	}
	if (r < 0)
		return err->code == EINTR && is_module_live(kern, module->name) ? 1 : -1;
	if (!error)
		return 1;
	if (error == EEXIST && is_module_loaded(kern, module->name))
		return 0;
	auto_str char *disabled = NULL;
	struct err ignored;
	if (error == EPERM && root_line(kern, "proc/sys/kernel/modules_disabled", &disabled, &ignored) > 0 &&
	    str_eq(disabled, "1"))
		strv_add(&lines, str_dup("sysctl kernel.modules_disabled = 1"));
	return load_explain(module->name, error, &lines, err);
}

struct unload_call {
	const struct sys *sys;
	const char *name;
};

// What the caller has open must not stay open with a child that cannot end: the node's lock, and the pipe whose reader
// waits for its end. The recorder works on files of its own.
static int call_unload(const void *ctx)
{
	const struct unload_call *c = ctx;
	if (!c->sys->record)
		closefrom(0);
	return c->sys->module_unload(c->sys, c->name) < 0 ? errno : 0;
}

int unload_module(const struct sys *sys, const struct root *kern, const char *name, int timeout_ms, struct err *err)
{
	const struct unload_call c = { sys, name };
	int error;
	if (timeout_ms > 0) {
		auto_fd int log = kernel_log_open(kern);
		auto_strv struct strv lines = { 0 };
		const struct guarded guarded = { "unload", name, kern, log, timeout_ms, call_unload, &c };
		if (run_guarded(&guarded, &lines, &error, err) < 0)
			return -1;
	} else {
		error = sys->module_unload(sys, name) < 0 ? errno : 0;
	}
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
