// SPDX-License-Identifier: Apache-2.0
// The last step of the sandbox's child: no uid, capability, limit or system call more than a compiler needs.
#include "kmod/jail.h"
#include "kmod/sandbox.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static void drop_bounds(void)
{
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			jail_fail("drop", "the capability bounds");
}

void jail_become_nobody(void)
{
	if (setgroups(0, NULL) < 0 || setresgid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0 ||
	    setresuid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0)
		jail_fail("change", "the user");
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
	if (syscall(SYS_capset, &header, none) < 0)
		jail_fail("drop", "the capabilities");
}

static void limit(void)
{
	static const struct {
		__rlimit_resource_t resource;
		rlim_t most;
	} limits[] = { { RLIMIT_CORE, 0 }, { RLIMIT_FSIZE, (rlim_t)4 << 30 }, { RLIMIT_NOFILE, 4096 } };
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit now;
		if (getrlimit(limits[i].resource, &now) < 0)
			jail_fail("read", "a limit");
		if (now.rlim_max > limits[i].most)
			now.rlim_max = limits[i].most;
		now.rlim_cur = now.rlim_max;
		if (setrlimit(limits[i].resource, &now) < 0)
			jail_fail("set", "a limit");
	}
}

// What no compiler calls and what would give a way back or out, sockets included. The namespaces and the missing
// capabilities already forbid most of it; this covers kernels' mistakes.
static void filter(void)
{
	static const int forbidden[] = {
		SYS_socket,         SYS_socketpair,  SYS_mount,      SYS_umount2,
		SYS_pivot_root,     SYS_chroot,      SYS_unshare,    SYS_setns,
		SYS_ptrace,         SYS_init_module, SYS_bpf,        SYS_finit_module,
		SYS_keyctl,         SYS_add_key,     SYS_mknodat,    SYS_perf_event_open,
		SYS_io_uring_setup, SYS_userfaultfd, SYS_kexec_load, SYS_process_vm_writev,
	};
	struct sock_filter code[ARRAY_SIZE(forbidden) + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	size_t n = 1;
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++, n++)
		code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)forbidden[i],
						       (unsigned char)(ARRAY_SIZE(forbidden) - i), 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	struct sock_fprog program = { .len = (unsigned short)n, .filter = code };
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 && errno != EINVAL)
		jail_fail("filter", "system calls");
}

void jail_rights(void)
{
	drop_bounds();
	if (geteuid() == 0)
		jail_become_nobody();
	drop_capabilities();
	limit();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		jail_fail("set", "no_new_privs");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		jail_fail("set", "the parent death signal");
	filter();
}
