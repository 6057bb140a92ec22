// SPDX-License-Identifier: Apache-2.0
#include "daemons/daemon_process.h"

#include "base/core/date.h"
#include "base/process/proc.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

// nvidia-persistenced releases one GPU after the other, a second or two for each.
enum { TERM_MS = 20 * 1000, KILL_MS = 2000, POLL_MS = 20 };

static const char *program_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool daemon_is(const struct root *kern, int pid, uint64_t start, const char *program)
{
	static const char DELETED[] = " (deleted)";
	struct err ignored;
	auto_str char *path = str_fmt("proc/%d/exe", pid), *exe = NULL;
	if (pid <= 0 || !start || proc_start_time(kern, pid) != start ||
	    root_readlink(kern, path, &exe, &ignored) <= 0) // a zombie has none
		return false;
	if (str_ends(exe, DELETED))
		exe[strlen(exe) - strlen(DELETED)] = '\0';
	return str_eq(program_name(exe), program_name(program));
}

int daemon_find(const struct node *node, const struct daemon_unit *u, int known, uint64_t known_start, int *ret_pid,
		uint64_t *ret_start)
{
	const char *program = u->argv->items[0];
	int pid = known;
	if (!daemon_is(node->kern, known, known_start, program)) {
		struct err ignored;
		uint64_t number;
		auto_str char *path = str_fmt("run/%s/%s", u->dir, u->pid_file ? u->pid_file : ""), *text = NULL;
		bool is_pid = u->pid_file && root_line(node->host, path, &text, &ignored) > 0 &&
			      str_u64(text, 10, &number) && number > 1 && number < INT32_MAX;
		pid = is_pid ? (int)number : 0;
	}
	uint64_t start = pid ? proc_start_time(node->kern, pid) : 0;
	if (!daemon_is(node->kern, pid, start, program))
		return 0;
	*ret_pid = pid;
	*ret_start = start;
	return 1;
}

static int clear_stale_file(const struct root *host, const char *dir, const char *name, struct err *err)
{
	auto_str char *path = name ? str_fmt("run/%s/%s", dir, name) : NULL;
	return path && root_unlink(host, path, err) < 0 ? -1 : 0;
}

int daemon_launch(const struct node *node, const char *driver, const struct daemon_unit *u, int out, struct err *err)
{
	auto_str char *root = root_path(node->host, driver), *dir = str_fmt("run/%s", u->dir);
	if (root_mkdirs(node->host, dir, 0755, err) < 0 || clear_stale_file(node->host, u->dir, u->pid_file, err) < 0 ||
	    clear_stale_file(node->host, u->dir, u->socket, err) < 0)
		return -1;
	int pid = node->sys->process_start(node->sys, root, u->env, u->argv, out);
	return pid < 0 ? err_set(err, errno, "start %s", u->name) : pid;
}

// An exiting process loses its program first, then its open devices, and becomes a zombie last.
static bool is_process_gone(const struct root *kern, int pid, uint64_t start)
{
	struct err ignored;
	auto_str char *path = str_fmt("proc/%d/stat", pid), *text = NULL;
	if (proc_start_time(kern, pid) != start || root_read(kern, path, &text, NULL, &ignored) <= 0)
		return true;
	const char *state = strrchr(text, ')');
	return state && (str_starts(state, ") Z") || str_starts(state, ") X"));
}

// Through a pidfd, because the pid may be another process's by then.
static int signal_process(const struct node *node, const char *program, int pid, uint64_t start, int signal,
			  struct err *err)
{
	auto_fd int process = node->sys->process_open(node->sys, pid);
	if (process < 0 && errno != ENOSYS)
		return errno == ESRCH ? 0 : err_set(err, errno, "open process %d", pid);
	if (!daemon_is(node->kern, pid, start, program))
		return 0;
	int r = process < 0 ? kill(pid, signal) : node->sys->process_signal(node->sys, process, pid, signal);
	return r < 0 && errno != ESRCH ? err_set(err, errno, "signal process %d", pid) : 0;
}

int daemon_end(const struct node *node, const char *program, int pid, uint64_t start, struct err *err)
{
	static const struct {
		int signal, wait_ms;
	} tries[] = { { SIGTERM, TERM_MS }, { SIGKILL, KILL_MS } };
	const struct timespec nap = { .tv_nsec = POLL_MS * 1000 * 1000 };
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		if (signal_process(node, program, pid, start, tries[i].signal, err) < 0)
			return -1;
		int64_t end = clock_ms() + tries[i].wait_ms;
		bool is_gone = is_process_gone(node->kern, pid, start);
		for (; !is_gone && clock_ms() < end; is_gone = is_process_gone(node->kern, pid, start))
			nanosleep(&nap, NULL);
		if (is_gone)
			return 0;
	}
	return err_set(err, E_IN_USE, "process %d (%s) did not exit after SIGKILL", pid, program_name(program));
}
