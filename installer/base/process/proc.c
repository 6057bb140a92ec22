// SPDX-License-Identifier: Apache-2.0
#include "base/process/proc.h"

#include "base/core/date.h"
#include "base/file/root.h"
#include "base/process/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

const char PROC_PATH[] = "/usr/sbin:/usr/bin:/sbin:/bin";

enum { LINE_BYTES = 8192, KILL_GRACE_MS = 2000, TICK_MAX_MS = 64 };

struct reader {
	const struct proc *proc;
	struct proc_end *end;
	char line[LINE_BYTES];
	size_t len;
};

// The tail keeps whole lines: the oldest go.
static void end_line(struct reader *r)
{
	char *tail = r->end->tail;
	size_t used = strlen(tail), len = r->len, room = sizeof(r->end->tail) - 2;
	r->line[r->len] = '\0';
	r->len = 0;
	if (len > room)
		len = room;
	if (used + len > room) {
		size_t drop = used + len - room;
		const char *next = memchr(tail + drop, '\n', used - drop);
		drop = next ? (size_t)(next + 1 - tail) : used;
		memmove(tail, tail + drop, used - drop + 1);
		used -= drop;
	}
	snprintf(tail + used, sizeof(r->end->tail) - used, "%.*s\n", (int)len, r->line);
	if (r->proc->line)
		r->proc->line(r->proc->ctx, r->line);
}

// False at the end of output.
static bool read_output(struct reader *r, int in)
{
	char buf[4096];
	ssize_t n = read(in, buf, sizeof(buf));
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] == '\n' || r->len == sizeof(r->line) - 1)
			end_line(r);
		if (buf[i] != '\n')
			r->line[r->len++] = buf[i] ? buf[i] : '?';
	}
	return n > 0 || (n < 0 && errno == EINTR);
}

// Until the program has ended and its output is read. The end of the pipe is not the end of the program: a daemon that
// it left running may hold the pipe for ever, and a program may close its output long before it ends.
static void follow_output(struct reader *r, int in, pid_t pid)
{
	long deadline = r->proc->timeout_ms ? clock_ms() + r->proc->timeout_ms : LONG_MAX;
	bool is_open = true, is_ended = false;
	for (int tick = 1;;) {
		struct pollfd p = { .fd = is_open ? in : -1, .events = POLLIN };
		if (poll(&p, 1, is_ended ? 0 : tick) > 0) {
			is_open = read_output(r, in);
		} else if (is_ended) {
			break;
		} else {
			siginfo_t info = { 0 };
			int waited = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
			is_ended = waited < 0 ? errno == ECHILD : info.si_pid == pid;
			if (!is_ended && tick < TICK_MAX_MS)
				tick *= 2;
		}
		if (is_ended || clock_ms() < deadline)
			continue;
		bool is_first = !r->end->is_timed_out;
		r->end->is_timed_out = true;
		kill(-pid, is_first ? SIGTERM : SIGKILL);
		deadline = is_first ? clock_ms() + KILL_GRACE_MS : LONG_MAX;
	}
	if (r->len)
		end_line(r);
	if (r->end->is_timed_out)
		kill(-pid, SIGKILL); // not yet reaped, so the group is still ours
}

