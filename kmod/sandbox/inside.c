// SPDX-License-Identifier: Apache-2.0
// The child's half of the sandbox: reads the parent's description back from the arguments and carries it out step by
// step: namespaces that share nothing with the machine's, files (jail.c), no more rights and system calls than a
// compiler needs. A process outside of the jail watches how much it writes.
#include "kmod/sandbox/jail.h"

#include "base/core/date.h"
#include "base/file/subtree.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static void write_proc(const char *path, const char *text)
{
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		sandbox_fail("write", path);
}

// Root of a container that may not make mounts may make them in a user namespace that it owns. That has two of the
// container's users: root, who may enter the directories on the way to the work, and the compile's. Writing a map of
// two needs CAP_SETUID outside, so a child stays there until it is written.
static void map_own_user(uid_t uid)
{
	int ready[2], status = -1;
	pid_t self = getpid();
	if (pipe2(ready, O_CLOEXEC) < 0)
		sandbox_fail("make", "a pipe");
	pid_t pid = fork();
	if (pid < 0)
		sandbox_fail("fork", "the writer of the user namespace's map");
	if (pid == 0) {
		char byte;
		close(ready[1]);
		if (read(ready[0], &byte, 1) == 1) {
			auto_str char *map = str_fmt("0 0 1\n%u %u 1\n", uid, uid),
				      *users = str_fmt("/proc/%d/uid_map", (int)self),
				      *groups = str_fmt("/proc/%d/gid_map", (int)self);
			write_proc(users, map);
			write_proc(groups, map);
		}
		_exit(0);
	}
	if (unshare(CLONE_NEWUSER) < 0)
		sandbox_fail("unshare", "a user namespace");
	if (write(ready[1], "", 1) != 1)
		sandbox_fail("wait for", "the user namespace's map");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0)
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1); // it has printed why
	close(ready[0]);
	close(ready[1]);
}

int sandbox_make_private(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		return 0;
	// After a chroot `/` may be a plain directory, of a mount whose root is out of sight. setns leads to the root
	// of the namespace, chroot back.
	auto_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd int dir = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (root < 0 || dir < 0 || ns < 0 || setns(ns, CLONE_NEWNS) < 0)
		return -1;
	int r = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	return fchdir(root) < 0 || chroot(".") < 0 || fchdir(dir) < 0 ? -1 : r;
}

static void enter_namespaces(const struct jail *jail)
{
	const int flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | (jail->is_networked ? 0 : CLONE_NEWNET);
	if (jail->enter) {
		// A pod sees its node's files through /proc/1/root, which the kernel does not bind. The paths are those
		// of the mount namespace that they are seen through.
		auto_fd int fd = open(jail->enter, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || setns(fd, CLONE_NEWNS) < 0)
			sandbox_fail("enter", jail->enter);
	}
	uid_t uid = geteuid();
	bool is_done = uid == 0 && unshare(flags) == 0;
	if (!is_done && uid == 0 && errno != EPERM)
		sandbox_fail("unshare", "mount, network, ipc and pid namespaces");
	if (!is_done && jail->uid != uid) {
		map_own_user(jail->uid);
		if (unshare(flags) < 0)
			sandbox_fail("unshare", "mount, network, ipc and pid namespaces");
	} else if (!is_done) {
		gid_t gid = getegid();
		if (unshare(flags | CLONE_NEWUSER) < 0)
			sandbox_fail("unshare", "user, mount, network, ipc and pid namespaces");
		auto_str char *users = str_fmt("%u %u 1", uid, uid), *groups = str_fmt("%u %u 1", gid, gid);
		write_proc("/proc/self/setgroups", "deny");
		write_proc("/proc/self/uid_map", users);
		write_proc("/proc/self/gid_map", groups);
	}
	if (sandbox_make_private() < 0)
		sandbox_fail("make private", "/");
}

static void set_limit(__rlimit_resource_t resource, rlim_t most)
{
	struct rlimit now;
	if (getrlimit(resource, &now) < 0)
		sandbox_fail("read", "a limit");
	if (now.rlim_max > most)
		now.rlim_max = most;
	now.rlim_cur = now.rlim_max;
	if (setrlimit(resource, &now) < 0)
		sandbox_fail("set", "a limit");
}

static const rlim_t GIB = (rlim_t)1 << 30;

// The system calls of a compile: those that compilers, make, shells and their tools are made of, and no other one.
// What is not in the list does not exist (ENOSYS), so programs do without it or with an older call: no sockets, no
// namespaces, no mounts, no tracing, no keys, no BPF, no io_uring, nothing that only capabilities allow, and nothing
// that a newer kernel brings. A call of another architecture (int 0x80 and x32 on x86-64) ends the process. Where the
// kernel cannot filter nothing is compiled.
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

// Of a package manager as well. Sockets of AF_UNIX are left out: the namespace has abstract ones of other programs.
static const char NETWORK_CALLS[] =
	"bind connect getpeername getsockname getsockopt recvfrom recvmmsg recvmsg sendmmsg "
	"sendmsg sendto setsockopt shutdown socketpair";
