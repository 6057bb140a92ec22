// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/load.h"

#include "kmod/load/wedge.h"

#include <errno.h>

static bool depends_on(const struct module *module, const struct module *other)
{
	for (size_t i = 0; i < module->depends.count; i++) {
		if (module_name_eq(module->depends.items[i], other->name))
			return true;
	}
	return false;
}

static bool imports(const struct module *module, const struct module *other)
{
	for (size_t i = 0; i < module->import_count; i++) {
		if (symvers_find(other->exports, module->imports[i].name))
			return true;
	}
	return false;
}

static bool are_needs_placed(const struct module *const *modules, size_t count, const bool *done, size_t index)
{
	for (size_t i = 0; i < count; i++) {
		if (i != index && !done[i] &&
		    (depends_on(modules[index], modules[i]) || imports(modules[index], modules[i])))
			return false;
	}
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

// Whether loading from memory may do better than by descriptor: a label or a policy on the file, or an old kernel.
// What lockdown refused it refuses either way.
static bool is_other_way_worth_it(int error, const struct strv *lines)
{
	if (error != EACCES && error != EPERM && error != ENOSYS)
		return false;
	for (size_t i = 0; i < lines->count; i++) {
		if (strstr(lines->items[i], "Lockdown: "))
			return false;
	}
	return true;
}

struct call {
	const struct sys *sys;
	const struct module *module;
	const char *params;
	bool is_by_file;
};

static int ask_kernel(const struct call *c, int fd)
{
	const struct module *m = c->module;
	int r = c->is_by_file ? c->sys->module_load_file(c->sys, fd, m->name, c->params) :
				c->sys->module_load_data(c->sys, m->data, m->len, m->name, c->params);
	return r < 0 ? errno : 0;
}

// In the child, which the kernel may not come back to: it keeps nothing open but the module's file.
static int call(const void *ctx)
{
	const struct call *c = ctx;
	int fd = c->module->fd;
	if (!c->sys->record) {
		fd = c->is_by_file ? dup2(fd, 0) : -1;
		closefrom(c->is_by_file ? 1 : 0);
	}
	return ask_kernel(c, fd);
}

// Where no process can be made the old driver may be gone already: a load without a deadline is better than none.
static int guard_load(const struct call *c, struct module_call *g, struct strv *lines, int *ret_error, struct err *err)
{
	g->ctx = c;
	if (wedge_guard(g, lines, ret_error, err) == 0)
		return 0;
	if (err->code != EAGAIN && err->code != ENOMEM)
		return -1;
	*ret_error = ask_kernel(c, c->module->fd);
	load_log_lines(g->log, lines);
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

static void note_modules_disabled(const struct root *kern, struct strv *lines)
{
	struct err err;
	auto_str char *value = NULL;
	if (root_line(kern, "proc/sys/kernel/modules_disabled", &value, &err) > 0 && str_eq(value, "1"))
		strv_add(lines, str_dup("sysctl kernel.modules_disabled = 1"));
}

int load_module(const struct sys *sys, const struct root *kern, const struct module *module, const char *params,
		int timeout_ms, struct err *err)
{
	auto_fd int log = load_log_start(kern);
	auto_strv struct strv lines = { 0 };
	struct call c = { .sys = sys, .module = module, .params = params ? params : "" };
	struct module_call guarded = { "load", module->name, kern, log, timeout_ms ? timeout_ms : LOAD_TIMEOUT_MS,
				       call,   NULL };
	int error, r;
	c.is_by_file = module->fd >= 0;
	r = guard_load(&c, &guarded, &lines, &error, err);
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
	if (error == EPERM)
		note_modules_disabled(kern, &lines);
	return load_explain(module->name, error, &lines, err);
}

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

// A module whose exit function hangs blocks its caller for ever.
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