int proc_spawn(const char *program, char *const *argv, char *const *env, posix_spawn_file_actions_t *files, short group,
	       const sigset_t *blocked, pid_t *ret)
{
	posix_spawnattr_t attr;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, (short)(group | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
	posix_spawnattr_setsigmask(&attr, blocked ? blocked : &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	int problem = posix_spawn(ret, program, files, &attr, argv, env);
	posix_spawn_file_actions_destroy(files);
	posix_spawnattr_destroy(&attr);
	return problem;
}

static int open_input(const char *text, struct err *err)
{
	auto_fd int fd = memfd_create("input", MFD_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(err, errno, "make the standard input of a program");
	return TAKE_FD(fd);
}

int proc_run(const struct proc *proc, struct proc_end *ret, struct err *err)
{
	static const char *const empty[] = { NULL };
	const char *name = proc->argv[0];
	long started = clock_ms();
	int pipes[2];
	auto_fd int input = proc->input ? open_input(proc->input, err) : -1;
	if (proc->input && input < 0)
		return -1;
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe for '%s'", name);
	auto_fd int in = pipes[0];
	auto_fd int out = pipes[1];
	*ret = (struct proc_end){ 0 };
	if (log_is_on(LOG_LEVEL_DEBUG)) {
		auto_str char *words = NULL;
		for (size_t i = 0; proc->argv[i]; i++)
			str_add(&words, " %s", proc->argv[i]);
		log_debug("run%s%s%s", words, proc->dir ? " in " : "", proc->dir ? proc->dir : "");
	}
	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	if (proc->input)
		posix_spawn_file_actions_adddup2(&files, input, 0);
	else
		posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	posix_spawn_file_actions_adddup2(&files, out, 2);
	posix_spawn_file_actions_addclosefrom_np(&files, 3); // our descriptors are not for the program
	if (proc->dir)
		posix_spawn_file_actions_addchdir_np(&files, proc->dir);
	pid_t pid;
	int problem = proc_spawn(name, (char *const *)(uintptr_t)proc->argv,
				 (char *const *)(uintptr_t)(proc->env ? proc->env : empty), &files,
				 POSIX_SPAWN_SETPGROUP, NULL, &pid);
	if (problem)
		return err_set(err, problem, "start '%s'", name);
	close(TAKE_FD(out));
	struct reader r = { .proc = proc, .end = ret };
	follow_output(&r, in, pid);
	int status = 0;
	struct rusage usage = { 0 };
	while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR)
		;
	ret->peak_kib = usage.ru_maxrss;
	ret->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	ret->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	long ms = clock_ms() - started;
	if (ret->is_timed_out)
		log_debug("'%s' did not end in time, %ld ms", name, ms);
	else if (ret->signal)
		log_debug("'%s' was killed by signal %d, %ld ms", name, ret->signal, ms);
	else
		log_debug("'%s' ended with status %d, %ld ms", name, ret->status, ms);
	return 0;
}

int proc_must(const struct proc *proc, struct proc_end *ret, struct err *err)
{
	if (proc_run(proc, ret, err) < 0)
		return -1;
	if (!ret->is_timed_out && !ret->signal && !ret->status)
		return 0;
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, ret->tail, "\n");
	const char *last = lines.count ? lines.items[lines.count - 1] : "no output";
	const char *name = proc->argv[0];
	if (ret->is_timed_out)
		return err_set(err, E_SYSTEM, "'%s' did not end within %d ms: %s", name, proc->timeout_ms, last);
	if (ret->signal)
		return err_set(err, E_SYSTEM, "'%s' was killed by signal %d: %s", name, ret->signal, last);
	return err_set(err, E_SYSTEM, "'%s' failed with status %d: %s", name, ret->status, last);
}

char *proc_find(const char *path, const char *name)
{
	auto_strv struct strv dirs = { 0 };
	strv_split(&dirs, path, ":");
	for (size_t i = 0; i < dirs.count; i++) {
		auto_str char *full = str_fmt("%s/%s", dirs.items[i], name);
		struct stat st;
		if (*full == '/' && stat(full, &st) == 0 && S_ISREG(st.st_mode) && access(full, X_OK) == 0)
			return TAKE(full);
	}
	return NULL;
}

int proc_idle(struct err *err)
{
	static const int LOWEST = 19;
	const struct sched_param none = { 0 };
	if (setpriority(PRIO_PROCESS, 0, LOWEST) < 0 || sched_setscheduler(0, SCHED_BATCH, &none) < 0 ||
	    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)) < 0)
		return err_set(err, errno, "lower the priority of this process");
	return 0;
}

uint64_t proc_start_time(const struct root *kern, int pid)
{
	enum { OF_THE_KERNEL = 0x00200000 }; // PF_KTHREAD of linux/sched.h
	struct err err;
	unsigned flags;
	unsigned long long start;
	auto_str char *path = str_fmt("proc/%d/stat", pid), *text = NULL;
	if (root_read(kern, path, &text, NULL, &err) <= 0)
		return 0;
	const char *rest = strrchr(text, ')'); // a name may have blanks and brackets
	if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			    &flags, &start) != 2)
		return 0;
	return flags & OF_THE_KERNEL ? 0 : start;
}