static const unsigned NETWORK_FAMILIES[] = { AF_INET, AF_INET6, AF_NETLINK };

enum { PROCESS_FLAGS = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID };

static void check_seccomp(int r)
{
	if (r == 0)
		return;
	errno = -r;
	sandbox_fail("filter", "system calls");
}

static void allow_calls(scmp_filter_ctx filter, const char *list)
{
	auto_strv struct strv names = { 0 };
	strv_split(&names, list, " ");
	for (size_t i = 0; i < names.count; i++) {
		int number = seccomp_syscall_resolve_name(names.items[i]);
		if (number >= 0) // negative: of other architectures only, or not known to this library
			check_seccomp(seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0));
	}
}

static void filter_calls(const struct jail *jail)
{
	static const struct {
		int call;
		unsigned mode;
	} fifos[] = { { SCMP_SYS(mknod), 1 }, { SCMP_SYS(mknodat), 2 } };
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	if (!filter)
		check_seccomp(-ENOMEM);
	check_seccomp(seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS));
	// 2: a binary tree instead of one comparison after the other.
	check_seccomp(seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2));
	allow_calls(filter, ALLOWED);
	if (jail->is_networked)
		allow_calls(filter, NETWORK_CALLS);
	for (size_t i = 0; i < ARRAY_SIZE(NETWORK_FAMILIES) && jail->is_networked; i++)
		check_seccomp(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
					       SCMP_A0(SCMP_CMP_EQ, NETWORK_FAMILIES[i], 0)));
	// clone3 hands its flags over in memory, where no filter sees them; without it the C library calls clone.
	check_seccomp(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				       SCMP_A0(SCMP_CMP_MASKED_EQ, (unsigned)PROCESS_FLAGS | CLONE_NEWNET, 0)));
	check_seccomp(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
				       SCMP_A0(SCMP_CMP_EQ, 0xffffffff, 0)));
	for (size_t i = 0; i < ARRAY_SIZE(fifos); i++) // make's job server
		if (fifos[i].call >= 0)
			check_seccomp(seccomp_rule_add(filter, SCMP_ACT_ALLOW, fifos[i].call, 1,
						       SCMP_CMP(fifos[i].mode, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFIFO)));
	check_seccomp(seccomp_load(filter));
	seccomp_release(filter);
}

static void drop_rights(const struct jail *jail)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
	bool is_other = geteuid() != jail->uid;
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			sandbox_fail("drop", "the capability bounds");
	if (is_other && (setgroups(0, NULL) < 0 || setresgid(jail->uid, jail->uid, jail->uid) < 0 ||
			 setresuid(jail->uid, jail->uid, jail->uid) < 0))
		sandbox_fail("change", "the user");
	if (syscall(SYS_capset, &header, none) < 0)
		sandbox_fail("drop", "the capabilities");
	// Of one process, except the number of processes, which is counted by uid. A file of 1 GiB may be all holes: a
	// copy makes it real.
	set_limit(RLIMIT_CORE, 0);
	set_limit(RLIMIT_FSIZE, GIB);
	set_limit(RLIMIT_NOFILE, 4096);
	if (is_other)
		set_limit(RLIMIT_NPROC, 4096);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		sandbox_fail("set", "no_new_privs");
	// Signals from outside the pid namespace reach its first process. But the death signal is lost when the uid
	// changes, and only the pipe shows a parent that died before it was set again.
	struct pollfd pipe = { .fd = jail->alive, .events = POLLIN };
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		sandbox_fail("set", "the parent death signal");
	if (poll(&pipe, 1, 0) != 0) {
		errno = ECHILD;
		sandbox_fail("outlive", "the sandbox's first process");
	}
	filter_calls(jail);
	set_limit(RLIMIT_AS, 16 * GIB); // last: a sanitizer's own memory is beyond any limit
}

enum { MOST_FAILURES = 60, SHARE = 100 }; // of the time, one part in SHARE at most is for looking

struct written {
	const struct write_limit *room;
	uint64_t bytes;
	size_t files;
};

static bool is_too_much(const struct written *w)
{
	return w->bytes > w->room->bytes || w->files > w->room->files;
}

static int count_entry(void *written, int dir, const char *name, const struct stat *st)
{
	struct written *w = written;
	(void)dir, (void)name;
	w->bytes += (uint64_t)st->st_blocks * 512;
	w->files++;
	return is_too_much(w) ? -1 : 0;
}

// Files come and go while it counts, which may end a count early, but not every one.
static char *check_limit(const struct write_limit *room, unsigned *failures)
{
	struct written sum = { .room = room };
	bool is_whole = true;
	for (size_t i = 0; i < ARRAY_SIZE(room->dirs); i++)
		if (room->dirs[i] >= 0 && subtree_each(room->dirs[i], ".", count_entry, &sum) < 0)
			is_whole = false;
	if (is_too_much(&sum))
		return sum.files > room->files ?
			       str_fmt("the compile made more than %zu files", room->files) :
			       str_fmt("the compile wrote more than %" PRIu64 " MiB", room->bytes >> 20);
	*failures = is_whole ? 0 : *failures + 1;
	return *failures < MOST_FAILURES ? NULL : str_dup("cannot count the files that the compile writes");
}

