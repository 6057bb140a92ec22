// SPDX-License-Identifier: Apache-2.0
// kill_at CALL NUMBER COMMAND...: the process of COMMAND that makes this system call for the NUMBERth time is killed
// before the call does anything. The exit status is that of COMMAND as a shell has it, 137 when it was itself killed.
// The last line on standard error says how many of these calls one process made at most. A load is a child's only call
// (kmod/load/bounded.h): those are counted together, and COMMAND is killed with the child.
// What strace does with -f -e inject=CALL:signal=KILL:when=NUMBER, at a third of the price under emulation: the program
// stops at this call alone, and not at each of its thousands of others. (strace 6.1 --seccomp-bpf injects no signals.)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	const char *name;
	unsigned int number;
} calls[] = {
	{ "mount", SYS_mount },           { "umount2", SYS_umount2 },
	{ "unshare", SYS_unshare },       { "setns", SYS_setns },
	{ "fsync", SYS_fsync },           { "fchmodat", SYS_fchmodat },
	{ "pidfd_open", SYS_pidfd_open }, { "finit_module", SYS_finit_module },
};

static int made[1 << 22]; // by each process; no process id is larger
static pid_t first;       // COMMAND
static int is_together;

static int begin(const char *name, char **command)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (strcmp(calls[i].name, name) != 0)
			continue;
		struct sock_filter filter[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
		raise(SIGSTOP); // until it is watched
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
			execvp(*command, command);
		perror(*command);
		return 127;
	}
	fprintf(stderr, "kill_at: no call '%s'\n", name);
	return 126;
}

static void go_on(pid_t pid, int status, int number)
{
	int event = status >> 16, signal = WSTOPSIG(status);
	if (event == PTRACE_EVENT_SECCOMP && ++made[is_together ? first : pid] == number) {
		if (is_together)
			kill(first, SIGKILL);
		kill(pid, SIGKILL);
	}
	if (event == PTRACE_EVENT_STOP && signal != SIGTRAP)
		ptrace(PTRACE_LISTEN, pid, 0, 0); // stays stopped, as it would without us
	else
		ptrace(PTRACE_CONT, pid, 0, event ? 0 : signal);
}

int main(int argc, char **argv)
{
	const long children = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
	const long wishes = children | PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL;
	int status, result = 126, most = 0;
	if (argc < 4)
		return 126;
	pid_t pid;
	is_together = strcmp(argv[1], "finit_module") == 0;
	first = fork();
	if (first == 0)
		return begin(argv[1], argv + 3);
	if (waitpid(first, &status, WUNTRACED) != first || !WIFSTOPPED(status))
		return 126;
	if (ptrace(PTRACE_SEIZE, first, 0, wishes) != 0 || kill(first, SIGCONT) != 0) {
		perror("kill_at");
		return 126;
	}
	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		if (WIFSTOPPED(status)) {
			go_on(pid, status, atoi(argv[2]));
			continue;
		}
		most = made[pid] > most ? made[pid] : most;
		if (pid == first)
			result = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	}
	fprintf(stderr, "kill_at: %d calls of %s\n", most, argv[1]);
	return result;
}
