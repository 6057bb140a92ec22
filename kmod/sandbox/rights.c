// SPDX-License-Identifier: Apache-2.0
// The last step of the sandbox's child: no uid, capability, limit or system call more than a compiler needs.
#include "kmod/sandbox/jail.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static void clear_bounding_set(void)
{
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			sandbox_fail("drop", "the capability bounds");
}

static void become_user(uid_t uid)
{
	if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		sandbox_fail("change", "the user");
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
	if (syscall(SYS_capset, &header, none) < 0)
		sandbox_fail("drop", "the capabilities");
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

// Of one process, but for the number of processes. A file of 1 GiB may be all hole; who copies it makes it real.
static void set_limits(bool has_own_uid)
{
	set_limit(RLIMIT_CORE, 0);
	set_limit(RLIMIT_FSIZE, GIB);
	set_limit(RLIMIT_NOFILE, 4096);
	if (has_own_uid) // counted by uid: otherwise with all that its user runs besides
		set_limit(RLIMIT_NPROC, 4096);
}

// Signals from outside of the pid namespace reach its first process; but what was set before the uid changed is lost,
// and who died before it was set again is seen by the pipe alone.
static void end_with_parent(const struct jail *jail)
{
	struct pollfd pipe = { .fd = jail->alive, .events = POLLIN };
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		sandbox_fail("set", "the parent death signal");
	if (poll(&pipe, 1, 0) != 0) {
		errno = ECHILD;
		sandbox_fail("outlive", "the sandbox's first process");
	}
}

void sandbox_drop_rights(const struct jail *jail)
{
	bool is_other = geteuid() != jail->uid;
	clear_bounding_set();
	if (is_other)
		become_user(jail->uid);
	drop_capabilities();
	set_limits(is_other);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		sandbox_fail("set", "no_new_privs");
	end_with_parent(jail);
	sandbox_filter_calls();
	set_limit(RLIMIT_AS, 16 * GIB); // last: a sanitizer's own memory is beyond any limit
}
