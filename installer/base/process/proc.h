// SPDX-License-Identifier: Apache-2.0
// Run a program and know exactly how it ended: exit status, signal and time-out are told apart.
//
// The program gets its own process group, so that a time-out ends all of its children, and only the environment given.
// Its standard output and error arrive line by line; it has no other descriptor but its input. There is no shell
// anywhere.
#pragma once
#include "base/core/err.h"

#include <spawn.h>

struct proc {
	const char *const *argv;                   // argv[0] absolute, NULL-terminated
	const char *const *env;                    // the whole environment; NULL = empty
	const char *dir;                           // working directory; NULL = inherit
	const char *input;                         // what it reads from its standard input; NULL = nothing
	int timeout_ms;                            // 0 = none
	void (*line)(void *ctx, const char *line); // without the newline; may be NULL
	void *ctx;
};

struct proc_end {
	int status; // exit status, or -1 when a signal ended it
	int signal; // 0 = none
	bool is_timed_out;
	long peak_kib;   // largest resident set of the program or a waited-for child of it
	char tail[2048]; // the last lines of output
};

// 0 when the program ran, however it ended; negative when it could not be started. What it left running in the
// background goes on, unless it was timed out.
int proc_run(const struct proc *proc, struct proc_end *ret, struct err *err);
// As proc_run, and anything but exit status 0 is an error E_SYSTEM that says how it ended, with the last line of
// output.
int proc_must(const struct proc *proc, struct proc_end *ret, struct err *err);
// Starts a program with every signal at its default, and these blocked (NULL = none). group: POSIX_SPAWN_SETPGROUP or
// _SETSID. files is destroyed. 0 or an errno.
int proc_spawn(const char *program, char *const *argv, char *const *env, posix_spawn_file_actions_t *files, short group,
	       const sigset_t *blocked, pid_t *ret);
// The program of that name in the first directory of path (colon-separated, absolute) that has it; NULL = none.
char *proc_find(const char *path, const char *name);
extern const char PROC_PATH[]; // where programs are looked for: /usr/sbin:/usr/bin:/sbin:/bin
// The lowest priority for processor and disk, for this process and all that it starts, for good. SCHED_BATCH and not
// SCHED_IDLE: on a machine that is never idle the work still ends some day.
int proc_idle(struct err *err);

// When a process was started, in clock ticks after boot (proc(5)): with its pid the identity of a process, because pids
// are used again. 0 = there is no such process, or it is a thread of the kernel.
struct root;
uint64_t proc_start_time(const struct root *kern, int pid);