int sandbox_limit_writes(pid_t pid, const struct write_limit *room, char **ret_why)
{
	sigset_t child;
	int status = 0;
	unsigned failures = 0;
	struct timespec pause = { .tv_sec = 1 };
	*ret_why = NULL;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	for (;;) {
		pid_t ended = waitpid(pid, &status, *ret_why ? 0 : WNOHANG);
		if (ended == pid || (ended < 0 && errno != EINTR))
			return status;
		if (ended != 0 || sigtimedwait(&child, NULL, &pause) >= 0)
			continue;
		long start = clock_ms();
		*ret_why = check_limit(room, &failures);
		if (*ret_why)
			kill(pid, SIGKILL);
		long took = (clock_ms() - start) * SHARE;
		pause = (struct timespec){ .tv_sec = took < 1000 ? 1 : took / 1000 };
	}
}

static void parse_arguments(struct jail *jail, int argc, char **argv, char ***ret_program)
{
	static const struct {
		const char *option;
		size_t offset;
	} texts[] = { { "enter", offsetof(struct jail, enter) },
		      { "base", offsetof(struct jail, base) },
		      { "work", offsetof(struct jail, work) },
		      { "cache", offsetof(struct jail, cache) },
		      { "dir", offsetof(struct jail, dir) } };
	*jail = (struct jail){ .base = "", .mounts = mem_alloc((size_t)argc * sizeof(*jail->mounts)) };
	for (int i = 2; i < argc && !str_eq(argv[i], "--"); i++) {
		const char *value = strchr(argv[i], '='), *to = value ? strchr(value + 1, '=') : NULL;
		auto_str char *option = value ? str_ndup(argv[i] + 2, (size_t)(value - argv[i]) - 2) : NULL;
		bool is_scratch = str_eq(option, "scratch"), is_file = str_eq(option, "file");
		*ret_program = &argv[i + 2];
		if (!option)
			continue;
		value++;
		for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
			if (str_eq(option, texts[k].option))
				*(const char **)((char *)jail + texts[k].offset) = value;
		if (str_eq(option, "uid"))
			jail->uid = (uid_t)strtoul(value, NULL, 10);
		else if (str_eq(option, "parent"))
			jail->parent = (pid_t)strtol(value, NULL, 10);
		else if (str_eq(option, "opt"))
			jail->has_opt = true;
		else if (str_eq(option, "network"))
			jail->is_networked = true;
		else if ((is_scratch || is_file || str_eq(option, "show")) && to)
			jail->mounts[jail->count++] =
				(struct jail_mount){ .from = str_ndup(value, (size_t)(to - value)),
						     .to = str_dup(to + 1),
						     .is_scratch = is_scratch,
						     .is_file = is_file };
	}
}

static int open_shared_dir(const char *path)
{
	int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (path && fd < 0)
		sandbox_fail("open", path);
	return fd;
}

// When memory is short the OOM killer takes a compile first, before the node's own work. Where proc cannot be written
// it is like any other process.
static void be_expendable(void)
{
	static const char MOST[] = "1000";
	auto_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, MOST, strlen(MOST)) < 0)
		return;
}

// The first process of the pid namespace is a child; this one only waits and ends the same way, at once: it runs no
// exit handler of the program.
static void __attribute__((noreturn)) supervise_child(pid_t pid, int work, int cache)
{
	// NVIDIA's modules take some 3,000 files and 500 MiB; with a copy of the node's headers, 60,000.
	const struct write_limit room = { .dirs = { work, cache }, .bytes = (uint64_t)8 << 30, .files = 500000 };
	char *why;
	int status = sandbox_limit_writes(pid, &room, &why);
	if (why) {
		dprintf(STDERR_FILENO, "%s\n", why);
		_exit(SANDBOX_EXCEEDED);
	}
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	_exit(WEXITSTATUS(status));
}

int sandbox_main(int argc, char **argv)
{
	struct jail jail;
	char **program = NULL;
	int alive[2];
	closefrom(STDERR_FILENO + 1); // the program gets no descriptor that kmodsmith inherited
	parse_arguments(&jail, argc, argv, &program);
	if (!(jail.work || *jail.base) || !jail.dir || !program || !*program) {
		errno = EINVAL;
		sandbox_fail("start", SANDBOX_ARG);
	}
	umask(022);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		sandbox_fail("set", "the parent death signal");
	if (getppid() != jail.parent) // it has ended already
		_exit(SANDBOX_FAILED);
	be_expendable();
	enter_namespaces(&jail);
	int work = open_shared_dir(jail.work), cache = open_shared_dir(jail.cache);
	if (pipe2(alive, O_CLOEXEC) < 0)
		sandbox_fail("make", "a pipe");
	pid_t pid = fork();
	if (pid < 0)
		sandbox_fail("fork", *program);
	if (pid > 0)
		supervise_child(pid, work, cache);
	close(alive[1]);
	jail.alive = alive[0];
	sandbox_mount_files(&jail);
	drop_rights(&jail);
	execve(*program, program, environ);
	sandbox_fail("start", *program);
}
