// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/load.h"

#include "kmod/load/wedge.h"

#include <errno.h>
#include <fcntl.h>

enum { RECORD_MAX = 8192, LINES_MAX = 256 };

int load_log_start(const struct root *kern)
{
	struct err err; // without a log errno alone decides
	int fd = root_open(kern, "dev/kmsg", O_RDONLY | O_NONBLOCK, &err);
	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

// A record escapes newlines; the driver writes its paragraphs with "NVRM: " in front of each line.
static char *unescape_kmsg(const char *text, size_t len)
{
	static const char newline[] = "\\x0a", prefix[] = "NVRM: ";
	auto_str char *line = str_ndup(text, len);
	char *to = line;
	for (const char *from = line; *from;) {
		if (!str_starts(from, newline)) {
			*to++ = *from++;
			continue;
		}
		from += sizeof(newline) - 1;
		if (str_starts(from, prefix))
			from += sizeof(prefix) - 1;
		*to++ = ' ';
	}
	*to = '\0';
	return str_dup(str_trim(line));
}

// "priority,sequence,time,flags;text", then lines that start with a blank and tell of the device.
static void take_records(const char *data, size_t len, struct strv *ret)
{
	for (const char *line = data, *end = data + len, *stop; line < end; line = stop + 1) {
		stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			stop = end;
		const char *text = memchr(line, ';', (size_t)(stop - line));
		if (*line != ' ' && text && ret->count < LINES_MAX)
			strv_add(ret, unescape_kmsg(text + 1, (size_t)(stop - text - 1)));
	}
}

void load_log_lines(int fd, struct strv *ret)
{
	char record[RECORD_MAX];
	for (int i = 0; fd >= 0 && i < LINES_MAX; i++) {
		ssize_t n = read(fd, record, sizeof(record));
		if (n > 0)
			take_records(record, (size_t)n, ret);
		else if (n == 0 || (errno != EPIPE && errno != EINTR)) // EPIPE: older records were overwritten, go on
			return;
	}
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

// From the file by descriptor; where that may be forbidden and memory not, from there. *ret_error: the errno of the
// load, 0 = loaded.
static int load_image(struct call *c, struct module_call *g, struct strv *lines, int *ret_error, struct err *err)
{
	c->is_by_file = c->module->fd >= 0;
	if (guard_load(c, g, lines, ret_error, err) < 0)
		return -1;
	if (!*ret_error || !c->is_by_file || !is_other_way_worth_it(*ret_error, lines))
		return 0;
	c->is_by_file = false;
	return guard_load(c, g, lines, ret_error, err);
}

// EEXIST is also what a module's own start may end with; only a module that is there was there already.
static bool is_module_loaded(const struct root *kern, const char *name)
{
	auto_str char *path = str_fmt("sys/module/%s", name);
	for (char *p = path + strlen("sys/module/"); *p; p++)
		*p = *p == '-' ? '_' : *p;
	return root_exists(kern, path) || !root_exists(kern, "sys/module");
}

// A child that was killed may have been through with it.
static bool is_module_live(const struct root *kern, const char *name)
{
	struct err ignored;
	auto_str char *path = str_fmt("sys/module/%s/initstate", name), *state = NULL;
	for (char *p = path + strlen("sys/module/"); *p && *p != '/'; p++)
		*p = *p == '-' ? '_' : *p;
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
	int error;
	if (load_image(&c, &guarded, &lines, &error, err) < 0)
		return err->code == EINTR && is_module_live(kern, module->name) ? 1 : -1;
	if (!error)
		return 1;
	if (error == EEXIST && is_module_loaded(kern, module->name))
		return 0;
	if (error == EPERM)
		note_modules_disabled(kern, &lines);
	return load_explain(module->name, error, &lines, err);
}
