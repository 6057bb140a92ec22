// SPDX-License-Identifier: Apache-2.0
// The system calls of a compile: those that compilers, make, shells and their tools are made of, and no other one.
//
// What is not in the list does not exist (ENOSYS), so programs do without it or with an older call: no sockets, no
// namespaces, no mounts, no tracing, no keys, no BPF, no io_uring, nothing that only capabilities allow, and nothing
// that a newer kernel brings. A call of another architecture (int 0x80 and x32 on x86-64) ends the process. Where the
// kernel cannot filter nothing is compiled.
#include "kmod/sandbox/jail.h"

#include <errno.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <sys/stat.h>

// The library knows which of them an architecture has.
static const char ALLOWED[] =
	// processes
	"arch_prctl capget execve execveat exit exit_group fork getpgid getpgrp getpid getppid getpriority getrlimit "
	"getrusage getsid gettid kill nanosleep pause prctl prlimit64 restart_syscall rseq sched_get_priority_max "
	"sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_setaffinity "
	"sched_yield set_robust_list get_robust_list set_tid_address setpgid setpriority setrlimit setsid sysinfo "
	"tgkill times tkill uname ustat vfork wait4 waitid waitpid riscv_flush_icache riscv_hwprobe "
	"getcpu getegid geteuid getgid getgroups getresgid getresuid getuid umask "
	// posix_spawn(3) gives up other uids than the real one; without capabilities there is no other one to take
	"setfsgid setfsuid setgid setregid setresgid setresuid setreuid setuid "
	// memory and locks
	"brk futex futex_waitv madvise membarrier memfd_create mincore mmap mmap2 mprotect mremap msync munmap "
	// signals and time
	"alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday rt_sigaction rt_sigpending "
	"rt_sigprocmask "
	"rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait setitimer sigaction sigaltstack signal signalfd4 "
	"sigprocmask sigreturn time timer_create timer_delete timer_getoverrun timer_gettime timer_settime "
	"timerfd_create timerfd_gettime timerfd_settime "
	// open files
	"close close_range copy_file_range dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 "
	"epoll_wait eventfd eventfd2 fadvise64 fallocate fcntl fdatasync flock fstat fstatfs fsync ftruncate getdents "
	"getdents64 ioctl lseek newfstatat pipe pipe2 poll ppoll pread64 preadv preadv2 pselect6 pwrite64 pwritev "
	"pwritev2 read readahead readv select sendfile splice sync_file_range tee write writev _llseek _newselect "
	// names
	"access chdir chmod chown creat faccessat faccessat2 fchdir fchmod fchmodat fchmodat2 fchown fchownat "
	"fgetxattr flistxattr fremovexattr fsetxattr futimesat getcwd getrandom getxattr lchown lgetxattr link linkat "
	"listxattr llistxattr lremovexattr lsetxattr lstat mkdir mkdirat open openat openat2 readlink readlinkat "
	"removexattr rename renameat renameat2 rmdir setxattr stat statfs statx symlink symlinkat truncate unlink "
	"unlinkat utime utimensat utimes";

enum { PROCESS_FLAGS = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID };

static void check_seccomp(int r)
{
	if (r == 0)
		return;
	errno = -r;
	sandbox_fail("filter", "system calls");
}

static void allow_call(scmp_filter_ctx filter, const char *name)
{
	int number = seccomp_syscall_resolve_name(name);
	// Negative: of other architectures only, or not known to this library.
	if (number >= 0)
		check_seccomp(seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0));
}

// clone3 hands its flags over in memory, where no filter sees them; without it the C library calls clone.
static void allow_some(scmp_filter_ctx filter)
{
	static const struct {
		int call;
		unsigned mode;
	} fifos[] = { { SCMP_SYS(mknod), 1 }, { SCMP_SYS(mknodat), 2 } };
	check_seccomp(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				       SCMP_A0(SCMP_CMP_MASKED_EQ, (unsigned)PROCESS_FLAGS | CLONE_NEWNET, 0)));
	check_seccomp(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
				       SCMP_A0(SCMP_CMP_EQ, 0xffffffff, 0)));
	for (size_t i = 0; i < ARRAY_SIZE(fifos); i++) // make's job server
		if (fifos[i].call >= 0)
			check_seccomp(seccomp_rule_add(filter, SCMP_ACT_ALLOW, fifos[i].call, 1,
						       SCMP_CMP(fifos[i].mode, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFIFO)));
}

void sandbox_filter_calls(void)
{
	auto_strv struct strv names = { 0 };
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	if (!filter)
		check_seccomp(-ENOMEM);
	check_seccomp(seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS));
	check_seccomp(
		seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2)); // a tree, not one comparison after the other
	strv_split(&names, ALLOWED, " ");
	for (size_t i = 0; i < names.count; i++)
		allow_call(filter, names.items[i]);
	allow_some(filter);
	check_seccomp(seccomp_load(filter));
	seccomp_release(filter);
}
