// SPDX-License-Identifier: Apache-2.0
#include "kmod/load.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

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
static char *unescape(const char *text, size_t len)
{
	static const char newline[] = "\\x0a", prefix[] = "NVRM: ";
	char *line = str_ndup(text, len), *to = line;
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
	return str_trim(line);
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
			strv_add(ret, unescape(text + 1, (size_t)(stop - text - 1)));
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

static int load_data(const struct sys *sys, const struct module *m, const char *params)
{
	return sys->module_load_data(sys, m->data, m->len, m->name, params) < 0 ? errno : 0;
}

// The errno of the load, 0 = loaded.
static int load(const struct sys *sys, const struct module *m, const char *params, int log, struct strv *lines)
{
	if (m->fd < 0) {
		int error = load_data(sys, m, params);
		load_log_lines(log, lines);
		return error;
	}
	int error = sys->module_load_file(sys, m->fd, m->name, params) < 0 ? errno : 0;
	load_log_lines(log, lines);
	if (error && is_other_way_worth_it(error, lines)) {
		error = load_data(sys, m, params);
		load_log_lines(log, lines);
	}
	return error;
}

// EEXIST is also what a module's own start may end with; only a module that is there was there already.
static bool is_loaded(const struct root *kern, const char *name)
{
	auto_str char *path = str_fmt("sys/module/%s", name);
	for (char *p = path + strlen("sys/module/"); *p; p++)
		*p = *p == '-' ? '_' : *p;
	return root_exists(kern, path) || !root_exists(kern, "sys/module");
}

static void note_modules_disabled(const struct root *kern, struct strv *lines)
{
	struct err err;
	auto_str char *value = NULL;
	if (root_line(kern, "proc/sys/kernel/modules_disabled", &value, &err) > 0 && str_eq(value, "1"))
		strv_add(lines, str_dup("sysctl kernel.modules_disabled = 1"));
}

int load_module(const struct sys *sys, const struct module *module, const char *params, const struct root *kern,
		struct err *err)
{
	auto_fd int log = load_log_start(kern);
	auto_strv struct strv lines = { 0 };
	int error = load(sys, module, params ? params : "", log, &lines);
	if (!error)
		return 1;
	if (error == EEXIST && is_loaded(kern, module->name))
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

// A module whose exit function hangs takes its caller with it, so the caller is a child that makes this one call.
static int unload_in_child(const struct sys *sys, const char *name, int timeout_ms, struct err *err)
{
	int status;
	pid_t child = fork();
	if (child < 0)
		return err_set(err, errno, "unload '%s': start a process", name);
	if (child == 0)
		_exit(sys->module_unload(sys, name) < 0 ? errno : 0);
	if (!wait_child(child, timeout_ms)) {
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
