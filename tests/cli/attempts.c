// SPDX-License-Identifier: Apache-2.0
// What a hostile driver source might try from inside of a compile (tests/cli/hostile.bats): one line each, with what
// became of it. `refused` is any error, `killed` any signal, `DONE` is a way out.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct attempt {
	const char *name;
	long (*call)(void);
};

#define CALL(name, ...)             \
	static long name(void)      \
	{                           \
		return __VA_ARGS__; \
	}
CALL(inet, syscall(SYS_socket, AF_INET, SOCK_STREAM, 0))
CALL(local, syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0))
CALL(hypervisor, syscall(SYS_socket, AF_VSOCK, SOCK_STREAM, 0))
CALL(netlink, syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0))
CALL(pair, syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, (int[2]){ 0 }))
CALL(unshare_user, syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS))
CALL(enter, syscall(SYS_setns, 0, 0))
CALL(trace, syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0))
CALL(write_other, syscall(SYS_process_vm_writev, getppid(), NULL, 0, NULL, 0, 0))
CALL(take_fd, syscall(438, 0, 0, 0)) // pidfd_getfd
CALL(bpf, syscall(SYS_bpf, 0, NULL, 0))
CALL(keys, syscall(SYS_keyctl, 0, -3, 1, 0, 0))
CALL(ring, syscall(425, 8, NULL)) // io_uring_setup
CALL(faults, syscall(SYS_userfaultfd, 0))
CALL(perf, syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0))
CALL(module, syscall(SYS_init_module, "", 0, ""))
CALL(kexec, syscall(SYS_kexec_load, 0, 0, NULL, 0))
CALL(mount_old, syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL))
CALL(mount_new, syscall(430, "tmpfs", 0))        // fsopen
CALL(mount_tree, syscall(428, AT_FDCWD, "/", 1)) // open_tree
CALL(new_root, syscall(SYS_chroot, "/tmp"))
CALL(pivot, syscall(SYS_pivot_root, "/tmp", "/tmp"))
CALL(by_handle, syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0))
CALL(device, mknod("/tmp/device", S_IFCHR | 0600, 1 << 8 | 1))
CALL(clock_set, syscall(SYS_clock_settime, 0, NULL))
CALL(persona, syscall(SYS_personality, 0x0040000))
CALL(root_again, setresuid(0, 0, 0))
CALL(passwords, open("/etc/shadow", O_RDONLY))
CALL(users, open("/etc/passwd", O_RDONLY))
CALL(opt, open("/opt", O_RDONLY))
CALL(sys, open("/sys", O_RDONLY))
CALL(kernel_log, open("/dev/kmsg", O_RDONLY))
CALL(core_pattern, open("/proc/sys/kernel/core_pattern", O_WRONLY))
CALL(usr, open("/usr/attempt", O_CREAT | O_WRONLY, 0600))
CALL(below_usr, open("/usr/share/doc/attempt", O_CREAT | O_WRONLY, 0600))
CALL(headers, open("/usr/src/attempt", O_CREAT | O_WRONLY, 0600))
CALL(top, open("/attempt", O_CREAT | O_WRONLY, 0600))
CALL(inherited, read(9, (char[1]){ 0 }, 1))
CALL(above, open("/..", O_DIRECTORY | O_WRONLY))

static long clone_user(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		_exit(0);
	return pid;
}

static long clone_three(void)
{
	unsigned long long args[11] = { CLONE_NEWUSER, [4] = SIGCHLD };
	long pid = syscall(435, args, sizeof(args));
	if (pid == 0)
		_exit(0);
	return pid;
}

static long hole(void) // a file that is all hole, and larger than any module
{
	int fd = open("hole", O_CREAT | O_WRONLY, 0600);
	signal(SIGXFSZ, SIG_IGN);
	return ftruncate(fd, 2LL << 30);
}

static long core(void)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };
	return setrlimit(RLIMIT_CORE, &limit);
}

#if defined(__x86_64__)
static long old_abi(long number, long a, long b, long c)
{
	long ret;
	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return ret < 0 ? -1 : ret;
}
CALL(int80_socket, old_abi(359, AF_UNIX, SOCK_STREAM, 0))
CALL(int80_ptrace, old_abi(26, 0, 0, 0))
CALL(x32_socket, syscall(0x40000000 | SYS_socket, AF_UNIX, SOCK_STREAM, 0))
#endif

#define ATTEMPT(name)       \
	{                   \
#name, name \
	}
static const struct attempt attempts[] = {
	ATTEMPT(inet),         ATTEMPT(local),        ATTEMPT(hypervisor),  ATTEMPT(netlink),    ATTEMPT(pair),
	ATTEMPT(unshare_user), ATTEMPT(clone_user),   ATTEMPT(clone_three), ATTEMPT(enter),      ATTEMPT(trace),
	ATTEMPT(write_other),  ATTEMPT(take_fd),      ATTEMPT(bpf),         ATTEMPT(keys),       ATTEMPT(ring),
	ATTEMPT(faults),       ATTEMPT(perf),         ATTEMPT(module),      ATTEMPT(kexec),      ATTEMPT(mount_old),
	ATTEMPT(mount_new),    ATTEMPT(mount_tree),   ATTEMPT(new_root),    ATTEMPT(pivot),      ATTEMPT(by_handle),
	ATTEMPT(device),       ATTEMPT(clock_set),    ATTEMPT(persona),     ATTEMPT(root_again), ATTEMPT(passwords),
	ATTEMPT(users),        ATTEMPT(opt),          ATTEMPT(sys),         ATTEMPT(kernel_log), ATTEMPT(core_pattern),
	ATTEMPT(usr),          ATTEMPT(below_usr),    ATTEMPT(headers),     ATTEMPT(top),        ATTEMPT(inherited),
	ATTEMPT(above),        ATTEMPT(hole),         ATTEMPT(core),
#if defined(__x86_64__)
	ATTEMPT(int80_socket), ATTEMPT(int80_ptrace), ATTEMPT(x32_socket),
#endif
};

int main(void)
{
	struct rlimit processes = { 0 };
	getrlimit(RLIMIT_NPROC, &processes);
	printf("processes: %llu\n", (unsigned long long)processes.rlim_max);
	fflush(stdout);
	for (size_t i = 0; i < sizeof(attempts) / sizeof(*attempts); i++) {
		int status = 0;
		pid_t pid = fork();
		if (pid == 0)
			_exit(attempts[i].call() < 0 ? errno == ENOSYS ? 2 : 1 : 0);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return 1;
		printf("attempt: %s %s\n", attempts[i].name,
		       WIFSIGNALED(status)      ? "killed" :
		       WEXITSTATUS(status) == 2 ? "no such call" :
		       WEXITSTATUS(status)      ? "refused" :
						  "DONE");
	}
	return 0;
}
